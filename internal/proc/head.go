package proc

// Head is an io.Writer that keeps the beginning of what is written to it.
type Head struct {
	limit int
	kept  []byte
}

// NewHead returns a Head of n bytes.
func NewHead(n int) *Head { return &Head{limit: n} }

// Write never fails.
func (h *Head) Write(p []byte) (int, error) {
	h.kept = append(h.kept, p[:min(len(p), h.limit-len(h.kept))]...)
	return len(p), nil
}

// Bytes returns what is kept.
func (h *Head) Bytes() []byte { return h.kept }
