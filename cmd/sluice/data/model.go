package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/internal/suggest"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/registry"
)

// NewModel makes `sluice model`.
func NewModel() *cobra.Command {
	return kit.Group(&cobra.Command{
		Use:   "model",
		Short: "List, compare, export and restore models, with their origin",
		Long: `A step with ` + "`publish: {model: NAME}`" + ` creates a new version of the model NAME
when its gate has passed. Where a command takes a MODEL, that is one of

    NAME            the current version
    NAME@VERSION    a version, by its digest or a prefix of at least four digits
    NAME@ALIAS      the version with an alias

An alias, such as champion, is a name that you give to a version and may move to
another one. What serves at a target is decided by rollouts, not by aliases: see
` + "`sluice release ls`" + `. ` + "`sluice data rm`" + ` and ` + "`sluice data gc`" + ` remove models, too.`,
		Example: `  sluice model ls
  sluice model show spam --card > MODEL_CARD.md
  sluice model alias spam@1f0a champion
  sluice model diff spam@champion spam
  sluice model rollback spam champion --reason "newer ones confuse invoices"
  sluice model export spam@champion ./spam`,
	}, newModelList(), newModelShow(), newModelDiff(), newModelAlias(), newModelRollback(), newModelExport())
}

// modelStore opens the store for a command on models.
func modelStore(cmd *cobra.Command) (*store.Store, error) { return kit.OpenStoreOf(cmd, "models") }

// findModel makes out the version of a model that an argument means.
func findModel(ctx context.Context, s *store.Store, text string) (registry.Published, error) {
	name, version, versioned := strings.Cut(text, "@")
	models, err := registry.Current(ctx, s, artifact.Model)
	if err != nil {
		return registry.Published{}, err
	}
	current, ok := models[name]
	switch {
	case !ok:
		help := "\nhelp: a step with `publish: {model: NAME}` publishes one"
		if len(models) > 0 {
			help = suggest.Help(name, slices.Sorted(maps.Keys(models)))
		}
		return current, kit.Invalidf("no model is published as %q%s", name, help)
	case !versioned:
		return current, nil
	}
	return versionOf(ctx, s, current, version, words{tag: "alias", list: "sluice model ls " + name})
}

// listedModel is a version as `model ls` shows it.
type listedModel struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Current is what the name means now.
	Current bool           `json:"current"`
	Aliases []registry.Tag `json:"aliases"`
	// Serves are the releases of targets that hold it now.
	Serves   []servedAt   `json:"serves"`
	Artifact artifact.Ref `json:"artifact"`
	At       time.Time    `json:"at"`
	// Run and Step made it; By is the run that published it, where that took it over.
	Run  string `json:"run"`
	Step string `json:"step"`
	By   string `json:"by,omitempty"`
}

// servedAt is a release that holds a model, or a variant that was compiled of it.
type servedAt struct {
	Target  string  `json:"target"`
	Release string  `json:"release"`
	Variant string  `json:"variant,omitempty"`
	Weight  float64 `json:"weight"`
}

func (s servedAt) String() string {
	share := human.Percent(s.Weight)
	if s.Weight == 0 {
		share = "(loaded)"
	}
	return strings.TrimSuffix(s.Target+" "+share+" as "+s.Variant, " as ")
}

// sourceOf returns the digest of the model that a model was compiled of, and the name of the variant; empty if it was not compiled, or its
// files have been removed or are damaged.
func sourceOf(ctx context.Context, s *store.Store, model artifact.Ref) (digest, variant string, err error) {
	manifest, err := s.Manifest(ctx, model)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) {
		return "", "", nil
	}
	return manifest.Meta[spec.MetaSource], manifest.Meta[spec.MetaVariant], err
}

