// Package data is the commands for what runs keep: data, checkpoint and model.
package data

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/internal/suggest"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/store/registry"
)

// NewData makes `sluice data`.
func NewData() *cobra.Command {
	return kit.Group(&cobra.Command{
		Use:   "data",
		Short: "List, compare, restore and remove versions of datasets and models",
		Long: `A step with ` + "`publish: {dataset: NAME}`, or `{model: NAME}`," + ` creates a new
version of NAME when its gate has passed. A version is named by its content: its
name is the beginning of its digest. Where a command takes a DATASET, that is
one of

    NAME            the current version; write model:NAME or dataset:NAME if
                    both a model and a dataset have the name
    NAME@VERSION    a version, by its digest or a prefix of at least four digits
    NAME@TAG        the version with a tag
    RUN/STEP        the output of a step of a run, published or not;
                    RUN/STEP.OUTPUT if it has several, such as
                    RUN/pack.variants.int8.model, and RUN/STEP.INDEX.OUTPUT
                    for an instance of a matrix or a foreach`,
		Example: `  sluice data ls
  sluice data diff reviews@1f0a reviews --key id
  sluice data checkout reviews@golden data/
  sluice data checkout reviews-20260301-120000/clean data/
  sluice data rollback reviews 1f0a`,
	},
		newDataList(), newDataShow(), newDataDiff(), newDataCheckout(), newDataRollback(), newDataTag(), newDataRemove(), newDataGC(), newDataVerify())
}

// publishedTypes are the types of artifacts that are published.
var publishedTypes = []artifact.Type{artifact.Dataset, artifact.Model}

// findData makes out the version of a dataset or model that an argument means.
func findData(ctx context.Context, s *store.Store, text string) (registry.Published, error) {
	if run, step, ok := strings.Cut(text, "/"); ok {
		return outputOf(ctx, s, run, step)
	}
	if name, version, ok := strings.Cut(text, "@"); ok {
		return findVersion(ctx, s, name, version)
	}
	return currentOf(ctx, s, text)
}

// currentOf finds what a published name means now; "model:" or "dataset:" before it says of which type it is.
func currentOf(ctx context.Context, s *store.Store, text string) (registry.Published, error) {
	prefix, name, typed := strings.Cut(text, ":")
	if !typed {
		name = text
	}
	var found []registry.Published
	var known []string
	for _, typ := range publishedTypes {
		current, err := registry.Current(ctx, s, typ)
		if err != nil {
			return registry.Published{}, err
		}
		known = slices.AppendSeq(known, maps.Keys(current))
		if v, ok := current[name]; ok && (!typed || prefix == string(typ)) {
			v.Artifact.Type = typ
			found = append(found, v)
		}
	}
	switch len(found) {
	case 0:
		slices.Sort(known)
		return registry.Published{}, unpublished(text, slices.Compact(known))
	case 1:
		return found[0], nil
	}
	return registry.Published{}, kit.Invalidf("a dataset and a model are published as %q\nhelp: write dataset:%s or model:%s", name, name, name)
}

func unpublished(name string, known []string) error {
	help := "\nhelp: a step with `publish: {dataset: NAME}` publishes one; RUN/STEP means what a step handed on"
	if len(known) > 0 {
		help = suggest.Help(name, known)
	}
	return kit.Invalidf("nothing is published as %q%s", name, help)
}

// findVersion finds a version of a name by tag or by the beginning of its digest.
func findVersion(ctx context.Context, s *store.Store, text, version string) (found registry.Published, err error) {
	current, err := currentOf(ctx, s, text)
	if err != nil {
		return found, err
	}
	return versionOf(ctx, s, current, version, words{tag: "tag", list: "sluice data ls " + text})
}

// words are what an error calls a name that a person gave to a version, and the command that lists those.
type words struct{ tag, list string }

