package pipelines

import (
	"context"
	"errors"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/sluiceml/sluice/pipelines/account"
	"github.com/sluiceml/sluice/pipelines/spill"
)

func init() {
	register.DoFn4x1[context.Context, string, func(*[]byte) bool, func(string, []byte), error](&dedupFn{})
	register.Iter1[[]byte]()
	register.Emitter2[string, []byte]()
}

// dedupFn decides, in each group of marks, which row of each key stays. It emits the places of those rows by unit.
type dedupFn struct {
	// Rule is the name of the Deduplicate, Work the work folder, and Workers how many groups are worked on at a time.
	Rule, Work string
	Workers    int

	session *session
	workers workers[survivors]
}

// survivors are what stays of a group.
type survivors struct {
	kept   []spill.Pack // references to places
	counts account.Ledger
}

// Setup finds the session.
func (f *dedupFn) Setup(context.Context) { f.session = sessionOf(f.Work) }

// StartBundle starts the workers.
func (f *dedupFn) StartBundle(ctx context.Context, _ func(string, []byte)) {
	f.workers.start(ctx, f.Workers)
}

// ProcessElement hands the marks of one group to a worker, and emits what others have finished.
func (f *dedupFn) ProcessElement(ctx context.Context, group string, packed func(*[]byte) bool, emit func(string, []byte)) error {
	refs, err := spill.Collect(packed)
	if err != nil {
		return f.session.failed(err)
	}
	f.workers.do(func(ctx context.Context) (survivors, error) {
		stay, err := f.survive(ctx, group, refs)
		return stay, f.session.failed(err)
	})
	f.emit(ctx, emit)
	return nil
}

// FinishBundle waits for the workers and emits the rest.
func (f *dedupFn) FinishBundle(ctx context.Context, emit func(string, []byte)) error {
	err := f.workers.wait()
	f.emit(ctx, emit)
	return err
}

// emit emits what is done.
func (f *dedupFn) emit(ctx context.Context, emit func(string, []byte)) {
	for _, stay := range f.workers.take() {
		for _, p := range stay.kept {
			emit(p.Key, p.Data)
		}
		count(ctx, stay.counts)
	}
}

// survive decides for one group. Memory: the mark of each key that is held of a part of it.
func (f *dedupFn) survive(ctx context.Context, group string, refs []spill.Reference) (stay survivors, err error) {
	done, err := f.session.turn(ctx)
	if err != nil {
		return stay, err
	}
	defer done()
	keep, counts := spill.Places{}, account.Ledger{}
	err = spill.InParts(f.Work, group, refs, func(refs []spill.Reference) error {
		best := spill.BestMarks{}
		err := spill.Fetch(f.Work, refs, func(batch []byte) error { return spill.EachMark(batch, best.Add) })
		best.Each(func(m spill.Packed, several bool) {
			keep.Add(m.Mark())
			if several {
				counts[[2]string{account.CountGroups, f.Rule}]++
			}
		})
		counts[[2]string{account.CountDropped, f.Rule}] += best.Others
		return err
	})
	if err == nil {
		stay.kept, err = keep.PutAside(f.Work, group)
	}
	stay.counts = counts
	return stay, errors.Join(err, counts.Keep(f.Work, "survive/"+group))
}
