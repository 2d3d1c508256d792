package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/exactjson"
	"github.com/sluiceml/sluice/internal/human"
)

// cleanStory is what cleaning did to the rows.
type cleanStory struct {
	spec.Rows
	Dataset artifact.Ref
	// Account splits the rows read into kept, dropped and rejected.
	Account []share
	// Changes are how the fields differ from that dataset's.
	Changes []field
	// Profile is that of the dataset, and Profiles are those of the Profile transforms.
	Profile  profileStory
	Profiles []profileStory
	// Losses are the rules that dropped rows and the reasons rows were rejected for, the largest first.
	Losses []share
	Splits []share
	Masked []share
}

// profileStory is a profile: its first columns, and how many more there are. Against is the digest of the dataset that it was compared
// with, if it was.
type profileStory struct {
	Name    string
	Against string
	Columns []columnStory
	More    int
}

// columnStory is a column as its profile and its drift describe it, in words.
type columnStory struct {
	Name, Type               string
	Mean, P01, P50, P99, Top string
	Distinct, Nulls          int64
	PSI, JS, KS              string
	Drifted                  bool
}

// maxColumns is how many columns are shown.
const maxColumns = 50

// largePSI is by custom a large drift.
const largePSI = 0.25

// share is a named part of a whole, drawn as a bar.
type share struct {
	Name, Class string
	Count       int64
	// Part of the whole, 0 to 1; At is where it begins when parts are drawn end to end.
	Part, At float64
	// Width of the bar relative to the largest, in percent.
	Width float64
}

func (s *section) tellClean(Data) bool {
	s.Clean = newCleanStory(decode[spec.CleanOutput](s.Outputs))
	return true
}

func newCleanStory(out spec.CleanOutput) *cleanStory {
	c := &cleanStory{Rows: out.Rows, Dataset: out.Dataset}
	c.Account = shares(out.Rows.Read, []share{
		{Name: "kept", Class: "succeeded", Count: out.Rows.Kept},
		{Name: "dropped by a rule", Class: "declined", Count: out.Rows.Dropped},
		{Name: "rejected", Class: "failed", Count: out.Rows.Rejected},
	})
	dropped := map[string]int64{}
	for name, rule := range out.Rules {
		if rule.Dropped > 0 {
			dropped[name] = rule.Dropped
		}
	}
	c.Losses = shares(out.Rows.Read, largestFirst(slices.Concat(counted(dropped, "declined"), counted(out.Reasons, "failed"))))
	c.Splits = shares(out.Rows.Kept, largestFirst(counted(out.Splits, "accent")))
	c.Masked = shares(0, counted(out.Masked, "accent"))
	c.compare(out)
	c.Profile = newProfileStory("", out.Profile, out.Moved())
	for _, name := range slices.Sorted(maps.Keys(out.Profiles)) {
		if p := newProfileStory(name, out.Profiles[name], nil); len(p.Columns) > 0 {
			c.Profiles = append(c.Profiles, p)
		}
	}
	return c
}

// compare says which fields have come, gone and changed.
func (c *cleanStory) compare(out spec.CleanOutput) {
	for _, change := range []struct {
		what  string
		names []string
	}{{"added", out.Schema.Added}, {"removed", out.Schema.Removed}, {"retyped", out.Schema.Retyped}} {
		if len(change.names) > 0 {
			c.Changes = append(c.Changes, field{change.what, strings.Join(change.names, "; ")})
		}
	}
}

// newProfileStory lists the columns, those that have moved most first.
func newProfileStory(name string, p spec.Profile, drift *spec.Drift) profileStory {
	c := profileStory{Name: name}
	moved := map[string]spec.ColumnDrift{}
	if drift != nil {
		moved, c.Against = drift.Columns, drift.Against
	}
	names := slices.SortedFunc(maps.Keys(p.Columns), func(a, b string) int {
		return cmp.Or(cmp.Compare(moved[b].PSI, moved[a].PSI), cmp.Compare(a, b))
	})
	c.More = max(0, len(names)-maxColumns)
	for _, name := range names[:len(names)-c.More] {
		column := newColumnStory(name, p.Columns[name])
		if d, ok := moved[name]; ok {
			column.PSI, column.JS, column.KS = fmt.Sprintf("%.3f", d.PSI), fmt.Sprintf("%.3f", d.JS), fmt.Sprintf("%.3f", d.KS)
			column.Drifted = d.PSI >= largePSI
		}
		c.Columns = append(c.Columns, column)
	}
	return c
}

func newColumnStory(name string, p spec.ColumnProfile) columnStory {
	c := columnStory{
		Name: name, Type: p.TypeWords(), Distinct: p.Distinct, Nulls: p.Nulls, Mean: number(p.Mean), P01: number(p.P01), P50: number(p.P50), P99: number(p.P99),
	}
	if len(p.Top) > 0 {
		c.Top = human.Value(p.Top[0].Value) + " × " + human.Count(p.Top[0].Count)
	}
	return c
}

// number is empty for what was not measured.
func number(v *float64) string {
	if v == nil {
		return ""
	}
	return human.Number(*v)
}

// counted are counts by name, as parts of a whole.
func counted(counts map[string]int64, class string) []share {
	var all []share
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, share{Name: name, Class: class, Count: counts[name]})
	}
	return all
}

func largestFirst(parts []share) []share {
	slices.SortStableFunc(parts, func(a, b share) int { return cmp.Compare(b.Count, a.Count) })
	return parts
}

// shares fills in the parts of a whole.
func shares(whole int64, parts []share) []share {
	var most int64 = 1
	for _, p := range parts {
		most = max(most, p.Count)
	}
	at := 0.0
	for i := range parts {
		p := &parts[i]
		if whole > 0 {
			p.Part = float64(p.Count) / float64(whole)
		}
		p.At, p.Width = at*100, 100*float64(p.Count)/float64(most)
		at += p.Part
	}
	return parts
}

// outputFields lists the outputs a program declared: artifacts as describe says, values as they are.
func outputFields(raw json.RawMessage, describe func(artifact.Ref) string) []field {
	var outputs map[string]json.RawMessage
	if json.Unmarshal(raw, &outputs) != nil {
		return nil
	}
	var all []field
	for _, name := range slices.Sorted(maps.Keys(outputs)) {
		var metrics map[string]float64
		var ref artifact.Ref
		switch {
		case name == "metrics" && json.Unmarshal(outputs[name], &metrics) == nil:
			all = append(all, fields(metrics)...)
		case json.Unmarshal(outputs[name], &ref) == nil && !ref.IsZero():
			all = append(all, field{name, describe(ref)})
		default:
			if value, err := exactjson.Value(outputs[name]); err == nil {
				all = append(all, field{name, human.Precise(value)})
			}
		}
	}
	return all
}
