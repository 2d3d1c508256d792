// Package replay sends a dataset's rows to a served model as requests, over and over at a steady rate: traffic for a rollout that
// has no users yet.
package replay

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/serving/answer"
	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/trust"
)

const (
	concurrency = 16               // requests under way
	silenceMax  = 30 * time.Second // without any answer, before the model is called unreachable
	retryEvery  = 250 * time.Millisecond
	callTimeout = 60 * time.Second
	maxAnswer   = 16 << 20
	probed      = 16 // rows
)

var (
	// ErrUnreachable says that nothing has answered for some time. Trying again later, from the position reached, may help.
	ErrUnreachable = errors.New("the model does not respond")
	// ErrUnfit says that the dataset's rows are not what the model takes, or have no label.
	ErrUnfit = errors.New("the dataset cannot be replayed")
	// ErrIncomparable says that what the model answers cannot be compared as it is asked for.
	ErrIncomparable = errors.New("the answers cannot be compared")
	// ErrRefused says that the server is not the one that it should be, or that it does not let its clients in. It is not asked again.
	ErrRefused = errors.New("the model cannot be queried")
)

// Options say what to replay where.
type Options struct {
	// URL of the inference server, and the model's name there.
	URL   string
	Model string
	// Dir is the dataset, Split the part of it that is sent. Columns named as the model's inputs become its tensors.
	Dir   string
	Split string
	// Label is the column with the right answer; it is sent along as the request's label. Empty for none.
	Label string
	// Authorization is the header of requests with a label, and of all requests if AlwaysAuthorized; empty for none.
	Authorization    string
	AlwaysAuthorized bool
	// TLS is how an https URL is reached; nil for the usual way.
	TLS *tls.Config
	// Seed is of the order of the rows, which is another in each pass.
	Seed int64
	// Compare is how labels are compared with answers: Probe says which no answer could be.
	Compare answer.Rules
	// Check, when set, says why the answers that Probe gets cannot be compared.
	Check func(outputs []oip.Tensor) error
	// RPS is how many requests are sent a second. The rate is not made up for after a time without answers.
	RPS float64
	// Start is how many rows were sent before, by an earlier Run that ended.
	Start int64
	// Progress, when set, is told how many rows have been sent, Start included. It is called from one goroutine.
	Progress func(sent int64)
}

