package oip

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"unicode/utf8"
)

// JSONLengthHeader says how many bytes of a body are JSON; binary data follow them.
const JSONLengthHeader = "Inference-Header-Content-Length"

const (
	// BinaryExtension is the name of the extension for binary data, by which servers list it.
	BinaryExtension = "binary_tensor_data"
	// BinaryOutput is the parameter of a request that asks for all outputs as binary data.
	BinaryOutput = "binary_data_output"
)

// Message is a request or an answer as REST carries it.
type Message struct {
	Body []byte
	// JSON is how many bytes of Body are JSON, where binary data follow; 0 where all of it is JSON.
	JSON int
}

// SetHeader says in a header what the message is.
func (m Message) SetHeader(h http.Header) {
	if m.JSON == 0 {
		h.Set("Content-Type", "application/json")
		return
	}
	h.Set("Content-Type", "application/octet-stream")
	h.Set(JSONLengthHeader, strconv.Itoa(m.JSON))
}

// cut divides a body into its JSON and the binary data that follow.
func cut(body []byte, header http.Header) (head, binary []byte, err error) {
	length := header.Get(JSONLengthHeader)
	if length == "" {
		return body, nil, nil
	}
	n, err := strconv.ParseUint(length, 10, 63)
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("the header %s is %q; it must be a number of bytes", JSONLengthHeader, length)
	case n > uint64(len(body)):
		return nil, nil, fmt.Errorf("the header %s is %d, but the body has only %d bytes", JSONLengthHeader, n, len(body))
	case n == 0:
		return nil, nil, fmt.Errorf("the header %s is 0, but the body must begin with JSON that describes the binary data", JSONLengthHeader)
	}
	return body[:n], body[n:], nil
}

// tensorJSON is a tensor in the JSON of a message.
type tensorJSON struct {
	Name       string           `json:"name"`
	Shape      []int64          `json:"shape"`
	Datatype   Datatype         `json:"datatype"`
	Parameters tensorParameters `json:"parameters,omitzero"`
	Data       json.RawMessage  `json:"data,omitempty"`
}

type tensorParameters struct {
	BinaryDataSize     *int64 `json:"binary_data_size,omitempty"`
	SharedMemoryRegion string `json:"shared_memory_region,omitempty"`
}

// tensors reads the tensors of a message, and the binary data that follow it, all of them.
func tensors(wire []tensorJSON, binary []byte) ([]Tensor, error) {
	if wire == nil {
		return nil, nil
	}
	out := make([]Tensor, len(wire))
	for i, w := range wire {
		var err error
		if out[i], binary, err = w.tensor(binary); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", w.Name, err)
		}
	}
	if len(binary) > 0 {
		return nil, fmt.Errorf("%d bytes follow the binary data of the tensors", len(binary))
	}
	return out, nil
}

// tensor reads a tensor, and returns the binary data that are left for the next.
func (w tensorJSON) tensor(binary []byte) (Tensor, []byte, error) {
	n, err := CountElements(w.Shape)
	if err != nil {
		return Tensor{}, nil, err
	}
	t := Tensor{Name: w.Name, Shape: w.Shape}
	if w.Parameters.SharedMemoryRegion != "" {
		return Tensor{}, nil, errors.New("its data are in shared memory, which is not supported; send them in the message")
	}
	if size := w.Parameters.BinaryDataSize; size != nil {
		switch {
		case len(w.Data) > 0:
			return Tensor{}, nil, errors.New("it has both data and binary_data_size")
		case *size < 0 || *size > int64(len(binary)):
			return Tensor{}, nil, fmt.Errorf("binary_data_size is %d, but %d bytes of binary data are left for it", *size, len(binary))
		}
		if t.Data, err = DecodeBinary(w.Datatype, n, binary[:*size]); err != nil {
			return Tensor{}, nil, err
		}
		return t, binary[*size:], nil
	}
	data, have, err := DecodeData(w.Datatype, w.Data)
	if err != nil {
		return Tensor{}, nil, err
	}
	if int64(have) != n {
		return Tensor{}, nil, fmt.Errorf("shape %v has %d elements, but data has %d", w.Shape, n, have)
	}
	t.Data = data
	return t, binary, nil
}

