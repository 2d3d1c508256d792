package triton

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/trust"
)

const (
	maxIndex     = 16 << 20 // bytes of an answer
	maxComplaint = 4 << 10  // bytes of an error that are shown
	callTimeout  = 20 * time.Second
)

var (
	// errAway says that Triton gave no answer: asking again may help.
	errAway = errors.New("the Triton server does not answer")
	// errUnseen says that Triton does not find a model in its repository, or cannot read its description.
	errUnseen = errors.New("the Triton server does not find it in its model repository")
	// errNotExplicit says that Triton loads no models on request.
	errNotExplicit = errors.New("the Triton server does not load models on request: start it with --model-control-mode=explicit")
	// errOther says that a server has no repository of models, so it is another than Triton or much older.
	errOther = errors.New("the server cannot be told to load models, as Triton 2 can")
	// errNotLoaded says that a model of a Triton that answers is not ready.
	errNotLoaded = errors.New("the Triton server has not loaded it")
)

// repositoryExtension is the extension of the Open Inference Protocol by which models are loaded and unloaded.
const repositoryExtension = "model_repository"

// nobodys is the name of no model.
const nobodys = "sluice-asks-for-the-control-mode"

// control is a Triton, as who loads and unloads its models sees it: its extension model_repository of the Open Inference Protocol, over REST.
// What its answers mean is taken from the source of Triton (src/model_repository_manager in github.com/triton-inference-server/core), and
// tested with a Triton.
type control struct {
	root   string // of the protocol: http://host:port/v2
	client *http.Client
}

func newControl(server string) *control {
	return &control{root: strings.TrimSuffix(server, "/") + "/v2", client: &http.Client{
		// It is asked seldom, so no connection is kept.
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// accepts says why the server does not load models on request.
func (c *control) accepts(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	raw, err := c.ask(ctx, http.MethodGet, "")
	if err != nil {
		return err
	}
	var server oip.ServerMetadata
	if err := json.Unmarshal(raw, &server); err != nil {
		return fmt.Errorf("%w: what it says of itself cannot be parsed: %w", errOther, err)
	}
	if !slices.Contains(server.Extensions, repositoryExtension) {
		return fmt.Errorf("%w: it is %q of version %q, without the extension %s", errOther, server.Name, server.Version, repositoryExtension)
	}
	// To unload a model that is not there changes nothing, and fails in every control mode but explicit.
	return c.unload(ctx, nobodys)
}

// load returns when a model is loaded, however long that takes. One that is loaded, and whose files are the same, stays as it is.
func (c *control) load(ctx context.Context, name string) error {
	_, err := c.ask(ctx, http.MethodPost, "/repository/models/"+url.PathEscape(name)+"/load")
	return err
}

// unload has Triton begin to unload a model. One that is not loaded, or not there, stays so.
func (c *control) unload(ctx context.Context, name string) error {
	_, err := c.ask(ctx, http.MethodPost, "/repository/models/"+url.PathEscape(name)+"/unload")
	return err
}

// busy reports whether Triton uses the files of a model.
func (c *control) busy(ctx context.Context, name string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	raw, err := c.ask(ctx, http.MethodPost, "/repository/index")
	if err != nil {
		return false, err
	}
	var index []struct{ Name, State string }
	if err := json.Unmarshal(raw, &index); err != nil {
		return false, fmt.Errorf("the Triton server's index of its repository cannot be parsed: %w", err)
	}
	for _, m := range index {
		if m.Name == name && (m.State == "READY" || m.State == "LOADING" || m.State == "UNLOADING") {
			return true, nil
		}
	}
	return false, nil
}

// ready returns errNotLoaded when Triton answers and has not loaded a model.
func (c *control) ready(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := c.ask(ctx, http.MethodGet, "/models/"+url.PathEscape(name)+"/ready")
	if err != nil && !errors.Is(err, errAway) {
		return fmt.Errorf("%w: %w", errNotLoaded, err)
	}
	return err
}

// ask returns the answer to a request.
func (c *control) ask(ctx context.Context, method, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.root+path, strings.NewReader("{}"))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.client.Do(req)
	if err != nil {
		if why := trust.Reason(err); why != nil {
			return nil, fmt.Errorf("the Triton server cannot be trusted: %w", why)
		}
		if at, ok := errors.AsType[*url.Error](err); ok {
			err = at.Err
		}
		return nil, fmt.Errorf("%w: %w", errAway, err)
	}
	defer func() { _ = resp.Body.Close() }() // only read from
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxIndex+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errAway, err)
	case len(raw) > maxIndex:
		return nil, fmt.Errorf("the Triton server's answer is longer than %d bytes", maxIndex)
	case resp.StatusCode != http.StatusOK:
		return nil, refused(resp, said(raw))
	}
	return raw, nil
}

// refused is the error of an answer that says no. Triton tells by texts what matters here; its statuses differ between versions.
func refused(resp *http.Response, text string) error {
	err := fmt.Errorf("it answers %s", resp.Status)
	if text != "" {
		err = fmt.Errorf("it answers %s: %s", resp.Status, text)
	}
	switch {
	case strings.Contains(text, "explicit model load / unload is not allowed"):
		return fmt.Errorf("%w (%w)", errNotExplicit, err)
	case strings.Contains(text, "failed to poll from model repository"):
		return fmt.Errorf("%w (%w)", errUnseen, err)
	}
	switch resp.StatusCode {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return fmt.Errorf("%w: %w", errAway, err)
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return fmt.Errorf("the Triton server refuses: %w; `server` of the target must be the URL of its HTTP port", err)
	}
	return fmt.Errorf("the Triton server refuses: %w", err)
}

// said is the text of an error.
func said(raw []byte) string {
	var known struct{ Error string }
	text := string(raw)
	if json.Unmarshal(raw, &known) == nil {
		text = known.Error
	}
	if strings.HasPrefix(strings.TrimSpace(text), "<") {
		return "a web page"
	}
	return strings.ToValidUTF8(strings.TrimSpace(text[:min(len(text), maxComplaint)]), "")
}
