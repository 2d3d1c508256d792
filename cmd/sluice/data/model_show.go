package data

import (
	"cmp"
	"context"
	"encoding/json"
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
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/registry"
)

// shownModel is a version as `model show` shows it.
type shownModel struct {
	listedModel
	Files   []artifact.File         `json:"files"`
	Parents map[string]artifact.Ref `json:"parents"`
	// Spec is the resolved spec of the step that published it.
	Spec json.RawMessage `json:"spec,omitempty"`
	// Origin is nil when the records of the run have been removed.
	Origin   *modelOrigin   `json:"origin,omitempty"`
	Releases []modelRelease `json:"releases"`
	// History is what the name has meant, the newest first.
	History []registry.Move `json:"history"`
}

func newModelShow() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show MODEL",
		Short: "Show a version of a model: origin, metrics, releases and history",
		Long: `Show a version of a model: the run and the step that made it, the data, the
checkpoint and the metrics of that run, where it was released, its aliases, and
which versions the name has referred to, since when, and who set it.
--format json prints everything.

--card prints a model card in Markdown instead: the same, with the parameters of
the run, its gates with the values they saw, the parity of compiled variants and
the results of rollouts.`,
		Example: `  sluice model show spam
  sluice model show spam@champion --card > MODEL_CARD.md
  sluice model show spam --format json | jq .origin.metrics`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeModels(1),
	}
	format := kit.AddFormat(cmd)
	card := cmd.Flags().Bool("card", false, "print a model card in Markdown")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := modelStore(cmd)
		if err != nil {
			return err
		}
		v, err := findModel(cmd.Context(), s, args[0])
		if err != nil {
			return err
		}
		shown, err := showModel(cmd.Context(), s, v)
		if err != nil {
			return err
		}
		if *card {
			if *format != "text" {
				return kit.UsageError(cmd, "--card is Markdown: remove --format")
			}
			return shown.card(cmd.OutOrStdout())
		}
		return kit.Print(cmd, *format, shown, shown.text)
	}
	return cmd
}

func showModel(ctx context.Context, s *store.Store, v registry.Published) (m shownModel, err error) {
	current, err := registry.Current(ctx, s, artifact.Model)
	if err != nil {
		return m, err
	}
	served, err := servedModels(ctx, s)
	if err != nil {
		return m, err
	}
	if m.listedModel, err = describeModel(ctx, s, v, current[v.Name], served); err != nil {
		return m, err
	}
	manifest, err := s.Manifest(ctx, v.Artifact)
	if err != nil {
		return m, err
	}
	m.Files, m.Parents = manifest.Files, v.Parents
	if v.Spec != "" {
		if m.Spec, err = s.ReadBlob(ctx, v.Spec); err != nil && !errors.Is(err, store.ErrNotFound) {
			return m, err
		}
	}
	if m.Origin, err = loadOrigin(ctx, s, v); err != nil {
		return m, err
	}
	if m.Releases, err = modelReleases(ctx, s, v.Artifact.Digest); err != nil {
		return m, err
	}
	m.History, err = registry.History(ctx, s, artifact.Model, v.Name)
	return m, err
}

func (m shownModel) text(out io.Writer) error {
	err := kit.Table(out, m.Name+"@"+m.Version, func(w io.Writer) {
		kit.Row(w, "digest", m.Artifact.Digest)
		kit.Row(w, "size", human.Bytes(m.Artifact.Bytes)+" in "+human.Plural(int64(len(m.Files)), "file"))
		kit.Row(w, "created by", m.Run+"/"+m.Step)
		kit.Row(w, "published on", kit.Time(m.At))
		if m.By != "" {
			kit.Row(w, "published by", m.By+", which reused it")
		}
		kit.Row(w, "current", map[bool]string{true: "yes", false: "no"}[m.Current])
		for _, a := range m.Aliases {
			kit.Row(w, "alias", a.Tag+", "+givenText(a))
		}
		for _, name := range slices.Sorted(maps.Keys(m.Parents)) {
			kit.Row(w, "from", name+" "+artifact.ShortVersion(m.Parents[name].Digest))
		}
		m.originRows(w)
		for _, r := range m.Releases {
			kit.Row(w, "release", r.String())
		}
	})
	if err != nil || len(m.History) == 0 {
		return err
	}
	fmt.Fprintln(out) //nolint:errcheck // the table has the error
	return historyText(out, m.History, rollbackText)
}