// versionOf finds a version of the name that current is the current version of.
func versionOf(ctx context.Context, s *store.Store, current registry.Published, version string, w words) (found registry.Published, err error) {
	typ, name := current.Artifact.Type, current.Name
	all, err := registry.Versions(ctx, s, typ, name)
	if err != nil {
		return found, err
	}
	tags, err := registry.Tags(ctx, s, typ, name)
	if err != nil {
		return found, err
	}
	prefix := strings.TrimPrefix(version, "sha256:")
	var known []string
	for _, t := range tags {
		known = append(known, t.Tag)
		if t.Tag == version {
			prefix = strings.TrimPrefix(t.Digest, "sha256:")
		}
	}
	for _, v := range all {
		if len(prefix) < artifact.LeastDigits || !strings.HasPrefix(v.Artifact.Digest, "sha256:"+prefix) {
			continue
		}
		if found.Artifact.Digest != "" && found.Artifact.Digest != v.Artifact.Digest {
			return found, kit.Invalidf("%s has several versions that begin with %s: use more digits", name, prefix)
		}
		if found.Artifact.Digest == "" {
			found = v
		}
	}
	if found.Artifact.IsZero() {
		help := cmp.Or(suggest.HelpNear(version, known), "\nhelp: `"+w.list+"` lists them")
		return found, kit.Invalidf("%s has no version and no %s %q%s", name, w.tag, version, help)
	}
	return found, nil
}

// outputOf is an artifact among the outputs of a step of a run, or of one of its instances: STEP, STEP.OUTPUT, STEP.INDEX.OUTPUT.
func outputOf(ctx context.Context, s *store.Store, name, text string) (v registry.Published, err error) {
	run, err := control.FindRun(ctx, s, name)
	if err != nil {
		return v, err
	}
	step, output := text, ""
	if end := strings.IndexAny(text, ".["); end >= 0 {
		step, output = text[:end], strings.TrimPrefix(text[end:], ".")
	}
	var steps []string
	at := slices.IndexFunc(run.Steps, func(r record.StepRecord) bool {
		steps = append(steps, r.Step)
		return r.Step == step
	})
	if at < 0 {
		return v, kit.Invalidf("run %s has no step `%s`%s", run.Run, step, suggest.Help(step, steps))
	}
	made := run.Steps[at]
	if number, rest := instanceIn(output); made.Of > 0 && number < 0 {
		return v, kit.Invalidf("step %s of %s has %s with their own outputs: use one of %s/%s.0 to %s/%s.%d",
			step, run.Run, human.Plural(int64(made.Of), "instance"), run.Run, step, run.Run, step, made.Of-1)
	} else if made.Of > 0 {
		if made, err = record.LoadInstance(ctx, s, run.Run, step, number); errors.Is(err, store.ErrNotFound) {
			return v, kit.Invalidf("step %s of %s has no instance %d", step, run.Run, number)
		} else if err != nil {
			return v, err
		}
		step, output = step+"."+strconv.Itoa(number), rest
	}
	refs := artifact.In(made.Outputs)
	if output == "" {
		output = onlyOutput(refs)
	}
	ref, ok := refs[output]
	switch known := slices.Sorted(maps.Keys(refs)); {
	case ok:
	case len(refs) == 0:
		return v, kit.Invalidf("step %s of %s has no dataset and no model among its outputs", step, run.Run)
	case output == deadLetterOutput && isClean(made.Kind):
		return v, kit.Invalidf("no rows were rejected in %s/%s, so there is no dead letter", run.Run, step)
	case output == "":
		return v, kit.Invalidf("%s/%s has several outputs: use one of %s", run.Run, step, strings.Join(known, ", "))
	default:
		return v, kit.Invalidf("%s/%s has no dataset and no model `%s`\nhelp: use one of %s", run.Run, step, output, strings.Join(known, ", "))
	}
	v = registry.Published{Name: run.Run + "/" + step, Artifact: ref, Run: run.Run, Step: step, At: made.EndedAt}
	var statistics struct {
		Statistics string `json:"statistics"`
	}
	if output == mainOutput && json.Unmarshal(made.Outputs, &statistics) == nil {
		v.Statistics = statistics.Statistics
	}
	return v, nil
}