// UnmarshalJSON reads the protocol's JSON form; the data may be flat or nested as the shape is.
func (t *Tensor) UnmarshalJSON(raw []byte) error {
	var wire tensorJSON
	if err := json.Unmarshal(raw, &wire); err != nil {
		return err
	}
	read, err := tensors([]tensorJSON{wire}, nil)
	if err != nil {
		return err
	}
	*t = read[0]
	return nil
}

// MarshalJSON writes the protocol's JSON form.
func (t Tensor) MarshalJSON() ([]byte, error) {
	data, err := t.json()
	if err != nil {
		return nil, err
	}
	return json.Marshal(tensorJSON{Name: t.Name, Shape: t.Shape, Datatype: t.Datatype(), Data: data})
}

// json is the data in JSON.
func (t Tensor) json() (json.RawMessage, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	values := t.Data
	switch data := t.Data.(type) {
	case []Float16, []BFloat16:
		return nil, fmt.Errorf("tensor %q is %s, which has no JSON form; ask for binary data", t.Name, t.Datatype())
	case []string:
		if slices.ContainsFunc(data, func(s string) bool { return !utf8.ValidString(s) }) {
			return nil, fmt.Errorf("tensor %q has bytes that are not UTF-8, which JSON has no form for; ask for binary data", t.Name)
		}
	case []uint8: // encoding/json would write base64 text
		wide := make([]uint16, len(data))
		for i, v := range data {
			wide[i] = uint16(v)
		}
		values = wide
	}
	return json.Marshal(values)
}

// encode makes a message of what wrap makes of the tensors' JSON, and the binary data of those that binary picks.
func encode(list []Tensor, binary func(Tensor) bool, wrap func([]tensorJSON) any) (Message, error) {
	wire := make([]tensorJSON, len(list))
	var data []byte
	hasBinary := false
	for i, t := range list {
		wire[i] = tensorJSON{Name: t.Name, Shape: t.Shape, Datatype: t.Datatype()}
		var err error
		if !binary(t) {
			if wire[i].Data, err = t.json(); err != nil {
				return Message{}, err
			}
			continue
		}
		before := len(data)
		if data, err = t.AppendBinary(data); err != nil {
			return Message{}, err
		}
		size := int64(len(data) - before)
		wire[i].Parameters.BinaryDataSize, hasBinary = &size, true
	}
	head, err := json.Marshal(wrap(wire))
	if err != nil {
		return Message{}, err
	}
	if !hasBinary {
		return Message{Body: head}, nil
	}
	return Message{Body: append(head, data...), JSON: len(head)}, nil
}

type requestJSON struct {
	ID         string            `json:"id,omitempty"`
	Parameters map[string]any    `json:"parameters,omitempty"`
	Inputs     []tensorJSON      `json:"inputs"`
	Outputs    []RequestedOutput `json:"outputs,omitempty"`
}

// Encode writes the request, with binary data where they are wanted.
func (r InferRequest) Encode(binary func(Tensor) bool) (Message, error) {
	return encode(r.Inputs, binary, func(inputs []tensorJSON) any {
		return requestJSON{ID: r.ID, Parameters: r.Parameters, Inputs: inputs, Outputs: r.Outputs}
	})
}

type responseJSON struct {
	ModelName    string       `json:"model_name"`
	ModelVersion string       `json:"model_version,omitempty"`
	ID           string       `json:"id,omitempty"`
	Outputs      []tensorJSON `json:"outputs"`
}

// Encode writes the answer in the form that its request asks for. An error says what that form cannot carry.
func (r InferResponse) Encode(to *InferRequest) (Message, error) {
	m, err := encode(r.Outputs, func(t Tensor) bool { return to.wantsBinary(t.Name) }, func(outputs []tensorJSON) any {
		return responseJSON{ModelName: r.ModelName, ModelVersion: r.ModelVersion, ID: r.ID, Outputs: outputs}
	})
	if err != nil {
		return Message{}, Invalid("%v", err)
	}
	return m, nil
}