// givenText says who gave an alias, and when.
func givenText(a registry.Tag) string {
	if a.By == "" {
		return kit.Time(a.At)
	}
	return a.By + " on " + kit.Time(a.At)
}

func (m shownModel) originRows(w io.Writer) {
	if m.Origin == nil {
		kit.Row(w, "origin", "the records of the run have been removed")
		return
	}
	for _, d := range m.Origin.Data {
		kit.Row(w, "data", d.String())
	}
	for _, t := range m.Origin.Trainings {
		kit.Row(w, "training", t.String())
		if t.Checkpoint != "" {
			kit.Row(w, "checkpoint", t.Checkpoint)
		}
	}
	for _, metrics := range m.Origin.Metrics {
		kit.Row(w, "metrics", metrics.Step+": "+metricsText(metrics.Values))
	}
	for _, g := range m.Origin.Gates {
		kit.Row(w, "gate", g.Step+": "+string(g.Verdict))
	}
	for _, v := range m.Origin.Variants {
		kit.Row(w, "variant", v.String())
	}
}

func (d originData) String() string {
	text := d.Step + "." + d.Output + " " + artifact.ShortVersion(d.Artifact.Digest)
	if d.Rows >= 0 {
		text += ", " + human.Plural(d.Rows, "row")
	}
	if d.Published != "" {
		text += ", published as " + d.Published
	}
	return text
}

func (t originTraining) String() string {
	text := fmt.Sprintf("%s: %s in %s", t.Step, human.Plural(t.Steps, "step"), human.Plural(int64(t.Generations), "generation"))
	if t.CostUSD > 0 && !t.CostUnknown {
		text += fmt.Sprintf(", %.2f USD", t.CostUSD)
	}
	return text
}

// batchedText is the share of answers that are the same alone and among other rows, where that was measured.
func batchedText(v originVariant) string {
	if v.Parity.Batched == nil {
		return "-"
	}
	return human.Percent(*v.Parity.Batched)
}

func (v originVariant) String() string {
	text := v.Name + ": not measured"
	if v.IsMeasured() {
		text = fmt.Sprintf("%s: top-1 %s, batched %s, largest difference %s, p50 %s ms",
			v.Name, human.Percent(v.Parity.Top1), batchedText(v), human.Number(v.Parity.MaxAbs), human.Number(v.Latency.P50MS))
	}
	if v.Selected {
		text += ", selected"
	}
	return text
}

func (r modelRelease) String() string {
	text := r.Target + " " + r.name() + ": "
	if r.Decision == "" {
		return text + "its rollout has not ended"
	}
	text += strings.ReplaceAll(r.Decision, "_", " ") + " on " + kit.Time(r.At)
	if r.Weight > 0 {
		text += ", serving " + human.Percent(r.Weight)
	}
	return text
}

func metricsText(values map[string]float64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		parts = append(parts, name+" "+human.Precise(values[name]))
	}
	return strings.Join(parts, ", ")
}

// rollbackText says that a rollback set what a name means, and why.
func rollbackText(m registry.Move) string {
	if m.Reason != "" {
		return " (rollback: " + m.Reason + ")"
	}
	return " (rollback)"
}

// modelDiff is what differs between two versions of models.
type modelDiff struct {
	Older string `json:"older"`
	Newer string `json:"newer"`
	Equal bool   `json:"equal"`
	// Changes are what differs: what only one of them has is empty for the other.
	Changes []modelChange `json:"changes"`
}

