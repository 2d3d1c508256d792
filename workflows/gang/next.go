package gang

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
)

// askAhead requests the next generation's gang as soon as a notice says that nodes of this one will go, while its ranks write their last
// checkpoint. It requests what the next generation prefers, with at least this one's size: the pool may lack room only because of this
// gang, which is no reason to use something more expensive, or less. If the gang is not there when the ranks have stopped, the next
// generation requests it again under the same key, so a pool that has begun to start it continues.
func (l *generation) askAhead(ctx workflow.Context) {
	ends := l.notice == nil || l.loss != nil || l.canceled || l.late || l.overBudget || l.overdue
	if ends || l.watcher != nil && (l.watcher.asking || l.watcher.found != nil) {
		return
	}
	w := &spotWatcher{asked: l.watcher != nil && l.watcher.asked}
	l.watcher, l.ahead = w, true
	workflow.GoNamed(ctx, "next gang", func(ctx workflow.Context) {
		defer func() { w.ended = true }()
		choice, err := l.chooseNext(ctx)
		if err != nil || len(choice.Offers) == 0 || ctx.Err() != nil {
			return
		}
		choice.Offers = choice.Offers[:1]
		if err := l.askNext(ctx, w, choice, max(l.plan.MinNodes, len(l.nodes))); err != nil {
			workflow.GetLogger(ctx).Info("the next gang is not there yet", "reason", err)
		}
	})
}

// chooseNext decides what the next generation will ask for when this one has ended by its notice.
func (l *generation) chooseNext(ctx workflow.Context) (contract.Choice, error) {
	ended := l.current
	ended.End, ended.EndedAt = spec.EndNotice, workflow.Now(ctx)
	current := l.current
	current.Capacity = "" // it is about to be gone
	return l.decide(ctx, append(slices.Clone(l.carried.Generations), ended), current)
}

// askNext asks for the next generation's gang, and notes it in w. A gang whose price nobody knows goes back where the run has a budget: that
// could not end it.
func (l *generation) askNext(ctx workflow.Context, w *spotWatcher, choice contract.Choice, least int) error {
	next := l.key()
	next.Generation++
	w.asked, w.asking = true, true
	got, err := l.ask(ctx, next, choice, least)
	w.asking = false
	switch {
	case err == nil && l.isUnbounded(got.Offer):
		l.giveBack(ctx, l.pools())
	case err == nil:
		w.found = &got
	}
	return err
}
