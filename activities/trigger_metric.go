package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/api"
	prometheus "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

const (
	// prometheusTimeout bounds one query.
	prometheusTimeout = 10 * time.Second
	// maxAnswer bounds what is read of an answer.
	maxAnswer = 1 << 20
	// blind is after how many missed looks nobody can say that a condition held without a break.
	blind = 3
)

// metric is due when the condition has held for the time of `for`, and the last start is the cooldown ago. A nil value means that there
// is no number: then the condition does not hold. last is when the trigger looked before.
func (state *TriggerState) metric(sp spec.MetricTrigger, value *float64, last, now time.Time) (*cause, error) {
	if value == nil {
		state.Saw, state.HoldsSince = "no value", time.Time{}
		return nil, nil
	}
	holds, err := expr.MetricHolds(sp.Condition, *value)
	if err != nil {
		return nil, fault.New(fault.Invalid, fmt.Sprintf("condition `%s`: %v", sp.Condition, err), err)
	}
	state.Saw = "value " + human.Number(*value)
	if !holds {
		state.HoldsSince = time.Time{}
		return nil, nil
	}
	if state.HoldsSince.IsZero() || now.Sub(last) > blind*time.Duration(sp.Every) {
		state.HoldsSince = now
	}
	held := now.Sub(state.HoldsSince)
	state.Saw += ", condition has held for " + human.Duration(held)
	switch {
	case held < time.Duration(sp.For):
		return nil, nil
	case !state.FiredAt.IsZero() && now.Sub(state.FiredAt) < time.Duration(sp.Cooldown):
		state.Saw += ", cooling down"
		return nil, nil
	}
	is := state.FiredAt.Format(time.RFC3339Nano) + " " + state.HoldsSince.Format(time.RFC3339Nano)
	return &cause{is: is, facts: spec.TriggerFacts{Value: *value}}, nil
}

// measure returns the number a metric trigger is about; nil when there is none now.
func (t *Triggers) measure(ctx context.Context, sp spec.MetricTrigger, pipeline string) (*float64, error) {
	if sp.Query != "" {
		return queryPrometheus(ctx, cmp.Or(sp.Prometheus, spec.DefaultPrometheus), sp.Query)
	}
	last, err := record.LastAccepted(ctx, t.Store, pipeline)
	if err != nil || last.Run == "" {
		return nil, err
	}
	var step record.StepRecord
	switch err := t.Store.GetJSON(ctx, record.StepKey(last.Run, sp.Step), &step); {
	case errors.Is(err, store.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	outputs, err := record.LoadOutputs(ctx, t.Store, record.StepOutput{Outputs: step.Outputs, OutputsRef: step.OutputsRef})
	if err != nil {
		return nil, err
	}
	value, ok := sp.Last(map[string]spec.StepResult{sp.Step: {Status: step.Status, Outputs: outputs}})
	if !ok {
		return nil, nil
	}
	return &value, nil
}

// queryPrometheus asks the Prometheus server at an address for the one number that a query is about; nil for an empty vector and for NaN,
// which is how Prometheus says that there is nothing to count.
func queryPrometheus(ctx context.Context, base, query string) (*float64, error) {
	failed := func(typ string, err error) error {
		return fault.New(typ, fmt.Sprintf("query `%s` at %s: %v", human.Line(query), base, err), err)
	}
	at, err := url.Parse(base)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" {
		return nil, failed(fault.Invalid, errors.New("not the address of a Prometheus server: write http://host:9090"))
	}
	client, err := api.NewClient(api.Config{Address: base, Client: &http.Client{Transport: boundedAnswers{}, CheckRedirect: sameHost}})
	if err != nil {
		return nil, failed(fault.Invalid, err)
	}
	ctx, cancel := context.WithTimeout(ctx, prometheusTimeout)
	defer cancel()
	answer, _, _, err := prometheus.NewAPI(client).Query(ctx, query, time.Time{})
	if asking, ok := errors.AsType[*url.Error](err); ok {
		err = asking.Err // it says the address again
	}
	said, ok := errors.AsType[*prometheus.Error](err)
	switch {
	case ok && said.Type == prometheus.ErrBadData:
		return nil, failed(fault.Invalid, errors.New(said.Msg))
	case ok && said.Detail != "":
		return nil, failed(fault.Infrastructure, fmt.Errorf("%s: %s", said.Msg, human.Cut(human.Line(said.Detail), 200)))
	case err != nil:
		return nil, failed(fault.Infrastructure, err)
	}
	value := math.NaN()
	switch answer := answer.(type) {
	case *model.Scalar:
		value = float64(answer.Value)
	case model.Vector:
		if len(answer) > 1 {
			return nil, failed(fault.Invalid, fmt.Errorf("the result has %d series, but must have one: wrap the query in max(...) or sum(...)", len(answer)))
		}
		for _, one := range answer {
			value = float64(one.Value)
		}
	default:
		return nil, failed(fault.Invalid, fmt.Errorf("the result is a %s, but must be a scalar or an instant vector", answer.Type()))
	}
	if math.IsNaN(value) {
		return nil, nil
	}
	return &value, nil
}

// sameHost follows redirects on one host alone, so that a server cannot have the worker ask others that only the worker reaches, such as a
// cloud's metadata.
func sameHost(req *http.Request, via []*http.Request) error {
	if req.URL.Hostname() != via[0].URL.Hostname() {
		return fmt.Errorf("it redirects to %s: name that address if it is the right one", human.Cut(req.URL.Host, 200))
	}
	if len(via) >= 10 { // as net/http
		return errors.New("it has redirected ten times")
	}
	return nil
}

// boundedAnswers cuts answers off at maxAnswer.
type boundedAnswers struct{}

func (boundedAnswers) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxAnswer), resp.Body}
	}
	return resp, err
}