// Run sends rows until ctx ends, which is its only good end: it returns ctx's cause then.
func Run(ctx context.Context, o Options) error {
	if o.RPS <= 0 {
		return fmt.Errorf("%w: %v requests per second is not positive", ErrUnfit, o.RPS)
	}
	r := newReplay(o)
	defer r.client.CloseIdleConnections()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.fail = cancel
	defer r.group.Wait() // before the connections are closed
	meta, err := r.metadata(ctx, "")
	if err != nil {
		return err
	}
	if err := r.send(ctx, meta.Inputs); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// Probe looks at all rows of the split and sends the first ones to one version. It says as ErrUnfit which cannot be asked, which label no answer
// could be, what the version refuses, and when none of the first rows has a label that is to be sent along. Other failures are for a rollout to
// count.
func Probe(ctx context.Context, o Options, version string) error {
	r := newReplay(o)
	defer r.client.CloseIdleConnections()
	meta, err := r.metadata(ctx, "/versions/"+version)
	if err != nil {
		return err
	}
	n, labelled := 0, 0
	for row, err := range answer.ReadRows(r.Dir, r.Split) {
		if err != nil {
			return fmt.Errorf("%w: %w", ErrUnfit, err)
		}
		n++
		hasLabel, err := r.checkRow(meta, row)
		if err == nil && n <= probed {
			err = r.ask(ctx, meta.Inputs, row, version)
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if errors.Is(err, ErrIncomparable) {
			return fmt.Errorf("%w (row %d of split %s)", err, n, r.Split)
		} else if err != nil {
			return fmt.Errorf("%w: row %d of split %s: %w", ErrUnfit, n, r.Split, err)
		}
		if hasLabel {
			labelled++
		}
		if r.Label != "" && n == probed && labelled == 0 {
			break
		}
	}
	if r.Label != "" && n > 0 && labelled == 0 {
		return fmt.Errorf("%w: none of the first %d rows of split %s has a value in its label column %q", ErrUnfit, n, r.Split, r.Label)
	}
	return nil
}

// checkRow says why a row cannot be asked, or no answer could be its label.
func (r *replay) checkRow(meta oip.ModelMetadata, row answer.Row) (hasLabel bool, err error) {
	if _, err := answer.RowTensors(meta.Inputs, row); err != nil || r.Label == "" {
		return false, err
	}
	raw, ok := row[r.Label]
	if !ok {
		return false, fmt.Errorf("it has no label column %q", r.Label)
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return false, err
	}
	label, err := answer.LabelOf(value)
	if err == nil {
		err = r.Compare.Fits(label, meta.Outputs)
	}
	return label != "", err
}

// ask sends a row to a version, and says what is wrong with the row or with the answer.
func (r *replay) ask(ctx context.Context, inputs []oip.TensorMetadata, row answer.Row, version string) error {
	body, err := r.request(inputs, row)
	if err != nil {
		return err
	}
	status, said, err := r.call(ctx, http.MethodPost, "/versions/"+version+"/infer", body)
	var res oip.InferResponse
	switch {
	case err != nil: // for the rollout to count
	case status/100 == 4:
		return fmt.Errorf("%s rejects it: %s", r.Model, refusal(said))
	case status == http.StatusOK && r.Check != nil && json.Unmarshal(said, &res) == nil:
		if err := r.Check(res.Outputs); err != nil {
			return fmt.Errorf("%w: %w", ErrIncomparable, err)
		}
	}
	return nil
}

// refusal is what an answer says of why a request was refused: the protocol's error, else all of it.
func refusal(answer []byte) string {
	var said struct {
		Error string `json:"error"`
	}
	if err := json.Unmarshal(answer, &said); err == nil && said.Error != "" {
		return said.Error
	}
	return strings.TrimSpace(string(answer))
}

type replay struct {
	Options
	client *http.Client
	fail   context.CancelCauseFunc
	group  sync.WaitGroup
	heard  atomic.Int64 // when something last answered, in Unix nanoseconds
}

func newReplay(o Options) *replay {
	transport := &http.Transport{MaxIdleConnsPerHost: concurrency, TLSClientConfig: o.TLS}
	r := &replay{Options: o, client: &http.Client{Transport: transport, Timeout: callTimeout}}
	r.heard.Store(time.Now().UnixNano())
	return r
}

// Outputs says what a version of the model answers; nil for one that is not described.
func Outputs(ctx context.Context, o Options, version string) ([]oip.TensorMetadata, error) {
	r := newReplay(o)
	defer r.client.CloseIdleConnections()
	meta, err := r.metadata(ctx, "/versions/"+version)
	return meta.Outputs, err
}

// metadata asks the server what the model takes and answers, waiting until it serves.
func (r *replay) metadata(ctx context.Context, path string) (meta oip.ModelMetadata, err error) {
	for range poll.Every(ctx, retryEvery) {
		status, body, err := r.call(ctx, http.MethodGet, path, nil)
		switch {
		case err == nil && status == http.StatusOK:
			if err := json.Unmarshal(body, &meta); err != nil {
				return meta, fmt.Errorf("the metadata of %s does not follow the protocol: %w", r.Model, err)
			}
			return meta, nil
		case err == nil && status == http.StatusNotFound:
			return meta, fmt.Errorf("%s has no model %s", r.URL, r.Model)
		case err == nil && (status == http.StatusUnauthorized || status == http.StatusForbidden):
			return meta, fmt.Errorf("%w: %s: %s", ErrRefused, r.URL, refusal(body))
		}
		if err := r.silence(err); err != nil {
			return meta, err
		}
	}
	return meta, context.Cause(ctx)
}

// send goes over the split again and again, one row per tick, each time in another order. Rows of a dataset are often sorted, and what a stage
// of a rollout sees first would be of one kind. The order follows from the seed and the number of the pass, so that an attempt that goes on
// where another ended sends the rows that are left.
func (r *replay) send(ctx context.Context, inputs []oip.TensorMetadata) error {
	index, err := answer.NewRowIndex(r.Dir, r.Split)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnfit, err)
	}
	defer func() { _ = index.Close() }() // only read from
	if index.Len() == 0 {
		return fmt.Errorf("%w: split %s is empty", ErrUnfit, r.Split)
	}
	ticker := time.Tick(max(time.Microsecond, time.Duration(float64(time.Second)/r.RPS)))
	slots := make(chan struct{}, concurrency)
	n := int64(index.Len())
	var order []int
	for sent := r.Start; ; sent++ {
		if order == nil || sent%n == 0 {
			order = orderOf(r.Seed, sent/n, index.Len())
		}
		i := order[sent%n]
		row, err := index.Row(i)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrUnfit, err)
		}
		body, err := r.request(inputs, row)
		if err != nil {
			return fmt.Errorf("%w: row %d of split %s: %w", ErrUnfit, i+1, r.Split, err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker:
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case slots <- struct{}{}:
		}
		r.group.Go(func() { r.infer(ctx, body); <-slots })
		if r.Progress != nil {
			r.Progress(sent + 1)
		}
	}
}

