package upstream

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/serving/oip"
)

const (
	maxAnswer    = 64 << 20 // bytes
	maxComplaint = 4 << 10  // bytes of an error that are read
)

// ErrNotReady says that the server does not answer, or that it says of the model that it is not ready. It may be later.
var ErrNotReady = errors.New("the model is not ready")

// ModelOptions say where a model is.
type ModelOptions struct {
	// URL of the server: http://host:port, with a path when the protocol is below one.
	URL string
	// Host, when set, is sent as the name of the server, for an ingress that tells servers apart by it.
	Host string
	// Model and, when the server has several, Version.
	Model   string
	Version string
	// Reconnect is for how long requests use the same connections; 0 for as long as they last. Where several servers are behind one address,
	// one that is added gets requests only by connections that are made then.
	Reconnect time.Duration
}

// Model is a model of a server. It implements gateway.Upstream.
type Model struct {
	server  string // the protocol's root
	base    string
	host    string
	binary  bool // the server takes and sends binary data
	client  atomic.Pointer[http.Client]
	stop    context.CancelFunc // of renewing
	renew   sync.WaitGroup
	inputs  []oip.TensorMetadata
	outputs []oip.TensorMetadata
}

// OpenModel asks the server whether the model is ready, and for its description. ErrNotReady when it is not; asking again is cheap.
func OpenModel(ctx context.Context, opts ModelOptions) (*Model, error) {
	server, err := url.JoinPath(opts.URL, "v2")
	if err != nil {
		return nil, fmt.Errorf("the address of model %s: %w", opts.Model, err)
	}
	base, err := url.JoinPath(server, "models", url.PathEscape(opts.Model))
	if err == nil && opts.Version != "" {
		base, err = url.JoinPath(base, "versions", url.PathEscape(opts.Version))
	}
	if err != nil {
		return nil, fmt.Errorf("the address of model %s: %w", opts.Model, err)
	}
	m := &Model{server: server, base: base, host: opts.Host, stop: func() {}}
	m.client.Store(NewClient())
	if err := m.describe(ctx); err != nil {
		_ = m.Close() // it only closes connections
		return nil, err
	}
	if opts.Reconnect > 0 {
		ctx, m.stop = context.WithCancel(context.WithoutCancel(ctx))
		m.renew.Go(func() { m.reconnect(ctx, opts.Reconnect) })
	}
	return m, nil
}

// reconnect gives requests new connections from time to time, until ctx ends. Those under way keep theirs.
func (m *Model) reconnect(ctx context.Context, every time.Duration) {
	before := m.client.Load()
	for range poll.Every(ctx, every) {
		before.CloseIdleConnections() // those that were in use the last time
		before = m.client.Swap(NewClient())
		before.CloseIdleConnections()
	}
	before.CloseIdleConnections()
}

// Ready asks the server whether the model is ready. ErrNotReady when it is not.
func (m *Model) Ready(ctx context.Context) error {
	if _, err := m.get(ctx, m.base+"/ready"); err != nil {
		return fmt.Errorf("%w: %w", ErrNotReady, err)
	}
	return nil
}

// describe waits for nothing: the model is ready, or it is an error.
func (m *Model) describe(ctx context.Context) error {
	if err := m.Ready(ctx); err != nil {
		return err
	}
	body, err := m.get(ctx, m.base)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotReady, err)
	}
	var meta oip.ModelMetadata
	if err := json.Unmarshal(body, &meta); err != nil {
		return fmt.Errorf("the metadata of the model from %s does not follow the Open Inference Protocol: %w", m.base, err)
	}
	m.binary = m.takesBinary(ctx)
	for _, tensors := range [][]oip.TensorMetadata{meta.Inputs, meta.Outputs} {
		for _, t := range tensors {
			if !t.Datatype.Supported() {
				return fmt.Errorf("tensor %q of the model has datatype %q, which the Open Inference Protocol does not have", t.Name, t.Datatype)
			}
			if !m.binary && !t.Datatype.HasJSON() {
				return fmt.Errorf("tensor %q of the model has datatype %q, which cannot be written as JSON, and the server does not list the extension %s",
					t.Name, t.Datatype, oip.BinaryExtension)
			}
		}
	}
	m.inputs, m.outputs = meta.Inputs, meta.Outputs
	return nil
}

