package oip

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"unicode/utf16"
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

// tensorJSON is a tensor in the JSON of a message that is read.
type tensorJSON struct {
	Name       string           `json:"name"`
	Shape      dimensions       `json:"shape"`
	Datatype   Datatype         `json:"datatype"`
	Parameters tensorParameters `json:"parameters"`
	Data       json.RawMessage  `json:"data"`
}

type tensorParameters struct {
	BinaryDataSize     *int64 `json:"binary_data_size"`
	SharedMemoryRegion string `json:"shared_memory_region"`
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
	data, have, err := decodeData(w.Datatype, w.Data, n)
	if err != nil {
		return Tensor{}, nil, err
	}
	if int64(have) != n {
		return Tensor{}, nil, fmt.Errorf("shape %s has %d elements, but data has %d", shown(w.Shape), n, have)
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
func (t Tensor) MarshalJSON() ([]byte, error) { return t.appendJSON(nil) }

// appendJSON appends the protocol's JSON form.
func (t Tensor) appendJSON(to []byte) ([]byte, error) {
	if err := t.Check(); err != nil {
		return to, err
	}
	e := elements[t.Datatype()]
	if e.write == nil {
		return to, fmt.Errorf("tensor %q is %s, which has no JSON form; ask for binary data", t.Name, t.Datatype())
	}
	if texts, ok := t.Data.([]string); ok && slices.ContainsFunc(texts, func(s string) bool { return !utf8.ValidString(s) }) {
		return to, fmt.Errorf("tensor %q has bytes that are not UTF-8, which JSON has no form for; ask for binary data", t.Name)
	}
	to = append(t.appendHead(to), `,"data":`...)
	return append(e.write(to, t.Data), '}'), nil
}

// appendBinaryJSON appends the JSON of a tensor that has so many bytes of binary data.
func (t Tensor) appendBinaryJSON(to []byte, size int) []byte {
	to = append(t.appendHead(to), `,"parameters":{"binary_data_size":`...)
	return append(strconv.AppendInt(to, int64(size), 10), `}}`...)
}

func (t Tensor) appendHead(to []byte) []byte {
	to = appendText(append(to, `{"name":`...), t.Name)
	to = append(to, `,"shape":[`...)
	for i, d := range t.Shape {
		if i > 0 {
			to = append(to, ',')
		}
		to = strconv.AppendInt(to, d, 10)
	}
	to = append(to, `],"datatype":"`...)
	return append(append(to, t.Datatype()...), '"')
}

// encode makes a message of the beginning of an object, with the tensors under a key, and the binary data of those that binary picks.
func encode(head []byte, key string, list []Tensor, binary func(Tensor) bool) (Message, error) {
	if len(head) > 1 {
		head = append(head, ',')
	}
	head = append(appendText(head, key), ":["...)
	var err error
	var data []byte
	hasBinary := false
	for i, t := range list {
		if i > 0 {
			head = append(head, ',')
		}
		if !binary(t) {
			if head, err = t.appendJSON(head); err != nil {
				return Message{}, err
			}
			continue
		}
		before := len(data)
		if data, err = t.AppendBinary(data); err != nil {
			return Message{}, err
		}
		head = t.appendBinaryJSON(head, len(data)-before)
		hasBinary = true
	}
	head = append(head, "]}"...)
	if !hasBinary {
		return Message{Body: head}, nil
	}
	return Message{Body: append(head, data...), JSON: len(head)}, nil
}

type requestJSON struct {
	ID         string            `json:"id,omitempty"`
	Parameters requestParameters `json:"parameters,omitempty"`
	Outputs    []RequestedOutput `json:"outputs,omitempty"`
	Inputs     []tensorJSON      `json:"inputs,omitempty"`
}

// Encode writes the request, with binary data where they are wanted.
func (r InferRequest) Encode(binary func(Tensor) bool) (Message, error) {
	envelope, err := json.Marshal(requestJSON{ID: r.ID, Parameters: r.Parameters, Outputs: r.Outputs})
	if err != nil {
		return Message{}, err
	}
	return encode(envelope[:len(envelope)-1], "inputs", r.Inputs, binary)
}

type responseJSON struct {
	ModelName    string       `json:"model_name"`
	ModelVersion string       `json:"model_version,omitempty"`
	ID           string       `json:"id,omitempty"`
	Outputs      []tensorJSON `json:"outputs,omitempty"`
}

const usualHead = 512 // bytes of an answer before its data, and of a short one as a whole

// Encode writes the answer in the form that its request asks for. An error says what that form cannot carry.
func (r InferResponse) Encode(to *InferRequest) (Message, error) {
	head := appendText(append(make([]byte, 0, usualHead), `{"model_name":`...), r.ModelName)
	if r.ModelVersion != "" {
		head = appendText(append(head, `,"model_version":`...), r.ModelVersion)
	}
	if r.ID != "" {
		head = appendText(append(head, `,"id":`...), r.ID)
	}
	m, err := encode(head, "outputs", r.Outputs, func(t Tensor) bool { return to.wantsBinary(t.Name) })
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

// firstRead bounds what is allocated for a body that a client only says it will send.
const firstRead = 4 << 10

// ReadBody reads the body of an InferRequest, at most limit bytes. Its errors are Errors; one that r.Body returns stays as it is.
func ReadBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, TooLarge(limit)
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, &Error{Status: http.StatusUnsupportedMediaType, Message: "compressed requests are not supported; send the body without Content-Encoding: " + encoding}
	}
	var body bytes.Buffer
	body.Grow(int(min(max(r.ContentLength, 0), firstRead)) + bytes.MinRead)
	_, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, limit))
	if err == nil {
		return body.Bytes(), nil
	}
	if own, ok := errors.AsType[*Error](err); ok {
		return nil, own
	}
	if _, reached := errors.AsType[*http.MaxBytesError](err); reached {
		return nil, TooLarge(limit)
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
	isUnicode := utf8.Valid(head) && !hasHalfRune(head)
	wire, isPlain := requestJSON{}, false
	if isUnicode {
		wire, isPlain = plainRequest(head)
	}
	if !isPlain {
		if wire, err = anyRequest(head, isUnicode); err != nil {
			return nil, err
		}
	}
	inputs, err := tensors(wire.Inputs, binary)
	if err != nil {
		return nil, Invalid("the request is not an inference request: %v", err)
	}
	req := &InferRequest{ID: wire.ID, Parameters: wire.Parameters, Inputs: inputs, Outputs: wire.Outputs}
	return req, req.Check()
}