// orderOf is the order of a pass over n rows.
func orderOf(seed, pass int64, n int) []int {
	return rand.New(rand.NewPCG(uint64(seed), uint64(pass))).Perm(n) //nolint:gosec // an order, no secret
}

// request makes the body for a row.
func (r *replay) request(inputs []oip.TensorMetadata, row answer.Row) ([]byte, error) {
	tensors, err := answer.RowTensors(inputs, row)
	if err != nil {
		return nil, err
	}
	req := oip.InferRequest{Inputs: tensors}
	if r.Label != "" {
		label, ok := row[r.Label]
		if !ok {
			return nil, fmt.Errorf("it has no label column %q", r.Label)
		}
		req.Parameters = map[string]any{"label": label}
	}
	return json.Marshal(req)
}

// infer sends one request. Failures of the model are the server's to count; a row or key that it refuses ends the replay: it would refuse the others as well.
func (r *replay) infer(ctx context.Context, body []byte) {
	status, answer, err := r.call(ctx, http.MethodPost, "/infer", body)
	if err == nil && (status == http.StatusUnauthorized || status == http.StatusForbidden) {
		r.fail(fmt.Errorf("%w: %s: %s", ErrRefused, r.URL, refusal(answer)))
		return
	}
	if err == nil && status == http.StatusBadRequest {
		r.fail(fmt.Errorf("%w: %s rejects a row: %s", ErrUnfit, r.Model, strings.TrimSpace(string(answer))))
		return
	}
	if ctx.Err() != nil {
		return
	}
	if err := r.silence(err); err != nil {
		r.fail(err)
	}
}

// silence turns a call's error into ErrUnreachable when nothing has answered for long, and one of a certificate into ErrRefused. An answer of any kind ends the silence.
func (r *replay) silence(err error) error {
	now := time.Now()
	if err == nil {
		r.heard.Store(now.UnixNano())
		return nil
	}
	if why := trust.Reason(err); why != nil {
		return fmt.Errorf("%w: %s: %w", ErrRefused, r.URL, why)
	}
	if quiet := now.Sub(time.Unix(0, r.heard.Load())); quiet > silenceMax {
		return fmt.Errorf("%w: %s for %v: %w", ErrUnreachable, r.URL, quiet.Round(time.Second), err)
	}
	return nil
}

func (r *replay) call(ctx context.Context, method, path string, body []byte) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, method, r.URL+"/v2/models/"+r.Model+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.Authorization != "" && (r.Label != "" || r.AlwaysAuthorized) {
		req.Header.Set("Authorization", r.Authorization)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }() // only read from
	answer, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return resp.StatusCode, answer, err
}
