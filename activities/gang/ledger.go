package gang

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/checkpoint"
	"github.com/sluiceml/sluice/training/ledger"
)

// entryOf is a gang of an offer, at its price.
func entryOf(o contract.Offer, gang training.Gang) ledger.Entry {
	gang.Capacity, gang.USDPerHour = cmp.Or(gang.Capacity, o.Capacity), cmp.Or(gang.USDPerHour, o.USDPerHour)
	return ledger.Entry{Pool: o.Pool, Gang: gang, PriceUnknown: o.PriceUnknown && gang.USDPerHour == 0}
}

// enterFailed enters the gangs that a pool ended before they were whole.
func (a *acquiring) enterFailed(ctx context.Context, o contract.Offer, err error) error {
	var started *training.FailedStartError
	if !errors.As(err, &started) {
		return err
	}
	var ended []ledger.Entry
	for _, gang := range started.Gangs {
		ended = append(ended, entryOf(o, gang))
	}
	if _, failed := ledger.Close(ctx, a.Store, a.in.Request.Key, o.Pool, ended, ledger.Lost{}, time.Now().UTC()); failed != nil {
		return errors.Join(err, fmt.Errorf("record its cost: %w", failed))
	}
	return err
}

// enterReleased enters what a pool has released, and returns what the key has cost.
func (t *Trainings) enterReleased(ctx context.Context, in contract.ReleaseInput, pool string, gangs []training.Gang) (fault.Costs, error) {
	now := time.Now().UTC()
	sub, err := t.Engine.Submission(ctx, in.Submission)
	if err != nil {
		return fault.Costs{}, err
	}
	var ended []ledger.Entry
	for _, gang := range gangs {
		ended = append(ended, entryOf(offerOf(sub.Program.Environment(), pool, gang.Capacity), gang))
	}
	return ledger.Close(ctx, t.Store, in.Key, pool, ended, in.Lost, now)
}

// account adds up what a training did, and what it paid for.
func (t *Trainings) account(ctx context.Context, in record.StepInput, generations []spec.Generation) (spec.TrainOutput, error) {
	entries, err := ledger.Load(ctx, t.Store, in.Run, in.Step)
	if err != nil {
		return spec.TrainOutput{}, fmt.Errorf("read what the nodes cost: %w", err)
	}
	progress := make([]checkpoint.Progress, len(generations))
	if err := store.Each(ctx, len(generations), func(ctx context.Context, i int) (err error) {
		k := training.Key{Run: in.Run, Step: in.Step, Generation: generations[i].Index}
		progress[i], err = checkpoint.GetProgress(ctx, t.Store, k)
		return err
	}); err != nil {
		return spec.TrainOutput{}, err
	}
	costs := ledger.Account(entries, generations, progress, time.Now().UTC())
	out := account(generations, costs)
	out.Nodes, err = record.WriteBlob(ctx, t.Store, costs)
	return out, err
}
