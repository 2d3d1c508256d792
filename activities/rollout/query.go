package rollout

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/promquery"
	"github.com/sluiceml/sluice/serving/rollout"
	"github.com/sluiceml/sluice/store/record"
)

const (
	// stageQueryTimeout limits the wait for the answers to a stage's queries, during which the sequential tests wait too.
	stageQueryTimeout = 2 * time.Second
	// askAgain is the pause before queries without an answer are sent again.
	askAgain = 5 * time.Second
)

// prometheus returns the server that the environment of a rollout names; empty if there is none.
func (r *Rollouts) prometheus(ctx context.Context, in record.StepInput) (string, error) {
	sub, err := r.Engine.Submission(ctx, in.Submission)
	if err != nil {
		return "", err
	}
	return sub.Program.Environment().Prometheus, nil
}

// stageQueries are the queries of a stage, ready to be asked.
type stageQueries struct {
	base    string
	queries []spec.StageQuery
	// last is what came of them when they were last asked, without all their answers, and not before next are they asked again.
	last []spec.Check
	next time.Time
}

// newStageQueries writes out the names in a stage's queries. base is the server's address.
func newStageQueries(base, target string, stage rollout.Stage) *stageQueries {
	names := strings.NewReplacer("$candidate", stage.Candidate, "$stable", stage.Stable, "$target", target)
	asks := &stageQueries{base: base}
	for _, q := range stage.Spec.Queries {
		q.Query = names.Replace(q.Query)
		asks.queries = append(asks.queries, q)
	}
	return asks
}

// evaluate asks all queries at once and evaluates their conditions; answered is false when one has no answer, which may come. Its verdict is
// then hold, and the others are not to be used: a condition is evaluated once.
func (s *stageQueries) evaluate(ctx context.Context) (checks []spec.Check, answered bool) {
	if time.Now().Before(s.next) {
		return s.last, false
	}
	ctx, cancel := context.WithTimeout(ctx, stageQueryTimeout)
	defer cancel()
	checks = make([]spec.Check, len(s.queries))
	var asking sync.WaitGroup
	for i, q := range s.queries {
		asking.Go(func() { checks[i] = s.ask(ctx, q) })
	}
	asking.Wait()
	answered = true
	for _, c := range checks {
		answered = answered && c.Verdict != spec.VerdictHold
	}
	if !answered {
		s.last, s.next = checks, time.Now().Add(askAgain)
	}
	return checks, answered
}

// ask asks one query and evaluates its condition.
func (s *stageQueries) ask(ctx context.Context, q spec.StageQuery) spec.Check {
	what := fmt.Sprintf("%s of `%s`", q.Condition, q.Query)
	value, err := promquery.Ask(ctx, s.base, q.Query)
	switch {
	case fault.TypeOf(err) == fault.Invalid:
		return checkOf(what, spec.Check{}, err)
	case err != nil:
		return spec.Check{Expression: what, Verdict: spec.VerdictHold, Error: fault.Message(err)}
	case value == nil:
		return spec.Check{Expression: what, Verdict: spec.VerdictHold, Error: fmt.Sprintf("`%s` returns no data", q.Query)}
	}
	holds, err := expr.MetricHolds(q.Condition, *value)
	if !holds {
		return checkOf(what, spec.Check{Expression: fmt.Sprintf("%s (value %g)", what, *value), Verdict: spec.VerdictFail}, err)
	}
	return spec.Check{Expression: what, Verdict: spec.VerdictPass}
}

// refused returns the first query of a rollout that Prometheus rejects, before anything is loaded; nil if it accepts all of them, or cannot
// be reached now.
func (r *Rollouts) refused(ctx context.Context, in record.StepInput, sp spec.Rollout) error {
	base, err := r.prometheus(ctx, in)
	if err != nil || base == "" {
		return err
	}
	for i, stage := range sp.Stages {
		asks := newStageQueries(base, sp.Target, rollout.Stage{Spec: stage, Candidate: "0", Stable: "0"})
		checks, _ := asks.evaluate(ctx)
		for _, c := range checks {
			if c.Verdict == spec.VerdictError {
				return fault.New(fault.Invalid, fmt.Sprintf("stage %d: %s", i+1, c.Error), nil)
			}
		}
	}
	return nil
}
