// Package remote is a model on a server elsewhere that speaks the Open Inference Protocol, version 2, over REST: NVIDIA Triton, OpenVINO
// Model Server, whatever KServe runs.
package remote

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/sluiceml/sluice/serving/oip"
)

const (
	connectTimeout = 5 * time.Second
	idleTimeout    = 90 * time.Second
	maxIdle        = 256      // connections that are kept
	maxAnswer      = 64 << 20 // bytes
	maxComplaint   = 4 << 10  // bytes of an error that are read
)

// ErrNotReady says that the server does not answer, or that it says of the model that it is not ready. It may be later.
var ErrNotReady = errors.New("the model is not ready")

// Options say where a model is.
type Options struct {
	// URL of the server: http://host:port, with a path when the protocol is below one.
	URL string
	// Host, when set, is sent as the name of the server, for an ingress that tells servers apart by it.
	Host string
	// Model and, when the server has several, Version.
	Model   string
	Version string
}

// Model is a model of a server. It implements gateway.Upstream.
type Model struct {
	base    string
	host    string
	client  *http.Client
	inputs  []oip.TensorMetadata
	outputs []oip.TensorMetadata
}

// Open asks the server whether the model is ready, and for its description. ErrNotReady when it is not; asking again is cheap.
func Open(ctx context.Context, opts Options) (*Model, error) {
	base, err := url.JoinPath(opts.URL, "v2/models", url.PathEscape(opts.Model))
	if err == nil && opts.Version != "" {
		base, err = url.JoinPath(base, "versions", url.PathEscape(opts.Version))
	}
	if err != nil {
		return nil, fmt.Errorf("the address of model %s: %w", opts.Model, err)
	}
	m := &Model{base: base, host: opts.Host, client: &http.Client{
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: connectTimeout}).DialContext,
			TLSHandshakeTimeout: connectTimeout,
			MaxIdleConnsPerHost: maxIdle,
			IdleConnTimeout:     idleTimeout,
		},
		// A protocol for inference has none; following one would repeat requests elsewhere than the user said.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if err := m.describe(ctx); err != nil {
		m.client.CloseIdleConnections()
		return nil, err
	}
	return m, nil
}

// describe waits for nothing: the model is ready, or it is an error.
func (m *Model) describe(ctx context.Context) error {
	if _, err := m.call(ctx, http.MethodGet, "/ready", nil); err != nil {
		return fmt.Errorf("%w: %w", ErrNotReady, err)
	}
	body, err := m.call(ctx, http.MethodGet, "", nil)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotReady, err)
	}
	var meta oip.ModelMetadata
	if err := json.Unmarshal(body, &meta); err != nil {
		return fmt.Errorf("the metadata of the model from %s does not follow the Open Inference Protocol: %w", m.base, err)
	}
	for _, tensors := range [][]oip.TensorMetadata{meta.Inputs, meta.Outputs} {
		for _, t := range tensors {
			if !t.Datatype.Supported() {
				return fmt.Errorf("tensor %q of the model has datatype %q, which cannot be written as JSON", t.Name, t.Datatype)
			}
		}
	}
	m.inputs, m.outputs = meta.Inputs, meta.Outputs
	return nil
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
	request, err := json.Marshal(oip.InferRequest{Inputs: inputs})
	if err != nil {
		return nil, oip.Invalid("%v", err)
	}
	body, err := m.call(ctx, http.MethodPost, "/infer", request)
	if err != nil {
		return nil, err
	}
	var answer oip.InferResponse
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, &oip.Error{Status: http.StatusBadGateway, Message: fmt.Sprintf("the model's response cannot be parsed: %v", err)}
	}
	return m.ordered(answer.Outputs)
}

// ordered picks the outputs in the order of the description.
func (m *Model) ordered(outputs []oip.Tensor) ([]oip.Tensor, error) {
	if len(m.outputs) == 0 {
		return outputs, nil
	}
	byName := make(map[string]oip.Tensor, len(outputs))
	for _, t := range outputs {
		byName[t.Name] = t
	}
	picked := make([]oip.Tensor, len(m.outputs))
	for i, want := range m.outputs {
		t, ok := byName[want.Name]
		if !ok {
			return nil, &oip.Error{Status: http.StatusBadGateway, Message: fmt.Sprintf("the model's response lacks the output %q", want.Name)}
		}
		picked[i] = t
	}
	return picked, nil
}

// Close lets go of the connections. The model stays where it is.
func (m *Model) Close() error {
	m.client.CloseIdleConnections()
	return nil
}

// call returns the body of an answer with status 200. Every other answer is an oip.Error; what ends ctx is an error that wraps it.
func (m *Model) call(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, m.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Host = cmp.Or(m.host, req.Host)
	req.Header.Set("Accept", "application/json")
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
		// An inference changes nothing: with this key, which is not sent, net/http repeats it when the server has closed a kept connection.
		req.Header["X-Idempotency-Key"] = nil
	}
	resp, err := m.client.Do(req)
	if err != nil {
		return nil, unreachable(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }() // only read from
	if resp.StatusCode != http.StatusOK {
		return nil, complaint(resp)
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, unreachable(ctx, err)
	case len(answer) > maxAnswer:
		return nil, &oip.Error{Status: http.StatusBadGateway, Message: fmt.Sprintf("the model's response is larger than %d bytes", maxAnswer)}
	}
	return answer, nil
}
