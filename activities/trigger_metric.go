package activities

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

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
	holds, err := expr.MetricHolds(&sp, *value)
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
		return t.query(ctx, sp)
	}
	run, err := record.LastAccepted(ctx, t.Store, pipeline)
	if err != nil || run == "" {
		return nil, err
	}
	var step record.StepRecord
	switch err := t.Store.GetJSON(ctx, record.StepKey(run, sp.Step), &step); {
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

// answer is what Prometheus's HTTP API says to an instant query.
type answer struct {
	Status    string `json:"status"`
	ErrorType string `json:"errorType"`
	Error     string `json:"error"`
	Data      struct {
		ResultType string          `json:"resultType"`
		Result     json.RawMessage `json:"result"`
	} `json:"data"`
}

// sample is a time and a number as text.
type sample [2]any

// query asks Prometheus for the one number that a query is about.
func (t *Triggers) query(ctx context.Context, spec spec.MetricTrigger) (*float64, error) {
	base := spec.Prometheus
	base = cmp.Or(base, "http://127.0.0.1:9090")
	failed := func(typ string, err error) error {
		return fault.New(typ, fmt.Sprintf("query `%s` at %s: %v", human.Line(spec.Query), base, err), err)
	}
	at, err := url.Parse(base)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" {
		return nil, failed(fault.Invalid, errors.New("not an address of a Prometheus server: write http://host:9090"))
	}
	ctx, cancel := context.WithTimeout(ctx, prometheusTimeout)
	defer cancel()
	at = at.JoinPath("api/v1/query")
	at.RawQuery = url.Values{"query": {spec.Query}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, failed(fault.Invalid, err)
	}
	resp, err := t.HTTP.Do(req)
	if err != nil {
		return nil, failed(fault.Infrastructure, errors.Unwrap(err)) // url.Error says the address again
	}
	defer resp.Body.Close()
	var said answer
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&said); err != nil {
		return nil, failed(fault.Infrastructure, fmt.Errorf("%s, and not Prometheus's kind of answer", resp.Status))
	}
	switch {
	case said.ErrorType == "bad_data":
		return nil, failed(fault.Invalid, errors.New(said.Error))
	case said.Status != "success":
		return nil, failed(fault.Infrastructure, fmt.Errorf("%s: %s", resp.Status, said.Error))
	}
	value, err := said.number()
	if err != nil {
		return nil, failed(fault.Invalid, err)
	}
	return value, nil
}

// number is the one number of a scalar or of a vector with one element; nil for an empty vector and for NaN, which is how Prometheus
// says that there is nothing to count.
func (a answer) number() (*float64, error) {
	var one sample
	var err error
	switch a.Data.ResultType {
	case "scalar":
		err = json.Unmarshal(a.Data.Result, &one)
	case "vector":
		var vector []struct {
			Value sample `json:"value"`
		}
		if err = json.Unmarshal(a.Data.Result, &vector); err == nil && len(vector) == 0 {
			return nil, nil
		}
		if len(vector) > 1 {
			return nil, fmt.Errorf("the answer has %d series, and must have one: wrap the query in max(...) or sum(...)", len(vector))
		}
		if len(vector) == 1 {
			one = vector[0].Value
		}
	default:
		return nil, fmt.Errorf("the answer is a %s, and must be a scalar or an instant vector", a.Data.ResultType)
	}
	if err != nil {
		return nil, err
	}
	text, _ := one[1].(string)
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, fmt.Errorf("%q is no number", text)
	}
	if math.IsNaN(value) {
		return nil, nil
	}
	return &value, nil
}