// servedModels are the releases that targets have now, by the digest of their model, and of its source.
func servedModels(ctx context.Context, s *store.Store) (map[string][]servedAt, error) {
	targets, err := routing.Targets(ctx, s)
	if err != nil {
		return nil, err
	}
	served := map[string][]servedAt{}
	for _, target := range targets {
		doc, err := routing.Current(ctx, s, target)
		if err != nil {
			return nil, err
		}
		for _, r := range doc.Releases {
			at := servedAt{Target: target, Release: r.Version, Weight: r.Weight}
			served[r.Model.Digest] = append(served[r.Model.Digest], at)
			source, variant, err := sourceOf(ctx, s, r.Model)
			if err != nil {
				return nil, err
			}
			if at.Variant = variant; source != "" {
				served[source] = append(served[source], at)
			}
		}
	}
	return served, nil
}

// describeModel is a version as the commands show it, given what its name means now and what targets have.
func describeModel(ctx context.Context, s *store.Store, v, current registry.Published, served map[string][]servedAt) (listedModel, error) {
	l := listedModel{
		Name: v.Name, Version: artifact.ShortVersion(v.Artifact.Digest), Current: v.Artifact.Digest == current.Artifact.Digest,
		Aliases: []registry.Tag{}, Serves: append([]servedAt{}, served[v.Artifact.Digest]...),
		Artifact: v.Artifact, At: v.At, Run: v.Run, Step: v.Step, By: v.By,
	}
	aliases, err := tagsOf(ctx, s, v)
	l.Aliases = append(l.Aliases, aliases...)
	return l, err
}

// listModels lists the versions of a model, or those of all, newest first.
func listModels(ctx context.Context, s *store.Store, name string) ([]listedModel, error) {
	served, err := servedModels(ctx, s)
	if err != nil {
		return nil, err
	}
	listed := []listedModel{}
	err = eachVersion(ctx, s, artifact.Model, name, func(v, current registry.Published) error {
		l, err := describeModel(ctx, s, v, current, served)
		listed = append(listed, l)
		return err
	})
	return listed, err
}

func newModelList() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls [NAME]",
		Aliases: []string{"list"},
		Short:   "List the published models and their versions, newest first",
		Long: `List the published models and their versions, newest first. A star marks the
current version, which a run that starts now gets from ` + "`${models[\"NAME\"]}`" + `. The
column "serves" names the targets that have the version as a release, with its
share of the traffic.`,
		Example: `  sluice model ls
  sluice model ls spam --format json`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeModels(1),
	}
	format := kit.AddFormat(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := modelStore(cmd)
		if err != nil {
			return err
		}
		name := kit.Arg(args, 0)
		if name != "" {
			v, err := findModel(cmd.Context(), s, name)
			if err != nil {
				return err
			}
			name = v.Name
		}
		listed, err := listModels(cmd.Context(), s, name)
		if err != nil {
			return err
		}
		return kit.Print(cmd, *format, listed, func(out io.Writer) error { return modelsText(out, listed) })
	}
	return cmd
}

func modelsText(out io.Writer, listed []listedModel) error {
	if len(listed) == 0 {
		_, err := fmt.Fprintln(out, "no model is published; a step with `publish: {model: NAME}` publishes one")
		return err
	}
	return kit.Table(out, "name\tversion\t\tsize\tpublished\taliases\tserves", func(w io.Writer) {
		for _, l := range listed {
			star := ""
			if l.Current {
				star = "*"
			}
			kit.Row(w, l.Name, l.Version, star, human.Bytes(l.Artifact.Bytes), kit.Time(l.At), orDash(aliasNames(l.Aliases)), orDash(servedText(l.Serves)))
		}
	})
}

func aliasNames(aliases []registry.Tag) string {
	names := make([]string, len(aliases))
	for i, a := range aliases {
		names[i] = a.Tag
	}
	return strings.Join(names, ", ")
}

func servedText(served []servedAt) string {
	texts := make([]string, len(served))
	for i, s := range served {
		texts[i] = s.String()
	}
	return strings.Join(texts, ", ")
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// completeModels offers the names, versions and aliases of models for the first arguments.
func completeModels(limit int) cobra.CompletionFunc { return completeVersions(limit, artifact.Model) }