// takesBinary asks the server for its extensions. Not all servers have the route; those get JSON.
func (m *Model) takesBinary(ctx context.Context) bool {
	body, err := m.get(ctx, m.server)
	var meta oip.ServerMetadata
	return err == nil && json.Unmarshal(body, &meta) == nil && slices.Contains(meta.Extensions, oip.BinaryExtension)
}

// Inputs describes the inputs; it is empty when the server does not. The result must not be changed.
func (m *Model) Inputs() []oip.TensorMetadata { return m.inputs }

// Outputs describes the outputs; it is empty when the server does not. The result must not be changed.
func (m *Model) Outputs() []oip.TensorMetadata { return m.outputs }

// Infer sends one request. Inputs that do not fit the model's description are an oip.Error with status 400 and are not sent; what the
// server refuses all the same is one with status 422.
func (m *Model) Infer(ctx context.Context, inputs []oip.Tensor) ([]oip.Tensor, error) {
	if len(m.inputs) > 0 {
		var err error
		if inputs, err = oip.Match(m.inputs, inputs); err != nil {
			return nil, err
		}
	}
	call := oip.CallFrom(ctx)
	request := oip.InferRequest{ID: call.ID, Inputs: inputs}
	if m.binary {
		request.Parameters = map[string]any{oip.BinaryOutput: true}
	}
	message, err := request.Encode(func(oip.Tensor) bool { return m.binary })
	if err != nil {
		return nil, oip.Invalid("%v", err)
	}
	body, header, err := m.post(ctx, message, call)
	if err != nil {
		return nil, err
	}
	answer, err := oip.ParseResponse(body, header)
	if err != nil {
		return nil, &oip.Error{Status: http.StatusBadGateway, Message: fmt.Sprintf("the model's response cannot be parsed: %v", err)}
	}
	return m.ordered(answer.Outputs)
}

// ordered picks the outputs in the order of the description.
func (m *Model) ordered(outputs []oip.Tensor) ([]oip.Tensor, error) {
	if len(m.outputs) == 0 {
		return outputs, nil
	}
	picked := make([]oip.Tensor, len(m.outputs))
	for i, want := range m.outputs {
		at := slices.IndexFunc(outputs, func(t oip.Tensor) bool { return t.Name == want.Name })
		if at < 0 {
			return nil, &oip.Error{Status: http.StatusBadGateway, Message: fmt.Sprintf("the model's response lacks the output %q", want.Name)}
		}
		picked[i] = outputs[at]
	}
	return picked, nil
}

// Close lets go of the connections. The model stays where it is.
func (m *Model) Close() error {
	m.stop()
	m.renew.Wait()
	m.client.Load().CloseIdleConnections()
	return nil
}

func (m *Model) get(ctx context.Context, address string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	body, _, err := m.call(req)
	return body, err
}

// post sends an inference, which carries the trace of the call that it is for.
func (m *Model) post(ctx context.Context, message oip.Message, call oip.Call) ([]byte, http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.base+"/infer", bytes.NewReader(message.Body))
	if err != nil {
		return nil, nil, err
	}
	message.SetHeader(req.Header)
	call.SetHeader(req.Header)
	// An inference changes nothing: with this key, which is not sent, net/http repeats it when the server has closed a kept connection.
	req.Header["X-Idempotency-Key"] = nil
	return m.call(req)
}

// call returns the body and the header of an answer with status 200. Every other answer is an oip.Error; what ends ctx is an error that
// wraps it.
func (m *Model) call(req *http.Request) ([]byte, http.Header, error) {
	req.Host = cmp.Or(m.host, req.Host)
	if !m.binary {
		req.Header.Set("Accept", "application/json")
	}
	resp, err := m.client.Load().Do(req)
	if err != nil {
		return nil, nil, Unreachable(req.Context(), err)
	}
	defer func() { _ = resp.Body.Close() }() // only read from
	if resp.StatusCode != http.StatusOK {
		return nil, nil, complaint(resp)
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, nil, Unreachable(req.Context(), err)
	case len(answer) > maxAnswer:
		return nil, nil, &oip.Error{Status: http.StatusBadGateway, Message: fmt.Sprintf("the model's response is larger than %d bytes", maxAnswer)}
	}
	return answer, resp.Header, nil
}
