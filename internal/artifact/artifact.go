// Package artifact names the immutable, content-addressed trees of files that flow between steps. It holds data types only,
// so that the language and the workflows can speak of artifacts without touching a store.
package artifact

// Type says what an artifact holds.
type Type string

// The artifact types.
const (
	Dataset    Type = "dataset"
	Model      Type = "model"
	Checkpoint Type = "checkpoint"
	Workspace  Type = "workspace"
)

// Ref names one artifact. It is small and travels through workflow history in place of the data.
type Ref struct {
	Type Type `json:"type"`
	// Digest is "sha256:<hex>" of the canonical manifest; equal trees have equal digests.
	Digest string `json:"digest"`
	// Bytes is the total size of the files.
	Bytes int64 `json:"bytes"`
	// Files is how many files the tree has.
	Files int `json:"files"`
}

// IsZero reports whether r names nothing.
func (r Ref) IsZero() bool { return r.Digest == "" }

// Manifest lists the files of an artifact, sorted by path. Its canonical JSON is what the digest is taken of: paths,
// contents and the executable bit, never times or owners.
type Manifest struct {
	Type  Type   `json:"type"`
	Files []File `json:"files"`
	// Meta holds facts that belong to the artifact's identity, such as a dataset's schema and split sizes.
	Meta map[string]string `json:"meta,omitempty"`
}

// File is one regular file of an artifact.
type File struct {
	// Path is relative, slash-separated and clean; it never leaves the tree.
	Path   string `json:"path"`
	Digest string `json:"digest"`
	Bytes  int64  `json:"bytes"`
	Exec   bool   `json:"exec,omitempty"`
}

// Changes returns by path which files of a list are not as they were before, each as it was, zero for a new one, and which have been removed.
func Changes(before, now []File) (changed, removed map[string]File) {
	changed, removed = map[string]File{}, map[string]File{}
	for _, f := range before {
		removed[f.Path] = f
	}
	for _, f := range now {
		if was := removed[f.Path]; was != f {
			changed[f.Path] = was
		}
		delete(removed, f.Path)
	}
	return changed, removed
}
