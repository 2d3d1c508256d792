// Package oip speaks the Open Inference Protocol, version 2, over REST, with its extension for binary tensors: the messages, their codec
// and their errors. The protocol is described at github.com/kserve/open-inference-protocol, the extension at
// github.com/triton-inference-server/server (docs/protocol/extension_binary_data.md).
package oip

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// InferRequest is the body of POST .../infer.
type InferRequest struct {
	ID string `json:"id,omitempty"`
	// Parameters of the request. Sluice reads `label`, the value the model should answer, and `binary_data_output`.
	Parameters map[string]any    `json:"parameters,omitempty"`
	Inputs     []Tensor          `json:"inputs"`
	Outputs    []RequestedOutput `json:"outputs,omitempty"`
}

// RequestedOutput names an output the client wants. Without any, all are sent.
type RequestedOutput struct {
	Name       string           `json:"name"`
	Parameters OutputParameters `json:"parameters,omitzero"`
}

// OutputParameters say in which form an output is wanted.
type OutputParameters struct {
	// BinaryData, when set, overrides what binary_data_output says of the whole request.
	BinaryData *bool `json:"binary_data,omitempty"`
	// Classification, an extension that Sluice does not have, asks for the names of that many classes instead of the output.
	Classification int `json:"classification,omitempty"`
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
	return &Error{Status: http.StatusBadRequest, Message: Shorten(fmt.Sprintf(format, args...))}
}

// TooLarge makes the error of a request of more than so many bytes.
func TooLarge(limit int64) error {
	return &Error{Status: http.StatusRequestEntityTooLarge, Message: fmt.Sprintf("the request is larger than %d bytes", limit)}
}

// ErrorStatus returns the HTTP status that err is answered with: an Error's own, else 500.
func ErrorStatus(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Status
	}
	return http.StatusInternalServerError
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

// WriteMessage answers with an inference.
func WriteMessage(w http.ResponseWriter, m Message) {
	m.SetHeader(w.Header())
	w.Header().Set("Content-Length", strconv.Itoa(len(m.Body)))
	_, _ = w.Write(m.Body) // the client may be gone; there is nobody to tell
}

// WriteError answers with the protocol's error body.
func WriteError(w http.ResponseWriter, err error) {
	if e, ok := errors.AsType[*Error](err); ok && e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.FormatFloat(e.RetryAfter.Seconds(), 'f', 0, 64))
	}
	WriteJSON(w, ErrorStatus(err), map[string]string{"error": Shorten(err.Error())})
}