// instanceIn cuts the index of an instance, 2 or [2], from the beginning of the name of an output; -1 where there is none.
func instanceIn(output string) (number int, rest string) {
	head, rest, _ := strings.Cut(output, ".")
	n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(head, "["), "]"))
	if err != nil || n < 0 {
		return -1, output
	}
	return n, rest
}

// What a clean step hands on: its dataset, and its dead letter where rows were rejected.
const (
	mainOutput       = "dataset"
	deadLetterOutput = "dead_letter"
)

// isClean reports whether steps of a kind hand these on.
func isClean(kind spec.Kind) bool { return kind == spec.KindClean }

// isTraining and isCompilation report whether the outputs of steps of a kind are a spec.TrainOutput, or a spec.CompileOutput.
func isTraining(kind spec.Kind) bool    { return kind == spec.KindTrain }
func isCompilation(kind spec.Kind) bool { return kind == spec.KindCompile }

func onlyOutput(sets map[string]artifact.Ref) string {
	if _, ok := sets[mainOutput]; ok {
		return mainOutput
	}
	for name := range sets {
		if len(sets) == 1 {
			return name
		}
	}
	return ""
}

// eachVersion calls each with the versions of a published name, or of all names of a type: newest first, each content once, with the current
// version of its name.
func eachVersion(ctx context.Context, s *store.Store, typ artifact.Type, name string, each func(v, current registry.Published) error) error {
	all, err := registry.Current(ctx, s, typ)
	if err != nil {
		return err
	}
	for _, n := range slices.Sorted(maps.Keys(all)) {
		if name != "" && n != name {
			continue
		}
		versions, err := registry.Versions(ctx, s, typ, n)
		if err != nil {
			return err
		}
		seen := map[string]bool{}
		for _, v := range versions {
			if seen[v.Artifact.Digest] { // published again, with the same content
				continue
			}
			seen[v.Artifact.Digest] = true
			if err := each(v, all[n]); err != nil {
				return err
			}
		}
	}
	return nil
}

// tagsOf are the tags that a version has.
func tagsOf(ctx context.Context, s *store.Store, v registry.Published) ([]registry.Tag, error) {
	tags, err := registry.Tags(ctx, s, v.Artifact.Type, v.Name)
	return slices.DeleteFunc(tags, func(t registry.Tag) bool { return t.Digest != v.Artifact.Digest }), err
}

// completeData offers published names, versions and tags for the first arguments.
func completeData(limit int) cobra.CompletionFunc { return completeVersions(limit, publishedTypes...) }

// completeVersions offers the names, versions and tags of some types for the first arguments.
func completeVersions(limit int, types ...artifact.Type) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= limit {
			return nil, cobra.ShellCompDirectiveDefault
		}
		ctx := cmd.Context()
		s, err := kit.OpenStore(cmd)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var names []string
		for _, typ := range types {
			err := eachVersion(ctx, s, typ, "", func(v, current registry.Published) error {
				if v.Artifact.Digest == current.Artifact.Digest {
					names = append(names, v.Name)
				}
				if !strings.Contains(prefix, "@") {
					return nil
				}
				names = append(names, v.Name+"@"+artifact.ShortVersion(v.Artifact.Digest))
				tags, err := tagsOf(ctx, s, v)
				for _, t := range tags {
					names = append(names, v.Name+"@"+t.Tag)
				}
				return err
			})
			if err != nil {
				return nil, cobra.ShellCompDirectiveError
			}
		}
		names = slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, prefix) })
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// dataStore opens the store for a command on datasets and models.
func dataStore(cmd *cobra.Command) (*store.Store, error) {
	return kit.OpenStoreOf(cmd, "datasets and models")
}