// wantsBinary reports whether an output is wanted as binary data.
func (r *InferRequest) wantsBinary(output string) bool {
	for _, o := range r.Outputs {
		if o.Name == output && o.Parameters.BinaryData != nil {
			return *o.Parameters.BinaryData
		}
	}
	all, _ := r.Parameters[BinaryOutput].(bool)
	return all
}

// ParseResponse reads the answer to an InferRequest.
func ParseResponse(body []byte, header http.Header) (*InferResponse, error) {
	head, binary, err := cut(body, header)
	if err != nil {
		return nil, err
	}
	var wire responseJSON
	if err := json.Unmarshal(head, &wire); err != nil {
		return nil, err
	}
	outputs, err := tensors(wire.Outputs, binary)
	if err != nil {
		return nil, err
	}
	return &InferResponse{ModelName: wire.ModelName, ModelVersion: wire.ModelVersion, ID: wire.ID, Outputs: outputs}, nil
}

// DecodeRequest reads one InferRequest of at most limit bytes. Its errors are Errors.
func DecodeRequest(w http.ResponseWriter, r *http.Request, limit int64) (*InferRequest, error) {
	body, err := ReadBody(w, r, limit)
	if err != nil {
		return nil, err
	}
	return ParseRequest(body, r.Header)
}

// ReadBody reads the body of an InferRequest, at most limit bytes. Its errors are Errors; one that r.Body returns stays as it is.
func ReadBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	tooLarge := &Error{Status: http.StatusRequestEntityTooLarge, Message: fmt.Sprintf("the request is larger than %d bytes", limit)}
	if r.ContentLength > limit {
		return nil, tooLarge
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, &Error{Status: http.StatusUnsupportedMediaType, Message: "compressed requests are not supported; send the body without Content-Encoding: " + encoding}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err == nil {
		return body, nil
	}
	if own, ok := errors.AsType[*Error](err); ok {
		return nil, own
	}
	if _, reached := errors.AsType[*http.MaxBytesError](err); reached {
		return nil, tooLarge
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, &Error{Status: http.StatusRequestTimeout, Message: "the request's body did not arrive in time"}
	}
	return nil, Invalid("the request's body could not be read: %v", err)
}

// ParseRequest reads one InferRequest and checks it. Its errors are Errors with status 400.
func ParseRequest(body []byte, header http.Header) (*InferRequest, error) {
	head, binary, err := cut(body, header)
	if err != nil {
		return nil, Invalid("%v", err)
	}
	var wire requestJSON
	if err := json.Unmarshal(head, &wire); err != nil {
		return nil, Invalid("the request is not an inference request: %v", err)
	}
	inputs, err := tensors(wire.Inputs, binary)
	if err != nil {
		return nil, Invalid("the request is not an inference request: %v", err)
	}
	req := &InferRequest{ID: wire.ID, Parameters: wire.Parameters, Inputs: inputs, Outputs: wire.Outputs}
	return req, req.Check()
}

// Check reports what no model could make sense of. Its errors are Errors with status 400.
func (r *InferRequest) Check() error {
	if len(r.Inputs) == 0 {
		return Invalid("the request has no inputs")
	}
	seen := map[string]bool{}
	for _, in := range r.Inputs {
		if seen[in.Name] {
			return Invalid("input %q is listed twice", in.Name)
		}
		seen[in.Name] = true
	}
	if all, given := r.Parameters[BinaryOutput]; given {
		if _, ok := all.(bool); !ok {
			return Invalid("parameters.%s is %v; it must be a boolean", BinaryOutput, all)
		}
	}
	for _, out := range r.Outputs {
		if out.Parameters.Classification != 0 {
			return Invalid("output %q is asked for as classes (parameters.classification), which is not supported; ask for the output itself", out.Name)
		}
	}
	return nil
}
