package spec

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/sluiceml/sluice/dsl/cron"
)

// Trigger starts runs of the pipeline by itself: exactly one of schedule, data, metric and pipeline.
type Trigger struct {
	// Schedule starts runs on a schedule.
	Schedule *ScheduleTrigger `json:"schedule,omitempty" dsl:"choice"`
	// Data starts a run for new or changed objects.
	Data *DataTrigger `json:"data,omitempty" dsl:"choice"`
	// Metric starts a run when a number meets a condition.
	Metric *MetricTrigger `json:"metric,omitempty" dsl:"choice"`
	// Pipeline starts a run after an accepted run of another pipeline.
	Pipeline *PipelineTrigger `json:"pipeline,omitempty" dsl:"choice"`
	// Params of the runs that it starts; other parameters have their defaults.
	Params Values `json:"params,omitempty" dsl:"names"`
}

// OnConflict says what happens to a run that is to start while another is in its way.
type OnConflict string

// What may happen to the later run.
const (
	OnConflictSkip        OnConflict = "skip"         // it is not started
	OnConflictQueue       OnConflict = "queue"        // it waits for its turn
	OnConflictCancelOther OnConflict = "cancel_other" // the run in its way is cancelled
)

// ScheduleTrigger starts runs by the clock: at the times of cron, or every so often.
type ScheduleTrigger struct {
	// Cron is one expression or a list: minute, hour, day of month, month, day of week; with six fields seconds come first; or @hourly,
	// @daily, @weekly, @monthly, @yearly.
	Cron []string `json:"cron,omitempty" dsl:"choice,single"`
	// Timezone of cron, such as Europe/Berlin. Default UTC.
	Timezone string `json:"timezone,omitempty" dsl:"default=UTC"`
	// Every is the interval between starts, instead of cron.
	Every Duration `json:"every,omitempty" dsl:"choice"`
	// Offset shifts the times of `every`, which are counted from midnight UTC of 1 January 1970. It must be shorter than `every`.
	Offset Duration `json:"offset,omitempty"`
	// Catchup is how long after its time a missed start is still made up for. Default 1h.
	Catchup Duration `json:"catchup,omitempty" dsl:"default=1h"`
	// Jitter delays each start by a random time of at most this.
	Jitter Duration `json:"jitter,omitempty"`
	// Start is when the schedule begins. Default: when it is applied.
	Start time.Time `json:"start,omitzero"`
	// End is when it ends. Default: never.
	End time.Time `json:"end,omitzero"`
	// OnConflict is what happens while a run of the schedule is open: skip (default), queue or cancel_other.
	OnConflict OnConflict `json:"on_conflict,omitempty" dsl:"default=skip,enum=skip|queue|cancel_other"`
	// PauseOnFailure pauses the schedule when a run fails.
	PauseOnFailure bool `json:"pause_on_failure,omitempty"`
}

// DataTrigger starts a run for new or changed objects, once for each version.
type DataTrigger struct {
	// URL of the folder: file:///folder, or s3://bucket/folder with ?region= and, for a server that is not AWS's, &endpoint=.
	URL string `json:"url"`
	// Glob is a pattern that the names of objects must match. Default: all objects.
	Glob string `json:"glob,omitempty"`
	// Settle is how long an object must be unchanged. Default 1m.
	Settle Duration `json:"settle,omitempty" dsl:"default=1m"`
	// Every is the interval between checks. Default 1m.
	Every Duration `json:"every,omitempty" dsl:"default=1m"`
}

