// Package schedule keeps the triggers of pipelines as Schedules on a Temporal server. It compares the declared triggers with those on the
// server, applies the differences, and reports what the triggers have done.
//
// A schedule trigger starts runs itself, so Temporal handles conflicts, missed times and pauses. The other kinds watch: their schedule
// keeps a workflow running (workflows.Watch), which checks at intervals and starts a run if there is a reason.
package schedule

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/activities/watch"
	"github.com/sluiceml/sluice/connect"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/suggest"
	"github.com/sluiceml/sluice/store"
)

// Schedules are the triggers on a server.
type Schedules struct {
	Client client.Client
	Store  *store.Store
	// Converter decodes what the client wrote.
	Converter converter.DataConverter
	// Home identifies the server among those that share the store, so that none restores the triggers of another. It is empty for a cluster,
	// which keeps its triggers itself.
	Home string
}

// Plan compares the triggers that a pipeline declares, in the order of their names, with those on the server. It changes nothing.
func (s *Schedules) Plan(ctx context.Context, pipeline string, want []Declared) (Plan, error) {
	found, err := s.marks(ctx, pipeline, want)
	if err != nil {
		return Plan{}, err
	}
	return newPlan(pipeline, want, found)
}

// Apply carries out a plan, and records what is applied. After an error, applying again does the rest.
func (s *Schedules) Apply(ctx context.Context, plan Plan) error {
	for _, change := range plan.Changes {
		var err error
		switch change.Action {
		case contract.TriggerCreate:
			err = s.create(ctx, plan.want[change.Trigger])
		case contract.TriggerUpdate:
			err = s.update(ctx, plan.want[change.Trigger])
		case contract.TriggerDelete:
			err = s.Delete(ctx, change.Trigger)
		case contract.TriggerKeep:
		}
		if err != nil {
			return fmt.Errorf("%s trigger %s: %w", change.Action, change.Trigger, err)
		}
	}
	return nil
}

func (s *Schedules) create(ctx context.Context, d Declared) error {
	d.Since = time.Now().UTC()
	if err := s.record(ctx, d); err != nil { // before the server has it, because from then on its submission is needed
		return err
	}
	return s.put(ctx, d, false, "")
}

// put creates the schedule of a trigger on the server.
func (s *Schedules) put(ctx context.Context, d Declared, paused bool, note string) error {
	spec, err := d.spec()
	if err != nil {
		return err
	}
	policy := d.policy()
	_, err = s.Client.ScheduleClient().Create(ctx, client.ScheduleOptions{
		ID: d.id(), Spec: spec, Action: d.action(), Paused: paused, Note: note,
		Overlap: policy.Overlap, CatchupWindow: policy.CatchupWindow, PauseOnFailure: policy.PauseOnFailure,
		TriggerImmediately: d.Spec.Schedule == nil && !paused, // starts the watch
		Memo:               map[string]any{markKey: mark{Pipeline: d.Pipeline, Trigger: d.Trigger, Kind: d.Kind}},
		TypedSearchAttributes: temporal.NewSearchAttributes(
			temporal.NewSearchAttributeKeyKeyword(contract.SearchPipeline).ValueSet(d.Pipeline)),
	})
	if errors.Is(err, temporal.ErrScheduleAlreadyRunning) {
		return fault.New(fault.Invalid, "a schedule of this name already exists: Sluice did not create it, or another apply just did", err)
	}
	return err
}

// update replaces what a schedule does. It does not change whether the schedule is paused.
func (s *Schedules) update(ctx context.Context, d Declared) error {
	spec, err := d.spec()
	if err != nil {
		return err
	}
	if err := s.record(ctx, d); err != nil {
		return err
	}
	h := s.Client.ScheduleClient().GetHandle(ctx, d.id())
	err = h.Update(ctx, client.ScheduleUpdateOptions{
		DoUpdate: func(in client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
			schedule, policy := in.Description.Schedule, d.policy()
			schedule.Spec, schedule.Action, schedule.Policy = &spec, d.action(), &policy
			return &client.ScheduleUpdate{Schedule: &schedule}, nil
		},
	})
	if err != nil {
		return err
	}
	desc, err := h.Describe(ctx)
	if err != nil {
		return err
	}
	if d.Spec.Schedule == nil && !desc.Schedule.State.Paused {
		return s.beginWatch(ctx, h, "the trigger was changed")
	}
	return s.endWatch(ctx, desc, "the trigger was changed")
}

