package run

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/activities/retention"
	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/store/registry"
)

// removedRuns is what `rm` removed or would remove.
type removedRuns struct {
	Runs []removedRun `json:"runs"`
	// Removed is false when it was only looked.
	Removed bool `json:"removed"`
}

// removedRun is a run with all that is part of it.
type removedRun struct {
	Run      string   `json:"run"`
	Children []string `json:"children"`
	// Bytes are those of records and checkpoints.
	Bytes int64 `json:"bytes"`
	// Published are the versions it published, which stay.
	Published []string `json:"published"`

	record record.RunRecord
}

// NewRemove makes `sluice rm`.
func NewRemove() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rm RUN...",
		Short: "Remove runs that have ended",
		Long: `Remove the records, checkpoints and logs of runs that have ended, and of their
child pipelines. Without --yes nothing is removed, only listed. Published
versions are kept, and so are results that a later run of the pipeline reused;
files that nothing refers to any more are removed by ` + "`sluice data gc`" + `.
RUN is the name of a run, or a prefix that only one run has.

A run cannot be removed if it is open, an open run reads it, it is the last
accepted run of its pipeline, or a target serves its release or keeps it in
reserve; nor can the run of a child pipeline, which is removed with its parent.
` + "`keep: {runs: 30, days: 90}`" + ` in a pipeline removes its older runs
automatically.`,
		Example: `  sluice rm reviews-20260301-120000
  sluice rm reviews-20260301-120000 reviews-20260302-120000 --yes`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: kit.CompleteRuns,
	}
	format := kit.AddFormat(cmd)
	yes := cmd.Flags().Bool("yes", false, "remove instead of only listing")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := kit.OpenStore(cmd)
		if err != nil {
			return err
		}
		all, err := record.Runs(cmd.Context(), s)
		if err != nil {
			return err
		}
		done := removedRuns{Runs: []removedRun{}, Removed: *yes}
		if done.Runs, err = removable(cmd.Context(), s, all, args); err != nil {
			return err
		}
		if *yes {
			for _, r := range done.Runs {
				if err := retention.Remove(cmd.Context(), s, all, r.record, filepath.Join(kit.StateDir(cmd), "logs")); err != nil {
					return err
				}
			}
		}
		return kit.Print(cmd, *format, done, done.text)
	}
	return cmd
}

// removable finds the runs with some names, and refuses those that are needed, all at once.
func removable(ctx context.Context, s *store.Store, all []record.RunRecord, names []string) ([]removedRun, error) {
	needed, err := retention.Needed(ctx, s, all)
	if err != nil {
		return nil, err
	}
	_, children := record.Apart(all)
	var runs []removedRun
	var refused []string
	for _, name := range names {
		found, err := control.Named(all, name)
		if err != nil {
			refused = append(refused, fault.Message(err))
			continue
		}
		run := found[0]
		same := func(r record.RunRecord) bool { return r.Run == run.Run }
		switch {
		case len(found) > 1:
			refused = append(refused, fmt.Sprintf("%s has %d runs: use the name of one of them, such as %s", name, len(found), run.Run))
		case slices.ContainsFunc(children, same):
			refused = append(refused, run.Run+" is the run of a child pipeline, and is removed with its parent")
		case needed[run.Run] != "":
			refused = append(refused, run.Run+" cannot be removed: "+needed[run.Run])
		case slices.ContainsFunc(runs, func(r removedRun) bool { return r.Run == run.Run }):
		default:
			described, err := describeRun(ctx, s, all, run)
			if err != nil {
				return nil, err
			}
			runs = append(runs, described)
		}
	}
	if refused != nil {
		return nil, kit.Invalidf("nothing was removed: %s", strings.Join(refused, "\n"))
	}
	return runs, nil
}

func describeRun(ctx context.Context, s *store.Store, all []record.RunRecord, run record.RunRecord) (removedRun, error) {
	r := removedRun{Run: run.Run, Children: []string{}, Published: []string{}, record: run}
	for _, one := range append(retention.Children(all, run.Run), run) {
		if one.Run != run.Run {
			r.Children = append(r.Children, one.Run)
		}
		size, err := retention.Size(ctx, s, one.Run)
		if err != nil {
			return r, err
		}
		r.Bytes += size
		for _, typ := range []artifact.Type{artifact.Dataset, artifact.Model} {
			versions, err := registry.PublishedBy(ctx, s, typ, one.Run)
			if err != nil {
				return r, err
			}
			for _, v := range versions {
				r.Published = append(r.Published, string(typ)+" "+v.Name)
			}
		}
	}
	return r, nil
}

func (d removedRuns) text(out io.Writer) error {
	verb, total := "removed", int64(0)
	if !d.Removed {
		verb = "would remove"
		if _, err := fmt.Fprintln(out, "dry run: nothing is removed without `--yes`"); err != nil {
			return err
		}
	}
	for _, r := range d.Runs {
		total += r.Bytes
		line := verb + " " + r.Run
		if n := len(r.Children); n > 0 {
			line += " with " + human.Plural(int64(n), "child run")
		}
		line += ", " + human.Bytes(r.Bytes)
		if len(r.Published) > 0 {
			line += "; it published " + strings.Join(r.Published, ", ") + ", which is kept"
		}
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	last := "run `sluice data gc` to remove the files that nothing refers to any more"
	if !d.Removed {
		last = "`--yes` removes " + human.Plural(int64(len(d.Runs)), "run") + ", " + human.Bytes(total)
	}
	_, err := fmt.Fprintln(out, last)
	return err
}
