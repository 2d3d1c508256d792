package report

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/store/artifact"
)

// cleanStory is what cleaning did to the rows.
type cleanStory struct {
	dsl.Rows
	Dataset artifact.Ref
	// Account splits the rows read into kept, dropped and rejected.
	Account []share
	// Losses are the rules that dropped rows and the reasons rows were rejected for, the largest first.
	Losses []share
	Splits []share
}

// share is a named part of a whole, drawn as a bar.
type share struct {
	Name, Class string
	Count       int64
	// Part of the whole, 0 to 1; At is where it begins when parts are drawn end to end.
	Part, At float64
	// Width of the bar relative to the largest, in percent.
	Width float64
}

func newCleanStory(out dsl.CleanOutput) *cleanStory {
	c := &cleanStory{Rows: out.Rows, Dataset: out.Dataset}
	c.Account = shares(out.Rows.Read, []share{
		{Name: "kept", Class: "succeeded", Count: out.Rows.Kept},
		{Name: "dropped by a rule", Class: "declined", Count: out.Rows.Dropped},
		{Name: "rejected", Class: "failed", Count: out.Rows.Rejected},
	})
	var losses []share
	for _, name := range slices.Sorted(maps.Keys(out.Rules)) {
		losses = append(losses, share{Name: name, Class: "declined", Count: out.Rules[name].Dropped})
	}
	for _, name := range slices.Sorted(maps.Keys(out.Reasons)) {
		losses = append(losses, share{Name: name, Class: "failed", Count: out.Reasons[name]})
	}
	slices.SortStableFunc(losses, func(a, b share) int { return cmp.Compare(b.Count, a.Count) })
	c.Losses = shares(out.Rows.Read, losses)
	var splits []share
	for _, name := range slices.Sorted(maps.Keys(out.Splits)) {
		splits = append(splits, share{Name: name, Class: "accent", Count: out.Splits[name]})
	}
	slices.SortStableFunc(splits, func(a, b share) int { return cmp.Compare(b.Count, a.Count) })
	c.Splits = shares(out.Rows.Kept, splits)
	return c
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

// outputFields lists the outputs a program declared: artifacts by size and digest, values as they are.
func outputFields(raw json.RawMessage) []field {
	var outputs map[string]json.RawMessage
	if json.Unmarshal(raw, &outputs) != nil {
		return nil
	}
	var all []field
	for _, name := range slices.Sorted(maps.Keys(outputs)) {
		var values map[string]float64
		var ref artifact.Ref
		var value any
		switch {
		case name == "metrics" && json.Unmarshal(outputs[name], &values) == nil:
			for _, metric := range slices.Sorted(maps.Keys(values)) {
				all = append(all, field{metric, human.Number(values[metric])})
			}
		case json.Unmarshal(outputs[name], &ref) == nil && !ref.IsZero():
			all = append(all, field{name, string(ref.Type) + ", " + human.Bytes(ref.Bytes)})
		case json.Unmarshal(outputs[name], &value) == nil:
			all = append(all, field{name, human.Value(value)})
		}
	}
	return all
}
