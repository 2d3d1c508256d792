package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	workflowpb "go.temporal.io/api/workflow/v1"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/connect"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/suggest"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/store"
)

// orderTimeout bounds the wait until an order to a rollout has been carried out: traffic that moves, at all replicas.
const orderTimeout = time.Minute

// Rollout is where a rollout that goes on is.
type Rollout struct {
	contract.RolloutState
	// LookedAt is when its newest look was made; zero when there is none.
	LookedAt time.Time `json:"looked_at,omitzero"`
}

// Rollout asks the rollout that goes on at a target where it is; nil when there is none.
func (s *Session) Rollout(ctx context.Context, target string) (*Rollout, error) {
	id := contract.RolloutWorkflowID(target)
	asking, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	desc, err := s.Client.DescribeWorkflowExecution(asking, id, "")
	switch {
	case connect.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("describe %s: %w", id, err)
	case !connect.IsRunning(desc.GetWorkflowExecutionInfo().GetStatus()):
		return nil, nil
	}
	var r Rollout
	if err := s.query(ctx, id, &r.RolloutState); err != nil {
		return nil, err
	}
	if p := s.looked(desc.GetPendingActivities()); p.Look != nil {
		r.Look, r.LookedAt = p.Look, p.At
	}
	return &r, nil
}

// looked is the newest look that the pending activities of a rollout have made: one looks many times, and its workflow learns of that when it
// ends. One that is paused has two for a moment.
func (s *Session) looked(pending []*workflowpb.PendingActivityInfo) (newest contract.RolloutProgress) {
	for _, a := range pending {
		var p contract.RolloutProgress
		if a.GetActivityType().GetName() == contract.RolloutLookActivity && hasDetails(a) && s.details(a, &p) == nil && p.At.After(newest.At) {
			newest = p
		}
	}
	return newest
}

// OrderRollout has the rollout of a target do what a person orders, and returns where it is after that. It is an invalid error when no
// rollout goes on there, or it cannot be done.
func (s *Session) OrderRollout(ctx context.Context, target string, o contract.RolloutOrder) (contract.RolloutState, error) {
	var state contract.RolloutState
	err := s.update(ctx, orderTimeout, contract.RolloutWorkflowID(target), contract.RolloutUpdate, o, &state)
	switch {
	case connect.IsNotFound(err):
		return state, fault.New(fault.Invalid, "no rollout is running at target "+target, ErrNoRollout)
	case err != nil && fault.TypeOf(err) != fault.Invalid:
		return state, fmt.Errorf("%s the rollout of %s: %w", o.Action, target, err)
	}
	return state, err
}

// ErrNoRollout says that no rollout goes on at a target.
var ErrNoRollout = errors.New("no rollout is running")

// FindTarget demands that something was ever released to a target.
func FindTarget(ctx context.Context, s *store.Store, name string) error {
	targets, err := routing.Targets(ctx, s)
	switch {
	case err != nil:
		return err
	case slices.Contains(targets, name):
		return nil
	case len(targets) == 0:
		return invalid("nothing was ever released to a target %q\nhelp: a step of kind `rollout` releases a model", name)
	}
	return invalid("nothing was ever released to a target %q%s", name, suggest.Help(name, targets))
}

// RollBack gives all traffic of a target back to a release that was promoted there: version or, if that is empty, the newest one before what
// serves that has another model. It is an invalid error when that release cannot serve, or may not: while a rollout goes on, its end decides.
func RollBack(ctx context.Context, s *store.Store, target, version, by, reason string) (routing.Document, error) {
	for {
		doc, err := routing.Current(ctx, s, target)
		if err != nil {
			return doc, err
		}
		releases, err := routing.Releases(ctx, s, target)
		if err != nil {
			return doc, err
		}
		to, err := wayBack(doc, releases, version)
		if err != nil {
			return doc, err
		}
		if r, ok := doc.Serving(); ok && r.Original() == to.Original() && r.Weight == 1 {
			return doc, nil
		}
		if whole, err := s.HasTree(ctx, to.Model); err != nil {
			return doc, err
		} else if !whole {
			return doc, invalid("files of the model of release %s have been removed from the store, so it cannot be loaded", to.Version)
		}
		doc, err = routing.RollBack(ctx, s, doc, to.Release, by, reason)
		if !errors.Is(err, routing.ErrConflict) { // else somebody else was faster: decide anew
			return doc, err
		}
	}
}

