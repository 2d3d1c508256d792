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

// Applied is applied/<home>/<pipeline>/<trigger>.json, on a cluster without the home: a trigger as it was last applied, with everything
// needed to apply it again on a server that has lost it. As a record of the store, it also protects from garbage collection what the
// trigger will run: the submission and, through that, the workspace.
type Applied struct {
	// Spec is the trigger as the pipeline declared it.
	Spec spec.Trigger `json:"spec"`
	// Run is what all its runs have in common: the pipeline's name, its graph, the digest of the submission (which has the environment and
	// the parameters), and the trigger's name and kind.
	Run contract.RunInput `json:"run"`
	// Home identifies the server it was applied on (Schedules.Home).
	Home string `json:"home,omitempty"`
	// Since is when the trigger was first applied.
	Since time.Time `json:"since"`
	// Paused is set, and Note has the reason, if a person has paused it.
	Paused bool   `json:"paused,omitempty"`
	Note   string `json:"note,omitempty"`
}

// appliedKey returns the key of the record of a trigger. Triggers of the same name on several servers have one each.
func (s *Schedules) appliedKey(id string) string {
	return store.AppliedPrefix + path.Join(s.Home, id) + ".json"
}

// Applied returns the triggers that were applied and not deleted since, whether or not the server has them.
func (s *Schedules) Applied(ctx context.Context) ([]Applied, error) {
	return store.RecordsIn[Applied](ctx, s.Store, store.AppliedPrefix, nil)
}

// record records that a trigger is applied. It does not change whether the trigger is paused.
func (s *Schedules) record(ctx context.Context, d Declared) error {
	var a Applied
	if err := s.Store.GetJSON(ctx, s.appliedKey(d.id()), &a); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if a.Home != "" { // a run that it has just started may not have recorded its submission yet
		if err := s.Store.NoteForgotten(ctx, s.appliedKey(d.id())); err != nil {
			return err
		}
	}
	a.Spec, a.Run, a.Since, a.Home = d.Spec, d.run, d.Since, s.Home
	return s.Store.PutJSON(ctx, s.appliedKey(d.id()), a, store.WriteOptions{})
}

// recordPause records whether a trigger is paused.
func (s *Schedules) recordPause(ctx context.Context, id string, paused bool, note string) error {
	var a Applied
	if err := s.Store.GetJSON(ctx, s.appliedKey(id), &a); err != nil {
		return err
	}
	a.Paused, a.Note = paused, note
	return s.Store.PutJSON(ctx, s.appliedKey(id), a, store.WriteOptions{})
}
