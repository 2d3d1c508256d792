package data

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/pipelines/account"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/store/registry"
)

// fewFiles is how many source files of a dataset are listed: those that lost the largest share of their rows.
const fewFiles = 5

// worstFiles are the source files of a version that lost the largest shares of their rows. There are none when the account of the step
// that made it is no longer there, or it lost nothing.
func worstFiles(ctx context.Context, s *store.Store, v registry.Published) ([]account.FileAccount, error) {
	outputs, err := outputsOf(ctx, s, v)
	if err != nil || outputs.Account.IsZero() {
		return nil, err
	}
	manifest, err := s.Manifest(ctx, outputs.Account)
	if err != nil {
		return nil, err
	}
	var worst []account.FileAccount
	for _, f := range manifest.Files {
		err := linesOf(ctx, s, f, func(line []byte) error {
			var a account.FileAccount
			if err := json.Unmarshal(line, &a); err != nil {
				return fmt.Errorf("the account of %s: %w", v.Name, err)
			}
			if lostShare(a) > 0 {
				at, _ := slices.BinarySearchFunc(worst, a, worse)
				worst = slices.Insert(worst, at, a)
				worst = worst[:min(len(worst), fewFiles)]
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return worst, nil
}

// outputsOf reads what the clean step that made a version handed on.
func outputsOf(ctx context.Context, s *store.Store, v registry.Published) (out spec.CleanOutput, err error) {
	id, index := record.SplitStep(v.Step)
	var rec record.StepRecord
	if index >= 0 {
		rec, err = record.LoadInstance(ctx, s, v.Run, id, index)
	} else {
		var run record.Run
		run, err = record.LoadRun(ctx, s, v.Run)
		if at := slices.IndexFunc(run.Steps, func(r record.StepRecord) bool { return r.Step == id }); at >= 0 {
			rec = run.Steps[at]
		}
	}
	if err != nil || !isClean(rec.Kind) || len(rec.Outputs) == 0 {
		return out, err
	}
	return out, json.Unmarshal(rec.Outputs, &out)
}

func lostShare(a account.FileAccount) float64 { return 1 - float64(a.Kept)/float64(max(a.Read, 1)) }

// worse orders accounts: what lost the larger share first, and of equal shares more rows.
func worse(a, b account.FileAccount) int {
	return cmp.Or(cmp.Compare(lostShare(b), lostShare(a)), cmp.Compare(b.Read-b.Kept, a.Read-a.Kept), cmp.Compare(a.File, b.File))
}

// worstText writes them as a table, each with what it lost most rows for.
func worstText(out io.Writer, worst []account.FileAccount) error {
	if len(worst) == 0 {
		return nil
	}
	fmt.Fprintln(out) //nolint:errcheck // the table has the error
	return kit.Table(out, "files with most losses\tread\tkept\tmostly", func(w io.Writer) {
		for _, a := range worst {
			kit.Row(w, a.File, human.Count(a.Read), human.Count(a.Kept), mostly(a))
		}
	})
}

// mostly is what most of a file's lost rows were lost for.
func mostly(a account.FileAccount) string {
	all := map[string]int64{}
	maps.Copy(all, a.Rejected)
	maps.Copy(all, a.Dropped)
	names := slices.SortedFunc(maps.Keys(all), func(x, y string) int { return cmp.Or(cmp.Compare(all[y], all[x]), strings.Compare(x, y)) })
	if len(names) == 0 {
		return ""
	}
	return names[0] + " " + human.Count(all[names[0]])
}
