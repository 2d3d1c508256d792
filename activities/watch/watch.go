// Package watch decides when triggers that watch data, a metric or another pipeline start a run.
package watch

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// Triggers has the activities of triggers that watch something.
//
// A run is started in three steps, each of which may be repeated: Look
// records that a run is due, the watch workflow starts it, and Note removes it. The run's ID is derived from its cause, so one cause has
// one run, whatever is repeated.
type Triggers struct {
	Store *store.Store
	// Stands reports whether a watch still belongs to its trigger: not if the trigger is paused, was changed or is gone.
	Stands func(context.Context, contract.WatchInput) (bool, error)
	// Open reports whether a run has not ended.
	Open func(ctx context.Context, run string) (bool, error)
	// Now is the clock; time.Now when nil.
	Now func() time.Time
}

// State is triggers/<pipeline>/<trigger>.json: what a trigger that watches something has seen and done.
type State struct {
	// Spec is the digest of the trigger as it was at the last look.
	Spec     string    `json:"spec"`
	LookedAt time.Time `json:"looked_at"`
	// Saw is one line for people about the last check.
	Saw string `json:"saw,omitempty"`
	// Error is the reason why the check at FailedAt failed, if none has succeeded since.
	Error    string    `json:"error,omitempty"`
	FailedAt time.Time `json:"failed_at,omitzero"`
	// Due is a run that was decided on and may not have been started yet.
	Due *contract.Look `json:"due,omitempty"`
	// Run is the last one started; FiredAt is when the last one was decided on.
	Run     string    `json:"run,omitempty"`
	FiredAt time.Time `json:"fired_at,omitzero"`

	// Objects are those a data trigger knows, by URL.
	Objects map[string]KnownObject `json:"objects,omitempty"`
	// HoldsSince is since when a metric trigger's condition has held; zero when it does not.
	HoldsSince time.Time `json:"holds_since,omitzero"`
	// Accepted is the newest run a pipeline trigger has seen.
	Accepted string `json:"accepted,omitempty"`
}

// Key is where a trigger's state is in the store.
func Key(pipeline, trigger string) string {
	return store.TriggersPrefix + pipeline + "/" + trigger + ".json"
}

// LoadState reads a trigger's state; the zero state when it has never looked.
func LoadState(ctx context.Context, s *store.Store, pipeline, trigger string) (State, error) {
	var state State
	if err := s.GetJSON(ctx, Key(pipeline, trigger), &state); err != nil && !errors.Is(err, store.ErrNotFound) {
		return state, fmt.Errorf("state of trigger %s: %w", contract.ScheduleID(pipeline, trigger), err)
	}
	return state, nil
}

// Look checks whether there is a reason to start a run. It records its answer before it returns it.
func (t *Triggers) Look(ctx context.Context, in contract.WatchInput) (contract.Look, error) {
	if in.Looked {
		switch stands, err := t.Stands(ctx, in); {
		case err != nil:
			return contract.Look{}, err
		case !stands:
			return contract.Look{Over: true}, nil
		}
	}
	pipeline, trigger := in.Run.Name, in.Run.Trigger.Name
	state, err := LoadState(ctx, t.Store, pipeline, trigger)
	if err != nil {
		return contract.Look{}, err
	}
	if state.Due != nil {
		return *state.Due, nil
	}
	returned, holder, err := t.takeBack(ctx, pipeline, trigger, &state)
	if err != nil {
		return contract.Look{}, err
	}
	cause, err := t.look(ctx, in, &state, t.now())
	if err != nil {
		return contract.Look{}, err
	}
	if cause != nil && holder != "" {
		state.FiredAt, cause = state.LookedAt, nil
		state.takeBack(state.LookedAt)
		state.Saw += ", waiting for the end of run " + holder + ", which holds the concurrency group"
	}
	if cause != nil {
		cause.facts.Name, cause.facts.Kind, cause.facts.Time = trigger, in.Run.Trigger.Kind, state.LookedAt
		state.Due = &contract.Look{
			// A trigger that was deleted and applied again, and what a run has returned, start other runs for the same cause.
			Run:     contract.ScheduledRun(pipeline, trigger) + "-" + shortDigest(pipeline, trigger, in.Since.Format(time.RFC3339Nano), state.Run, cause.is),
			Trigger: cause.facts, Summary: state.Saw,
		}
		state.FiredAt = state.LookedAt
	}
	if err := context.Cause(ctx); err != nil {
		return contract.Look{}, err // the next look may be under way: what this one saw is old
	}
	if err := t.Store.PutJSON(ctx, Key(pipeline, trigger), state, store.WriteOptions{}); err != nil {
		return contract.Look{}, err
	}
	for _, r := range returned {
		facts := spec.TriggerFacts{Name: trigger, Time: r.At}
		if err := t.Store.Driver().Delete(ctx, record.ReturnedKey(pipeline, facts)); err != nil {
			return contract.Look{}, err // a repeated look finds it taken back
		}
	}
	if state.Due != nil {
		return *state.Due, nil
	}
	return contract.Look{Summary: state.Saw}, nil
}

