package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/registry"
)

// removedData is what `data rm` removed or would remove.
type removedData struct {
	Name     string   `json:"name"`
	Versions []string `json:"versions"`
	// Runs are those whose records still refer to what the versions hold.
	Runs []string `json:"runs"`
	// Removed is false when it was only looked.
	Removed bool `json:"removed"`
}

func newDataRemove() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rm NAME[@VERSION]",
		Short: "Remove a version of a dataset or model, or all its versions",
		Long: `Remove a version of a dataset or model with its tags, or a name with all its
versions. Without --yes nothing is removed, only listed. The current version
cannot be removed, nor can a model that a target serves. The name's history
still shows when the version was current, and who made it so.

The files are removed by ` + "`sluice data gc`" + ` once nothing refers to them: the runs
that still do are listed, and ` + "`sluice rm`" + ` removes those. gc keeps the files for
as long as --older-than says; with --older-than 0s, while nothing runs, it
removes them immediately.`,
		Example: `  sluice data rm reviews@1f0a
  sluice data rm reviews@1f0a --yes
  sluice data rm model:reviews`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeData(1),
	}
	format := kit.AddFormat(cmd)
	yes := cmd.Flags().Bool("yes", false, "remove instead of only listing")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := dataStore(cmd)
		if err != nil {
			return err
		}
		done, typ, digests, err := removableData(cmd.Context(), s, args[0])
		if err != nil {
			return err
		}
		if done.Removed = *yes; *yes {
			digest := ""
			if strings.Contains(args[0], "@") {
				digest = digests[0]
			}
			if err := registry.Remove(cmd.Context(), s, typ, done.Name, digest); errors.Is(err, registry.ErrCurrent) {
				return currentData(done.Name)
			} else if err != nil {
				return err
			}
		}
		return kit.Print(cmd, *format, done, done.text)
	}
	return cmd
}

func currentData(name string) error {
	return kit.Invalidf("this is the current version of %s\nhelp: roll back to another version first with `sluice data rollback`; `sluice data rm %s` removes the name with all versions", name, name)
}

// removableData finds the versions that are to go, and the runs that refer to what they hold.
func removableData(ctx context.Context, s *store.Store, text string) (d removedData, typ artifact.Type, digests []string, err error) {
	d = removedData{Versions: []string{}, Runs: []string{}}
	name, version, versioned := strings.Cut(text, "@")
	current, err := currentOf(ctx, s, name)
	if err != nil {
		return d, "", nil, err
	}
	d.Name, typ = current.Name, current.Artifact.Type
	if versioned {
		v, err := findVersion(ctx, s, name, version)
		if err != nil {
			return d, "", nil, err
		}
		if current.Artifact.Digest == v.Artifact.Digest {
			return d, "", nil, currentData(name)
		}
		digests = []string{v.Artifact.Digest}
	} else {
		all, err := registry.Versions(ctx, s, typ, d.Name)
		if err != nil {
			return d, "", nil, err
		}
		for _, v := range all {
			if !slices.Contains(digests, v.Artifact.Digest) {
				digests = append(digests, v.Artifact.Digest)
			}
		}
	}
	if typ == artifact.Model {
		if err := noneServed(ctx, s, digests); err != nil {
			return d, "", nil, err
		}
	}
	for _, digest := range digests {
		d.Versions = append(d.Versions, artifact.ShortVersion(digest))
	}
	d.Runs, err = referring(ctx, s, digests)
	return d, typ, digests, err
}

// noneServed refuses models that a target serves.
func noneServed(ctx context.Context, s *store.Store, digests []string) error {
	targets, err := routing.Targets(ctx, s)
	if err != nil {
		return err
	}
	for _, target := range targets {
		doc, err := routing.Current(ctx, s, target)
		if err != nil {
			return err
		}
		for _, r := range doc.Releases {
			if slices.Contains(digests, r.Model.Digest) {
				return kit.Invalidf("target %s serves version %s, as its release %s\nhelp: have a `rollout` step release another model there first", target,
					artifact.ShortVersion(r.Model.Digest), r.Version)
			}
		}
	}
	return nil
}

// referring lists the runs whose records name one of some digests.
func referring(ctx context.Context, s *store.Store, digests []string) ([]string, error) {
	runs := map[string]bool{}
	for _, prefix := range []string{store.RunsPrefix, store.InstancesPrefix} {
		keys, err := s.Naming(ctx, prefix, digests)
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			run, _, _ := strings.Cut(strings.TrimPrefix(key, prefix), "/")
			runs[run] = true
		}
	}
	names := slices.AppendSeq([]string{}, maps.Keys(runs))
	slices.Sort(names)
	return names, nil
}

func (d removedData) text(out io.Writer) error {
	verb, last := "would remove", "; `--yes` removes it"
	if d.Removed {
		verb, last = "removed", ""
	}
	_, err := fmt.Fprintf(out, "%s %s of %s: %s%s\n", verb, human.Plural(int64(len(d.Versions)), "version"), d.Name, strings.Join(d.Versions, ", "), last)
	if err != nil || len(d.Runs) == 0 {
		return err
	}
	_, err = fmt.Fprintf(out, "%s still %s to its files: %s\n", human.Plural(int64(len(d.Runs)), "run"),
		map[bool]string{true: "refers", false: "refer"}[len(d.Runs) == 1], strings.Join(d.Runs, ", "))
	return err
}
