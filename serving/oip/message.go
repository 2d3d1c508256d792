// Package oip speaks the Open Inference Protocol, version 2, over REST with JSON tensors: the messages, their codec and their
// errors. The protocol is described at github.com/kserve/open-inference-protocol.
package oip

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"
)

// InferRequest is the body of POST .../infer.
type InferRequest struct {
	ID string `json:"id,omitempty"`
	// Parameters of the request. Sluice reads `label`, the value the model should answer.
	Parameters map[string]any    `json:"parameters,omitempty"`
	Inputs     []Tensor          `json:"inputs"`
	Outputs    []RequestedOutput `json:"outputs,omitempty"`
}

// RequestedOutput names an output the client wants. Without any, all are sent.
type RequestedOutput struct {
	Name string `json:"name"`
}

// InferResponse is the answer to an InferRequest.
type InferResponse struct {
	ModelName    string   `json:"model_name"`
	ModelVersion string   `json:"model_version,omitempty"`
	ID           string   `json:"id,omitempty"`
	Outputs      []Tensor `json:"outputs"`
}

// TensorMetadata describes an input or output. A dimension of -1 may have any size.
type TensorMetadata struct {
	Name     string   `json:"name"`
	Datatype Datatype `json:"datatype"`
	Shape    []int64  `json:"shape"`
}

// ModelMetadata is the answer to GET v2/models/M.
type ModelMetadata struct {
	Name     string           `json:"name"`
	Versions []string         `json:"versions,omitempty"`
	Platform string           `json:"platform"`
	Inputs   []TensorMetadata `json:"inputs"`
	Outputs  []TensorMetadata `json:"outputs"`
}

// ServerMetadata is the answer to GET v2.
type ServerMetadata struct {
	Name       string   `json:"name"`
	Version    string   `json:"version"`
	Extensions []string `json:"extensions"`
}

// Error is an answer that is not a result: {"error": "..."} with an HTTP status.
type Error struct {
	Status  int
	Message string
	// RetryAfter is how long to wait before the same is asked again, in whole seconds; 0 says nothing of it.
	RetryAfter time.Duration
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Invalid makes the error of a request that is itself wrong.
func Invalid(format string, args ...any) error {
	return &Error{Status: http.StatusBadRequest, Message: fmt.Sprintf(format, args...)}
}

// ErrorStatus returns the HTTP status that err is answered with: an Error's own, else 500.
func ErrorStatus(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Status
	}
	return http.StatusInternalServerError
}

// DecodeRequest reads one InferRequest of at most limit bytes. Its errors are Errors.
func DecodeRequest(w http.ResponseWriter, r *http.Request, limit int64) (*InferRequest, error) {
	body, err := ReadBody(w, r, limit)
	if err != nil {
		return nil, err
	}
	return ParseRequest(body)
}

// ReadBody reads the body of an InferRequest, at most limit bytes. Its errors are Errors; one that r.Body returns stays as it is.
func ReadBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.Header.Get("Inference-Header-Content-Length") != "" {
		return nil, Invalid("binary tensors are not supported; send the data as JSON")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err == nil {
		return body, nil
	}
	if own, ok := errors.AsType[*Error](err); ok {
		return nil, own
	}
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, &Error{Status: http.StatusRequestEntityTooLarge, Message: fmt.Sprintf("the request is larger than %d bytes", limit)}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, &Error{Status: http.StatusRequestTimeout, Message: "the request's body did not arrive in time"}
	}
	return nil, Invalid("the request's body could not be read: %v", err)
}

// ParseRequest reads one InferRequest and checks that its inputs have distinct names.
func ParseRequest(body []byte) (*InferRequest, error) {
	var req InferRequest
	if err := json.Unmarshal(body, &req); err != nil {
		return nil, Invalid("the request is not an inference request: %v", err)
	}
	if len(req.Inputs) == 0 {
		return nil, Invalid("the request has no inputs")
	}
	seen := map[string]bool{}
	for _, in := range req.Inputs {
		if seen[in.Name] {
			return nil, Invalid("input %q is listed twice", in.Name)
		}
		seen[in.Name] = true
	}
	return &req, nil
}

// WriteJSON answers with v.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		status = http.StatusInternalServerError
		body, _ = json.Marshal(map[string]string{"error": err.Error()})
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // the client may be gone; there is nobody to tell
}

// WriteError answers with the protocol's error body.
func WriteError(w http.ResponseWriter, err error) {
	if e, ok := errors.AsType[*Error](err); ok && e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.FormatFloat(e.RetryAfter.Seconds(), 'f', 0, 64))
	}
	WriteJSON(w, ErrorStatus(err), map[string]string{"error": err.Error()})
}