// wayBack is the release that a target is to be rolled back to.
func wayBack(doc routing.Document, releases []routing.Past, version string) (routing.Past, error) {
	serving, ok := doc.Serving()
	var promoted, known []string
	var found *routing.Past
	before := func(r routing.Past) bool {
		return ok && versionNumber(r.Original()) < versionNumber(serving.Original()) && r.Model.Digest != serving.Model.Digest
	}
	for i, r := range releases { // newest first
		if _, loaded := doc.Release(r.Version); loaded && r.End.Decision == "" {
			return r, invalid("the rollout of release %s has not ended\nhelp: end it first with `sluice rollout abort %s`, which takes its traffic back", r.Version, doc.Target)
		}
		known = append(known, r.Version)
		if r.End.Decision == routing.Promoted {
			promoted = append(promoted, r.Version)
			if version == "" && before(r) && found == nil {
				found = &releases[i]
			}
		}
		if version == r.Version {
			found = &releases[i]
		}
	}
	list := "\nhelp: `sluice release ls " + doc.Target + "` lists the releases"
	switch {
	case found == nil && version == "":
		return routing.Past{}, invalid("target %s has no earlier release that was promoted and has another model than what serves%s; name one with --to", doc.Target, list)
	case found == nil:
		return routing.Past{}, invalid("target %s has no release %q; its releases are %s%s", doc.Target, version, strings.Join(known, ", "), list)
	case found.End.Decision != routing.Promoted:
		why := cmp.Or(found.End.Reason, found.Reason)
		if why != "" {
			why = " (" + why + ")"
		}
		return routing.Past{}, invalid("release %s was never promoted: its rollout was rolled back%s\nhelp: the promoted releases are %s; to release this model, run its pipeline again",
			found.Version, why, strings.Join(promoted, ", "))
	}
	return *found, nil
}

func versionNumber(version string) int {
	n, _ := strconv.Atoi(version) // the routing document has nothing else
	return n
}

// Withdraw takes back the traffic of a rollout that no workflow executes any more, such as one that somebody has terminated. It returns how the
// rollout ended thereby; false when there is nothing to take back.
func Withdraw(ctx context.Context, s *store.Store, target, by, reason string) (routing.Outcome, bool, error) {
	for {
		doc, err := routing.Current(ctx, s, target)
		if err != nil {
			return routing.Outcome{}, false, err
		}
		releases, err := routing.Releases(ctx, s, target)
		if err != nil {
			return routing.Outcome{}, false, err
		}
		var kept []routing.Release
		var candidate *routing.Past
		for i, r := range releases { // newest first
			if now, loaded := doc.Release(r.Version); loaded && r.End.Decision == "" {
				candidate = &releases[i]
			} else if loaded {
				kept = append(kept, now)
			}
		}
		if candidate == nil {
			return routing.Outcome{}, false, nil
		}
		if len(kept) > 0 {
			stable := slices.MaxFunc(kept, func(a, b routing.Release) int { return cmp.Compare(a.Weight, b.Weight) })
			for i := range kept {
				kept[i].Weight = 0
				if kept[i].Version == stable.Version {
					kept[i].Weight = 1
				}
			}
		}
		doc.Releases, doc.Shadow, doc.Sticky, doc.Candidate, doc.Stable, doc.By, doc.Reason = kept, nil, nil, "", "", by, reason
		if _, err := routing.Set(ctx, s, doc.Revision, doc); errors.Is(err, routing.ErrConflict) {
			continue
		} else if err != nil {
			return routing.Outcome{}, false, err
		}
		end := routing.Outcome{
			Target: target, Version: candidate.Version, Run: candidate.Run, Step: candidate.Step,
			Decision: routing.RolledBack, Reason: reason, At: time.Now().UTC(), By: by,
		}
		return end, true, routing.PutOutcome(ctx, s, end)
	}
}
