package access

import (
	"time"
	"unicode/utf8"
)

// maxText bounds what a client decides of a line, in bytes of each text.
const maxText = 512

// Entry is one request. It has no header values and nothing of bodies or queries, which may be secret.
type Entry struct {
	// Time is when the request began.
	Time   time.Time `json:"time"`
	Target string    `json:"target"`
	Method string    `json:"method"`
	// Path is without the query.
	Path   string `json:"path"`
	Status int    `json:"status"`
	// GRPC is the status of gRPC, whose Status is 200; nil for other requests.
	GRPC *int `json:"grpc_status,omitempty"`
	// Message is the number of a request in its stream, from 1; 0 for a request by itself, and for the stream as a whole.
	Message int64 `json:"message,omitempty"`
	// Duration in milliseconds, until the answer was written.
	Duration float64 `json:"duration_ms"`
	// In and Out are bytes of bodies.
	In  int64 `json:"bytes_in"`
	Out int64 `json:"bytes_out"`
	// Client is the address that the connection comes from.
	Client string `json:"client,omitempty"`
	// Key names the caller's API key, and Subject is that of the caller's token.
	Key     string `json:"key,omitempty"`
	Subject string `json:"subject,omitempty"`
	// Release is the version that the request was given to, and Model the digest of its model.
	Release string `json:"release,omitempty"`
	Model   string `json:"model,omitempty"`
	// Named: the client named the release. Sticky: the request's key decided.
	Named  bool `json:"named,omitempty"`
	Sticky bool `json:"sticky,omitempty"`
	// Shadow is the version that got a copy.
	Shadow string `json:"shadow,omitempty"`
	// Trace is the trace ID of W3C Trace Context.
	Trace string `json:"trace_id,omitempty"`
	// Aborted: the client left before all of the answer was written.
	Aborted bool `json:"aborted,omitempty"`
}

// bound cuts the texts that a client decides.
func (e *Entry) bound() {
	for _, text := range []*string{&e.Method, &e.Path, &e.Subject} {
		if len(*text) <= maxText {
			continue
		}
		end := maxText
		for !utf8.RuneStart((*text)[end]) && end > maxText-utf8.UTFMax {
			end--
		}
		*text = (*text)[:end] + "..."
	}
}
