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
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/activities/engine"
	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/pipelines/account"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/registry"
)

// listedData is a version as `data ls` shows it.
type listedData struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Current is what the name means now.
	Current bool     `json:"current"`
	Tags    []string `json:"tags"`
	// Rows is negative when it is not known: another program made the dataset.
	Rows     int64        `json:"rows"`
	Artifact artifact.Ref `json:"artifact"`
	At       time.Time    `json:"at"`
	// Run and Step made it; By is the run that published it, where that took it over.
	Run  string `json:"run"`
	Step string `json:"step"`
	By   string `json:"by,omitempty"`
}

// listData lists the versions of a name, or those of all names.
func listData(ctx context.Context, s *store.Store, name string) ([]listedData, error) {
	types := publishedTypes
	if name != "" {
		v, err := currentOf(ctx, s, name)
		if err != nil {
			return nil, err
		}
		types, name = []artifact.Type{v.Artifact.Type}, v.Name
	}
	listed := []listedData{}
	for _, typ := range types {
		err := eachVersion(ctx, s, typ, name, func(v, current registry.Published) error {
			l, err := describeData(ctx, s, v)
			l.Current = current.Artifact.Digest == v.Artifact.Digest
			listed = append(listed, l)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return listed, nil
}

func describeData(ctx context.Context, s *store.Store, v registry.Published) (listedData, error) {
	l := listedData{
		Name: v.Name, Version: artifact.ShortVersion(v.Artifact.Digest), Tags: []string{}, Rows: -1, Artifact: v.Artifact, At: v.At, Run: v.Run, Step: v.Step, By: v.By,
	}
	tags, err := tagsOf(ctx, s, v)
	if err != nil {
		return l, err
	}
	for _, t := range tags {
		l.Tags = append(l.Tags, t.Tag)
	}
	manifest, err := s.Manifest(ctx, v.Artifact)
	if err != nil {
		return l, err
	}
	if n, err := strconv.ParseInt(manifest.Meta["rows"], 10, 64); err == nil {
		l.Rows = n
	}
	return l, nil
}

func newDataList() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "ls [NAME]",
		Aliases: []string{"list"},
		Short:   "List the published datasets and models, newest versions first",
		Long: `List the published datasets and models and their versions, newest first. A star
marks the current version, which a run that starts now gets from
` + "`${datasets[\"NAME\"]}` or `${models[\"NAME\"]}`" + `.

--disk shows disk use by kind instead, for the store and the state folder, and
how much of it ` + "`sluice data gc`" + ` would remove. Like gc, it reads all records.`,
		Example: `  sluice data ls
  sluice data ls --disk
  sluice data ls reviews --format json`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeData(1),
	}
	format := kit.AddFormat(cmd)
	disk := cmd.Flags().Bool("disk", false, "show disk use by kind instead")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := dataStore(cmd)
		if err != nil {
			return err
		}
		if *disk {
			if len(args) > 0 {
				return kit.UsageError(cmd, "--disk applies to the whole store, not to one name")
			}
			return printDisk(cmd, s, *format)
		}
		listed, err := listData(cmd.Context(), s, kit.Arg(args, 0))
		if err != nil {
			return err
		}
		return kit.Print(cmd, *format, listed, func(out io.Writer) error { return listedText(out, listed) })
	}
	return cmd
}

func listedText(out io.Writer, listed []listedData) error {
	if len(listed) == 0 {
		_, err := fmt.Fprintln(out, "nothing is published; a step with `publish: {dataset: NAME}` publishes one")
		return err
	}
	return kit.Table(out, "name\ttype\tversion\t\trows\tsize\tpublished\trun\ttags", func(w io.Writer) {
		for _, l := range listed {
			star := ""
			if l.Current {
				star = "*"
			}
			kit.Row(w, l.Name, string(l.Artifact.Type), l.Version, star, rowsText(l.Rows), human.Bytes(l.Artifact.Bytes), kit.Time(l.At), l.Run+"/"+l.Step,
				strings.Join(l.Tags, ", "))
		}
	})
}

func rowsText(n int64) string {
	if n < 0 {
		return "-"
	}
	return human.Count(n)
}

// shownData is a version as `data show` shows it.
type shownData struct {
	listedData
	// RolledBack is when a person made the name mean this version; zero when nobody did.
	RolledBack time.Time               `json:"rolled_back,omitzero"`
	Splits     map[string]int64        `json:"splits"`
	Shards     []artifact.File         `json:"shards"`
	Schema     json.RawMessage         `json:"schema,omitempty"`
	Profile    *spec.Profile           `json:"profile,omitempty"`
	Parents    map[string]artifact.Ref `json:"parents"`
	Spec       json.RawMessage         `json:"spec,omitempty"`
	// History is what the name has meant, the newest first; nothing of what a step handed on.
	History []registry.Move `json:"history,omitempty"`
	// Worst are the source files that lost the largest shares of their rows.
	Worst []account.FileAccount `json:"worst_files,omitempty"`
}

func newDataShow() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show DATASET",
		Short: "Show a version: its schema, profile, splits and origin",
		Long: `Show a version: its columns with their profile, its splits and shards; the run
and step that created it, the step's inputs and its spec; and which versions
the name has referred to, since when, and who set it. --format json prints
everything.`,
		Example: `  sluice data show reviews
  sluice data show reviews@golden --format json | jq .spec`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeData(1),
	}
	format := kit.AddFormat(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := dataStore(cmd)
		if err != nil {
			return err
		}
		v, err := findData(cmd.Context(), s, args[0])
		if err != nil {
			return err
		}
		shown, err := showData(cmd.Context(), s, v)
		if err != nil {
			return err
		}
		if shown.Worst, err = worstFiles(cmd.Context(), s, v); err != nil && !errors.Is(err, store.ErrNotFound) { // runs may be removed
			return err
		}
		return kit.Print(cmd, *format, shown, func(out io.Writer) error { return errors.Join(shown.text(out), worstText(out, shown.Worst)) })
	}
	return cmd
}