type modelChange struct {
	// What is data, metric, param, parent, size or created by.
	What  string `json:"what"`
	Name  string `json:"name,omitempty"`
	Older string `json:"older"`
	Newer string `json:"newer"`
}

func newModelDiff() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff OLDER NEWER",
		Short: "Compare two versions of models: data, parameters and metrics",
		Long: `Compare two versions of models by what their runs recorded: the parameters, the
inputs and datasets, and the metrics. Only what differs is shown. To compare the
rows of their datasets, use ` + "`sluice data diff`" + `.`,
		Example: `  sluice model diff spam@champion spam
  sluice model diff spam@1f0a spam@77c2 --format json`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeModels(2),
	}
	format := kit.AddFormat(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := modelStore(cmd)
		if err != nil {
			return err
		}
		var sides [2]shownModel
		for i, arg := range args {
			v, err := findModel(cmd.Context(), s, arg)
			if err != nil {
				return err
			}
			if sides[i], err = showModel(cmd.Context(), s, v); err != nil {
				return err
			}
		}
		diff := diffModels(sides[0], sides[1])
		return kit.Print(cmd, *format, diff, diff.text)
	}
	return cmd
}

func diffModels(older, newer shownModel) modelDiff {
	d := modelDiff{
		Older: older.Name + "@" + older.Version, Newer: newer.Name + "@" + newer.Version,
		Equal: older.Artifact.Digest == newer.Artifact.Digest, Changes: []modelChange{},
	}
	if d.Equal {
		return d
	}
	compare := func(what string, was, is map[string]string) {
		all := maps.Clone(was)
		maps.Copy(all, is)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if was[name] != is[name] {
				d.Changes = append(d.Changes, modelChange{What: what, Name: name, Older: was[name], Newer: is[name]})
			}
		}
	}
	was, is := cmp.Or(older.Origin, &modelOrigin{}), cmp.Or(newer.Origin, &modelOrigin{})
	compare("metric", was.metricValues(), is.metricValues())
	compare("param", was.paramValues(), is.paramValues())
	compare("data", was.dataVersions(), is.dataVersions())
	compare("input", older.parentVersions(), newer.parentVersions())
	compare("size", map[string]string{"": human.Bytes(older.Artifact.Bytes)}, map[string]string{"": human.Bytes(newer.Artifact.Bytes)})
	compare("made by", map[string]string{"": older.Run + "/" + older.Step}, map[string]string{"": newer.Run + "/" + newer.Step})
	return d
}

func (o *modelOrigin) metricValues() map[string]string {
	values := map[string]string{}
	for _, of := range o.Metrics {
		for name, v := range of.Values {
			values[of.Step+"."+name] = human.Precise(v)
		}
	}
	return values
}

func (o *modelOrigin) paramValues() map[string]string {
	values := map[string]string{}
	for name, v := range o.Params {
		values[name] = human.Value(v)
	}
	return values
}

func (o *modelOrigin) dataVersions() map[string]string {
	values := map[string]string{}
	for _, d := range o.Data {
		text := artifact.ShortVersion(d.Artifact.Digest)
		if d.Rows >= 0 {
			text += " (" + human.Plural(d.Rows, "row") + ")"
		}
		values[d.Step+"."+d.Output] = text
	}
	return values
}

func (m shownModel) parentVersions() map[string]string {
	values := map[string]string{}
	for name, ref := range m.Parents {
		values[name] = artifact.ShortVersion(ref.Digest)
	}
	return values
}

func (d modelDiff) text(out io.Writer) error {
	if d.Equal {
		_, err := fmt.Fprintln(out, "equal: both are", d.Newer)
		return err
	}
	return kit.Table(out, "\t"+d.Older+"\t"+d.Newer, func(w io.Writer) {
		for _, c := range d.Changes {
			kit.Row(w, strings.TrimSpace(c.What+" "+c.Name), orDash(c.Older), orDash(c.Newer))
		}
	})
}