// anyRequest reads the JSON of a request, however it is written.
func anyRequest(head []byte, isUnicode bool) (wire requestJSON, err error) {
	if err := bounded(head); err != nil {
		return wire, err
	}
	if !isUnicode {
		return wire, Invalid("the request is not an inference request: JSON is Unicode in UTF-8; send other bytes as binary data")
	}
	if err := json.Unmarshal(head, &wire); err != nil {
		return wire, Invalid("the request is not an inference request: %v", misread(err))
	}
	return wire, nil
}

// hasHalfRune reports whether JSON has an escape of half a character, \ud800 to \udfff without its other half, which would be read as another
// character.
func hasHalfRune(raw []byte) bool {
	half := func(escape []byte) rune {
		if len(escape) < 6 || escape[0] != '\\' || escape[1] != 'u' {
			return 0
		}
		n, _ := strconv.ParseUint(string(escape[2:6]), 16, 16) // what is no number, the decoder refuses
		return rune(n)
	}
	for i := bytes.IndexByte(raw, '\\'); i >= 0; i = bytes.IndexByte(raw, '\\') {
		raw = raw[i:]
		length := 2 // with what is escaped, which may be a backslash
		if first := half(raw); utf16.IsSurrogate(first) {
			if length = 12; utf16.DecodeRune(first, half(raw[6:])) == utf8.RuneError {
				return true
			}
		}
		raw = raw[min(length, len(raw)):]
	}
	return false
}

// misread says what is wrong with a request's JSON without the names of Go types, which mean nothing to a client.
func misread(err error) error {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case !ok:
		return err
	case wrong.Field == "":
		return fmt.Errorf("it must be a JSON object, not %s", wrong.Value)
	}
	return fmt.Errorf("%s must not be %s", wrong.Field, wrong.Value)
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
	asked := make(map[string]bool, len(r.Outputs))
	for _, out := range r.Outputs {
		if asked[out.Name] {
			return Invalid("output %q is asked for twice", out.Name)
		}
		asked[out.Name] = true
		if out.Parameters.Classification != 0 {
			return Invalid("output %q is asked for as classes (parameters.classification), which is not supported; ask for the output itself", out.Name)
		}
	}
	return nil
}