// Delete removes a trigger, named pipeline/trigger, and its state. Runs that it has started continue.
func (s *Schedules) Delete(ctx context.Context, id string) error {
	pipeline, trigger, err := split(id)
	if err != nil {
		return err
	}
	// The record goes first, so that Restore does not recreate the trigger.
	if err := s.Store.Forget(ctx, s.appliedKey(id)); err != nil {
		return err
	}
	err = s.withTrigger(ctx, id, func(h client.ScheduleHandle) error {
		desc, err := h.Describe(ctx)
		if err != nil {
			return err
		}
		return errors.Join(h.Delete(ctx), s.endWatch(ctx, desc, "the trigger was deleted"))
	})
	if err != nil {
		return err
	}
	return s.Store.Driver().Delete(ctx, watch.Key(pipeline, trigger))
}

// split reads the name of a trigger: pipeline/trigger.
func split(id string) (pipeline, trigger string, err error) {
	pipeline, trigger, ok := strings.Cut(id, "/")
	if !ok || pipeline == "" || trigger == "" || strings.Contains(trigger, "/") {
		return "", "", fault.Errorf(fault.Invalid, "%q is not the name of a trigger: write pipeline/trigger, as shown by `sluice schedule list`", id)
	}
	return pipeline, trigger, nil
}

// explain adds what to do if a schedule does not exist.
func (s *Schedules) explain(ctx context.Context, id string, err error) error {
	if connect.IsNotFound(err) {
		known, _ := s.ids(ctx) // without them there is no suggestion
		return fault.New(fault.Invalid, fmt.Sprintf("there is no trigger %q; `sluice schedule list` lists the triggers%s", id, suggest.HelpNear(id, known)), err)
	}
	return err
}

// marks reads the marks of a pipeline's schedules, in the order of their names. It asks for those in want by name, because the server's
// list may lag behind.
func (s *Schedules) marks(ctx context.Context, pipeline string, want []Declared) ([]mark, error) {
	ids := map[string]bool{}
	for _, d := range want {
		ids[d.id()] = true
	}
	listed, err := s.ids(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range listed {
		if strings.HasPrefix(id, pipeline+"/") {
			ids[id] = true
		}
	}
	var found []mark
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		desc, err := s.Client.ScheduleClient().GetHandle(ctx, id).Describe(ctx)
		if connect.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("describe trigger %s: %w", id, err)
		}
		m, err := s.markOf(desc)
		if err != nil {
			return nil, fmt.Errorf("trigger %s: %w", id, err)
		}
		found = append(found, m)
	}
	return found, nil
}

// ids lists the schedules that carry Sluice's mark.
func (s *Schedules) ids(ctx context.Context) ([]string, error) {
	all, err := s.Client.ScheduleClient().List(ctx, client.ScheduleListOptions{PageSize: 1000})
	if err != nil {
		return nil, fmt.Errorf("list the triggers: %w", err)
	}
	var ids []string
	for all.HasNext() {
		entry, err := all.Next()
		if err != nil {
			return nil, fmt.Errorf("list the triggers: %w", err)
		}
		if _, ours := entry.Memo.GetFields()[markKey]; ours {
			ids = append(ids, entry.ID)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// markOf reads the mark of a schedule from the memo of the workflow that it starts, because the memo of a schedule itself cannot be
// changed.
func (s *Schedules) markOf(desc *client.ScheduleDescription) (mark, error) {
	var m mark
	action, ok := desc.Schedule.Action.(*client.ScheduleWorkflowAction)
	if !ok {
		return m, errors.New("it starts no workflow: Sluice did not create it")
	}
	payload, ok := action.Memo[markKey].(*commonpb.Payload)
	if !ok {
		return m, errors.New("a schedule of this name exists that Sluice did not create")
	}
	return m, s.Converter.FromPayload(payload, &m)
}
