package data

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/human"
)

// card writes a model card in Markdown.
func (m shownModel) card(out io.Writer) error {
	c := &card{}
	c.line("# %s, version %s", m.Name, m.Version)
	c.table([][]string{
		{"digest", "`" + m.Artifact.Digest + "`"},
		{"size", human.Bytes(m.Artifact.Bytes) + " in " + human.Plural(int64(len(m.Files)), "file")},
		{"made by", m.Run + "/" + m.Step},
		{"published on", kit.Time(m.At)},
		{"aliases", orDash(aliasNames(m.Aliases))},
		{"serves", orDash(servedText(m.Serves))},
	}, "", "")
	if m.Origin == nil {
		c.line("")
		c.line("The records of the run that made this model have been removed.")
	} else {
		c.origin(m)
	}
	c.releases(m.Releases)
	_, err := out.Write(c.Bytes())
	return err
}

// card is a text in Markdown while it is written.
type card struct{ bytes.Buffer }

func (c *card) line(format string, args ...any) { c.WriteString(fmt.Sprintf(format, args...) + "\n") }

func (c *card) section(title string) { c.line("\n## %s", title) }

// table writes a table with heads; rows are made safe for it.
func (c *card) table(rows [][]string, heads ...string) {
	c.line("\n| %s |", strings.Join(heads, " | "))
	c.line("|%s", strings.Repeat("---|", len(heads)))
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = strings.ReplaceAll(human.Line(cell), "|", `\|`)
		}
		c.line("| %s |", strings.Join(cells, " | "))
	}
}

// origin writes what the run's records say.
func (c *card) origin(m shownModel) {
	o := m.Origin
	c.section("Data")
	var rows [][]string
	for _, d := range o.Data {
		count := "unknown"
		if d.Rows >= 0 {
			count = human.Count(d.Rows)
		}
		rows = append(rows, []string{d.Step + "." + d.Output, orDash(d.Published), artifact.ShortVersion(d.Artifact.Digest), count})
	}
	for _, name := range slices.Sorted(maps.Keys(m.Parents)) {
		rows = append(rows, []string{"input " + name, "-", artifact.ShortVersion(m.Parents[name].Digest), "-"})
	}
	c.some(rows, "The run's records name no dataset.", "dataset", "published as", "version", "rows")
	c.section("Parameters")
	rows = nil
	for _, name := range slices.Sorted(maps.Keys(o.Params)) {
		rows = append(rows, []string{name, human.Value(o.Params[name])})
	}
	c.some(rows, "The pipeline has no parameters.", "parameter", "value")
	c.section("Training")
	rows = nil
	for _, t := range o.Trainings {
		rows = append(rows, []string{t.String(), orDash(t.Checkpoint)})
	}
	c.some(rows, "The run has no train step.", "step", "newest checkpoint")
	c.section("Metrics")
	rows = nil
	for _, of := range o.Metrics {
		for _, name := range slices.Sorted(maps.Keys(of.Values)) {
			rows = append(rows, []string{of.Step, name, human.Precise(of.Values[name])})
		}
	}
	c.some(rows, "No step reported metrics.", "step", "metric", "value")
	c.section("Gates")
	rows = nil
	for _, g := range o.Gates {
		for _, check := range g.Checks {
			rows = append(rows, []string{g.Step, "`" + check.Expression + "`", sawText(check), string(check.Verdict)})
		}
	}
	c.some(rows, "No step has a gate.", "step", "condition", "saw", "verdict")
	c.variants(o.Variants)
}

// some writes a table, or a sentence where there are no rows.
func (c *card) some(rows [][]string, none string, heads ...string) {
	if len(rows) == 0 {
		c.line("\n%s", none)
		return
	}
	c.table(rows, heads...)
}

func sawText(check spec.Check) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(check.Values)) {
		parts = append(parts, name+" = "+human.Precise(check.Values[name]))
	}
	if check.Error != "" {
		parts = append(parts, check.Error)
	}
	return orDash(strings.Join(parts, ", "))
}

// variants writes how compiled variants compare with their source.
func (c *card) variants(all []originVariant) {
	if len(all) == 0 {
		return
	}
	c.section("Compiled variants, compared with the source model")
	var rows [][]string
	for _, v := range all {
		name := v.Name
		if v.Selected {
			name += " (selected)"
		}
		row := []string{name, "-", "-", "-", "-", "-", human.Bytes(v.Bytes)}
		if v.IsMeasured() {
			row = []string{
				name, human.Number(v.Parity.MaxAbs), human.Number(v.Parity.Cosine), human.Percent(v.Parity.Top1), batchedText(v), human.Number(v.Latency.P50MS), human.Bytes(v.Bytes),
			}
		}
		rows = append(rows, row)
	}
	c.table(rows, "variant", "largest difference", "cosine", "top-1", "batched", "p50 ms", "size")
}

// releases writes where the model was released, and how that went.
func (c *card) releases(all []modelRelease) {
	c.section("Rollouts")
	var rows [][]string
	for _, r := range all {
		decision, when := "has not ended", "-"
		if r.Decision != "" {
			decision, when = strings.ReplaceAll(r.Decision, "_", " "), kit.Time(r.At)
		}
		requests := "users'"
		if r.Synthetic {
			requests = "synthetic: replayed rows"
		}
		rows = append(rows, []string{r.Target, r.name(), decision, when, orDash(r.Reason), requests, human.Percent(r.Weight)})
	}
	c.some(rows, "It was never released to a target.", "target", "release", "rollout", "ended", "reason", "requests", "traffic now")
}
