package schedule

import (
	"context"
	"errors"
	"path"
	"time"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store"
)

// Applied is applied/<home>/<pipeline>/<trigger>.json, on a cluster without the home: a trigger as it was last applied, with all that it
// takes to apply it again on a server that has lost it. As a record of the store it also keeps what the trigger will run from garbage
// collection: the submission, and by way of it the workspace.
type Applied struct {
	// Spec is the trigger as the pipeline declared it.
	Spec spec.Trigger `json:"spec"`
	// Run is what all its runs have in common: the pipeline's name, its graph, the digest of the submission (which has the environment and
	// the parameters), and the trigger's name and kind.
	Run contract.RunInput `json:"run"`
	// Home names the server it was applied on (Schedules.Home).
	Home string `json:"home,omitempty"`
	// Since is when the trigger was first applied.
	Since time.Time `json:"since"`
	// Paused, with the reason, when a person paused it.
	Paused bool   `json:"paused,omitempty"`
	Note   string `json:"note,omitempty"`
}

// appliedKey is where the record of a trigger is. Triggers of the same name on several servers have one each.
func (s *Schedules) appliedKey(id string) string {
	return store.AppliedPrefix + path.Join(s.Home, id) + ".json"
}

// Applied are the triggers that were applied and not deleted since, whatever the server knows of them.
func (s *Schedules) Applied(ctx context.Context) ([]Applied, error) {
	return store.RecordsIn[Applied](ctx, s.Store, store.AppliedPrefix, nil)
}

// record notes that a trigger is applied. Whether it is paused stays as it is.
func (s *Schedules) record(ctx context.Context, d Declared) error {
	var a Applied
	if err := s.Store.GetJSON(ctx, s.appliedKey(d.id()), &a); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if a.Home != "" { // a run that it has just started has not noted yet what it was submitted with
		if err := s.Store.NoteForgotten(ctx, s.appliedKey(d.id())); err != nil {
			return err
		}
	}
	a.Spec, a.Run, a.Since, a.Home = d.Spec, d.run, d.Since, s.Home
	return s.Store.PutJSON(ctx, s.appliedKey(d.id()), a, store.WriteOptions{})
}

// recordPause notes that a trigger is paused, or is no longer. One that an earlier version of Sluice applied has no record.
func (s *Schedules) recordPause(ctx context.Context, id string, paused bool, note string) error {
	var a Applied
	err := s.Store.GetJSON(ctx, s.appliedKey(id), &a)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	a.Paused, a.Note = paused, note
	return s.Store.PutJSON(ctx, s.appliedKey(id), a, store.WriteOptions{})
}
