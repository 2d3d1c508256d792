package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/sluiceml/sluice/serving/oip"
)

// maxHealth is how many bytes of an answer about health are read.
const maxHealth = 4 << 10

// passed is a server whose requests are passed on as they came.
type passed struct {
	at     *url.URL
	health string
	client *http.Client
}

func newPassed(at *url.URL, health string) *passed {
	return &passed{at: at, health: "/" + strings.TrimPrefix(health, "/"), client: NewClient()}
}

// to is the URL of a path of the server, which may be below a path itself.
func (p *passed) to(escapedPath, query string) string {
	at := p.at.Scheme + "://" + p.at.Host + strings.TrimSuffix(p.at.EscapedPath(), "/") + escapedPath
	if query != "" {
		at += "?" + query
	}
	return at
}

func (p *passed) healthy(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.to(p.health, ""), http.NoBody)
	if err != nil {
		return err
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotReady, Unreachable(ctx, err))
	}
	defer func() { _ = resp.Body.Close() }() // only read from
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxHealth))
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrNotReady, Unreachable(ctx, err))
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return fmt.Errorf("%w: the server answers GET %s with %s", ErrNotReady, p.health, resp.Status)
	}
	return nil
}

// Forward implements gateway.Forwarder.
func (p *passed) Forward(ctx context.Context, r *http.Request, header http.Header, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, r.Method, p.to(r.URL.EscapedPath(), r.URL.RawQuery), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = header
	if header.Get("User-Agent") == "" {
		header["User-Agent"] = nil // else net/http names itself
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, Unreachable(ctx, err)
	}
	return resp, nil
}

// Inputs implements gateway.Upstream: nothing is known of the model.
func (p *passed) Inputs() []oip.TensorMetadata { return nil }

// Outputs implements gateway.Upstream.
func (p *passed) Outputs() []oip.TensorMetadata { return nil }

// Infer implements gateway.Upstream. It is not called: requests are forwarded.
func (p *passed) Infer(context.Context, []oip.Tensor) ([]oip.Tensor, error) {
	return nil, errors.New("the server does not speak the Open Inference Protocol")
}

// Close lets go of the connections.
func (p *passed) Close() error {
	p.client.CloseIdleConnections()
	return nil
}