// takeBack makes due again what was handed to runs that gave way to others, and returns these runs. It waits until all of those others have
// ended: a run that is started earlier would be turned away too, or cancel the run that took the place of the last. If a new run would be turned
// away for any cause, holder is the run that holds the group.
func (t *Triggers) takeBack(ctx context.Context, pipeline, trigger string, state *State) (returned []record.Returned, holder string, err error) {
	returned, err = store.RecordsIn[record.Returned](ctx, t.Store, record.ReturnedPrefix(pipeline, trigger), nil)
	if err != nil {
		return nil, "", err
	}
	waits := false
	for _, r := range returned {
		if r.By == "" {
			continue
		}
		open, err := t.Open(ctx, r.By)
		if err != nil {
			return nil, "", err
		}
		if waits = waits || open; open && !r.Evicted {
			holder = r.By
		}
	}
	if waits {
		return nil, holder, nil
	}
	for _, r := range returned {
		state.takeBack(r.At)
	}
	return returned, "", nil
}

// takeBack makes due again what was handed to the run that the trigger started at a time.
func (state *State) takeBack(at time.Time) {
	for url, o := range state.Objects {
		if o.Handed.Equal(at) {
			o.Started, o.Handed = "", time.Time{}
			state.Objects[url] = o
		}
	}
	if state.FiredAt.Equal(at) {
		state.FiredAt, state.Accepted = time.Time{}, ""
	}
}

// cause is why a run is due.
type cause struct {
	// is tells one cause from all others of the trigger.
	is    string
	facts spec.TriggerFacts
}

// look is Look for one kind of trigger: it brings the state up to date and returns the cause of a run, or nil.
func (t *Triggers) look(ctx context.Context, in contract.WatchInput, state *State, now time.Time) (*cause, error) {
	spec, err := specDigest(in.Spec)
	if err != nil {
		return nil, err
	}
	if state.Spec != spec {
		state.HoldsSince = time.Time{} // it was another condition that held
	}
	last := state.LookedAt
	state.Spec, state.LookedAt, state.Error, state.FailedAt = spec, now, "", time.Time{}
	switch {
	case in.Spec.Data != nil:
		found, err := listObjects(ctx, *in.Spec.Data)
		if err != nil {
			return nil, err
		}
		return state.data(*in.Spec.Data, found, now), nil
	case in.Spec.Metric != nil:
		value, err := t.measure(ctx, *in.Spec.Metric, in.Run.Name)
		if err != nil {
			return nil, err
		}
		return state.metric(*in.Spec.Metric, value, last, now)
	case in.Spec.Pipeline != nil:
		newest, err := record.LastAccepted(ctx, t.Store, in.Spec.Pipeline.Name, "")
		if err != nil {
			return nil, err
		}
		return state.pipeline(*in.Spec.Pipeline, newest, in.Since), nil
	}
	return nil, fault.New(fault.Invalid, "trigger "+in.Run.Trigger.Name+" watches nothing", nil)
}

// now is the time by the clock.
func (t *Triggers) now() time.Time {
	if t.Now != nil {
		return t.Now().UTC()
	}
	return time.Now().UTC()
}

// Note removes a run that was started, or records why a check failed. It ignores a run that is not due, because that was noted before.
func (t *Triggers) Note(ctx context.Context, in contract.WatchNote) error {
	state, err := LoadState(ctx, t.Store, in.Pipeline, in.Trigger)
	if err != nil {
		return err
	}
	switch {
	case in.Error != "":
		state.Error, state.FailedAt = in.Error, t.now()
	case state.Due == nil || state.Due.Run != in.Run:
		return nil
	default:
		state.Due, state.Run = nil, in.Run
	}
	return t.Store.PutJSON(ctx, Key(in.Pipeline, in.Trigger), state, store.WriteOptions{})
}

// pipeline is due once for each accepted run that ended after the trigger was applied.
func (state *State) pipeline(spec spec.PipelineTrigger, newest record.Accepted, since time.Time) *cause {
	state.Saw = cmp.Or(newest.Run, "no accepted run of "+spec.Name+" yet")
	if newest.Run == "" || newest.Run == state.Accepted || !newest.EndedAt.After(since) {
		return nil
	}
	state.Accepted = newest.Run
	return &cause{is: newest.Run}
}

func specDigest(spec spec.Trigger) (string, error) {
	raw, err := json.Marshal(spec)
	if err != nil {
		return "", fmt.Errorf("encode the trigger: %w", err)
	}
	return shortDigest(string(raw)), nil
}

// shortDigest names something by its content: 48 bits, among the runs of one trigger.
func shortDigest(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		h.Write(fmt.Appendf(nil, "%d:%s", len(part), part)) // never fails, by hash.Hash's documentation
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}