func showData(ctx context.Context, s *store.Store, v registry.Published) (shownData, error) {
	listed, err := describeData(ctx, s, v)
	if err != nil {
		return shownData{}, err
	}
	current, err := registry.Current(ctx, s, v.Artifact.Type)
	if err != nil {
		return shownData{}, err
	}
	listed.Current = current[v.Name].Artifact.Digest == v.Artifact.Digest
	var rolledBack time.Time
	if listed.Current {
		rolledBack = current[v.Name].Pointed
	}
	history, err := registry.History(ctx, s, v.Artifact.Type, v.Name)
	if err != nil {
		return shownData{}, err
	}
	shown := shownData{History: history, RolledBack: rolledBack, listedData: listed, Splits: map[string]int64{}, Shards: []artifact.File{}, Parents: v.Parents}
	manifest, err := s.Manifest(ctx, v.Artifact)
	if err != nil {
		return shown, err
	}
	for key, text := range manifest.Meta {
		if part, ok := strings.CutPrefix(key, "split."); ok {
			shown.Splits[part], _ = strconv.ParseInt(text, 10, 64)
		}
	}
	for _, f := range manifest.Files {
		if f.Path != "schema.json" {
			shown.Shards = append(shown.Shards, f)
		} else if shown.Schema, err = s.ReadBlob(ctx, f.Digest); err != nil {
			return shown, err
		}
	}
	if v.Statistics != "" {
		p, err := engine.LoadProfile(ctx, s, v.Statistics)
		if err != nil {
			return shown, err
		}
		summary := p.Summary()
		shown.Profile = &summary
	}
	if v.Spec != "" {
		shown.Spec, err = s.ReadBlob(ctx, v.Spec)
	}
	return shown, err
}

func (d shownData) text(out io.Writer) error {
	err := kit.Table(out, d.Name+"@"+d.Version, func(w io.Writer) {
		kit.Row(w, "digest", d.Artifact.Digest)
		files := "file"
		if d.Artifact.Type == artifact.Dataset {
			files = "shard"
			kit.Row(w, "rows", rowsText(d.Rows))
		}
		kit.Row(w, "size", human.Bytes(d.Artifact.Bytes)+" in "+human.Plural(int64(len(d.Shards)), files))
		kit.Row(w, "created by", d.Run+"/"+d.Step)
		kit.Row(w, "published on", kit.Time(d.At))
		if d.By != "" {
			kit.Row(w, "published by", d.By+", which reused it")
		}
		if !d.RolledBack.IsZero() {
			kit.Row(w, "current", "with `sluice data rollback` on "+kit.Time(d.RolledBack))
		}
		for _, name := range slices.Sorted(maps.Keys(d.Parents)) {
			kit.Row(w, "from", name+" "+artifact.ShortVersion(d.Parents[name].Digest))
		}
		if len(d.Tags) > 0 {
			kit.Row(w, "tags", strings.Join(d.Tags, ", "))
		}
		for _, part := range slices.Sorted(maps.Keys(d.Splits)) {
			kit.Row(w, "split", part+" "+human.Count(d.Splits[part]))
		}
	})
	if err == nil && len(d.History) > 0 {
		fmt.Fprintln(out) //nolint:errcheck // the table has the error
		err = historyText(out, d.History, func(registry.Move) string { return ", with `sluice data rollback`" })
	}
	if err != nil || d.Profile == nil {
		return err
	}
	fmt.Fprintln(out) //nolint:errcheck // the table has the error
	return kit.Table(out, "column\ttype\tmean\tp01\tp50\tp99\tdistinct\tnulls\tmost frequent", func(w io.Writer) {
		for _, name := range slices.Sorted(maps.Keys(d.Profile.Columns)) {
			c := d.Profile.Columns[name]
			top := ""
			if len(c.Top) > 0 {
				top = human.Cut(human.Line(cmp.Or(c.Top[0].Value, `""`)), 30) + " × " + human.Count(c.Top[0].Count)
			}
			kit.Row(w, name, c.TypeWords(), number(c.Mean), number(c.P01), number(c.P50), number(c.P99), human.Count(c.Distinct), human.Count(c.Nulls), top)
		}
	})
}

// shownMoves is how many moves of a name `data show` prints.
const shownMoves = 10

// historyText prints what a name has meant; byHand says that a person set it. The same published again is no change, and left out.
func historyText(out io.Writer, all []registry.Move, byHand func(registry.Move) string) error {
	var moves []registry.Move
	for i, m := range all {
		if i+1 == len(all) || m.ByHand() || all[i+1].Version.Artifact.Digest != m.Version.Artifact.Digest {
			moves = append(moves, m)
		}
	}
	return kit.Table(out, "current since\tversion\tby", func(w io.Writer) {
		for _, m := range moves[:min(shownMoves, len(moves))] {
			by := m.By
			switch {
			case m.ByHand():
				by += byHand(m)
			case m.Version.By != "":
				by += ", which reused it from " + m.Version.Run
			}
			kit.Row(w, kit.Time(m.At), artifact.ShortVersion(m.Version.Artifact.Digest), by)
		}
		if more := len(moves) - shownMoves; more > 0 {
			kit.Row(w, "", "", human.Plural(int64(more), "earlier change")+" with --format json")
		}
	})
}

func number(x *float64) string {
	if x == nil {
		return "-"
	}
	return human.Number(*x)
}
