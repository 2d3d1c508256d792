package control

import (
	"context"
	"maps"
	"slices"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/connect/schedule"
	"github.com/sluiceml/sluice/store/record"
)

// Schedules are the triggers on the server.
func (s *Session) Schedules() *schedule.Schedules {
	return &schedule.Schedules{Client: s.Client, Store: s.Store, Converter: s.Codec.DataConverter(), Home: s.Folder()}
}

// PlanTriggers compares the triggers that a pipeline declares with those on the server. It changes nothing there. The parameters of the
// request are those of all triggers; what a trigger gives itself comes first.
func (s *Session) PlanTriggers(ctx context.Context, req SubmitRequest) (schedule.Plan, error) {
	program, sub, err := req.load()
	if err != nil {
		return schedule.Plan{}, err
	}
	pipeline := program.Pipeline()
	if len(pipeline.Triggers) > 0 {
		if _, err := s.pack(ctx, req, program, &sub); err != nil {
			return schedule.Plan{}, err
		}
	}
	var want []schedule.Declared
	for _, name := range slices.Sorted(maps.Keys(pipeline.Triggers)) {
		spec := pipeline.Triggers[name]
		sub.Params = merged(req.Params, spec.Given())
		if _, bad := program.Params(sub.Params); bad.HasErrors() {
			return schedule.Plan{}, &LintError{bad}
		}
		run := contract.RunInput{Name: pipeline.Name, Graph: program.Graph()}
		if run.Submission, err = record.WriteBlob(ctx, s.Store, sub); err != nil {
			return schedule.Plan{}, err
		}
		trigger, err := schedule.Declare(name, spec, run)
		if err != nil {
			return schedule.Plan{}, err
		}
		want = append(want, trigger)
	}
	return s.Schedules().Plan(ctx, pipeline.Name, want)
}