// MetricTrigger starts a run when a number meets a condition: the answer to a Prometheus query, or an output of the last accepted run.
type MetricTrigger struct {
	// Prometheus is the URL of the Prometheus server, for `query`. Default http://127.0.0.1:9090.
	Prometheus string `json:"prometheus,omitempty"`
	// Query is a PromQL query that returns one number.
	Query string `json:"query,omitempty" dsl:"choice,raw"`
	// Step of the last accepted run, with `output`, instead of a query.
	Step string `json:"step,omitempty" dsl:"choice"`
	// Output of that step, such as metrics.f1.
	Output string `json:"output,omitempty"`
	// Condition is a bool CEL expression over `value`.
	Condition Expr `json:"condition" dsl:"bool"`
	// For is how long the condition must be true at every check.
	For Duration `json:"for,omitempty"`
	// Cooldown is the minimum time between two starts. Default 1h.
	Cooldown Duration `json:"cooldown,omitempty" dsl:"default=1h"`
	// Every is the interval between checks. Default 1m.
	Every Duration `json:"every,omitempty" dsl:"default=1m"`
}

// PipelineTrigger starts a run after each newly accepted run of another pipeline.
type PipelineTrigger struct {
	// Name of the other pipeline.
	Name string `json:"name"`
	// Every is the interval between checks. Default 30s.
	Every Duration `json:"every,omitempty" dsl:"default=30s"`
}

// Calendars are the cron expressions in one form, of seven fields: seconds first, and a year last, which is *.
func (s *ScheduleTrigger) Calendars() ([]string, error) {
	out := make([]string, len(s.Cron))
	for i, text := range s.Cron {
		c, err := cron.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("cron %q: %s", text, err.Message)
		}
		out[i] = strings.Join(append(c.Fields[:], "*"), " ")
	}
	return out, nil
}

// Last is the value that `step` and `output` name among the steps of a run; false when the run has none.
func (m *MetricTrigger) Last(steps map[string]StepResult) (float64, bool) {
	result, ok := steps[m.Step]
	if !ok || result.Status != StatusSucceeded {
		return 0, false
	}
	raw := result.Outputs
	for name := range strings.SplitSeq(m.Output, ".") {
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &object) != nil {
			return 0, false
		}
		raw = object[name]
	}
	var value *float64
	if json.Unmarshal(raw, &value) != nil || value == nil {
		return 0, false
	}
	return *value, true
}

// Given are the params of a trigger in the form that Program.Params takes.
func (t Trigger) Given() map[string]string {
	given := make(map[string]string, len(t.Params))
	for name, v := range t.Params {
		given[name] = Written(v)
	}
	return given
}

// Kind names the trigger's kind: schedule, data, metric or pipeline.
func (t Trigger) Kind() string {
	switch {
	case t.Schedule != nil:
		return "schedule"
	case t.Data != nil:
		return "data"
	case t.Metric != nil:
		return "metric"
	}
	return "pipeline"
}

// Interval is how often a trigger that watches looks; 0 for a schedule, which does not.
func (t Trigger) Interval() Duration {
	switch {
	case t.Data != nil:
		return t.Data.Every
	case t.Metric != nil:
		return t.Metric.Every
	case t.Pipeline != nil:
		return t.Pipeline.Every
	}
	return 0
}

// Concurrency lets one run of a group go on at a time, across pipelines.
type Concurrency struct {
	// Group is the group's name; it may contain params: train-${params.region}.
	Group string `json:"group"`
	// OnConflict is what happens while another run of the group is open: queue (default), skip or cancel_other.
	OnConflict OnConflict `json:"on_conflict,omitempty" dsl:"literal,default=queue,enum=skip|queue|cancel_other"`
}

// Budget bounds what a run may cost.
type Budget struct {
	// USD stops the run when its cost reaches this many dollars.
	USD float64 `json:"usd" dsl:"min=0.01"`
}

// Keep says how long what is kept of ended runs stays. A run stays as long as one of its keys keeps it.
type Keep struct {
	// Runs keeps this many of the newest runs that have ended.
	Runs int `json:"runs,omitempty" dsl:"min=1"`
	// Days keeps a run for this many days after its end.
	Days int `json:"days,omitempty" dsl:"min=1"`
}

// DefaultPrometheus is asked by a metric trigger that names no server.
const DefaultPrometheus = "http://127.0.0.1:9090"
