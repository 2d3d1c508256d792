package pipelines

import (
	"context"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/sluiceml/sluice/pipelines/account"
	"github.com/sluiceml/sluice/pipelines/spill"
)

func init() {
	register.DoFn4x1[context.Context, string, func(*[]byte) bool, func(string, []byte), error](&dedupFn{})
	register.Iter1[[]byte]()
	register.Emitter2[string, []byte]()
}

// dedupFn decides, for each group of marks, which row to keep for each key. It emits the places of the kept rows by unit.
type dedupFn struct {
	workersFn
	// Rule is the name of the Deduplicate.
	Rule string
}

// ProcessElement passes the marks of one group to a worker, and emits the results that other workers have finished.
func (f *dedupFn) ProcessElement(ctx context.Context, group string, packed func(*[]byte) bool, emit func(string, []byte)) error {
	return f.group(ctx, "survive/"+group, packed, emit, func(_ context.Context, refs []spill.Reference) (outcome, error) {
		return f.dedup(group, refs)
	})
}

// dedup processes one group. Memory: one mark for each key of a part of the group.
func (f *dedupFn) dedup(group string, refs []spill.Reference) (stay outcome, err error) {
	keep, counts := spill.Places{}, account.Ledger{}
	err = spill.InParts(f.job.WorkDir, group, refs, func(refs []spill.Reference) error {
		best := spill.BestMarks{}
		err := spill.FetchMarks(f.job.WorkDir, refs, best.Add)
		best.Each(func(m spill.Packed, several bool) {
			keep.Add(m.Mark())
			if several {
				counts[[2]string{account.CountGroups, f.Rule}]++
			}
		})
		counts[[2]string{account.CountDropped, f.Rule}] += best.Others
		return err
	})
	if err != nil {
		return stay, err
	}
	packs, err := keep.PutAside(f.job.WorkDir, group)
	return outcome{packs, counts}, err
}
