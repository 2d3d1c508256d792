// Package logtest reads the logs of steps for tests.
package logtest

import (
	"testing"

	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/steplog"
)

// Everything selects all lines.
var Everything = steplog.Selection{Generation: steplog.Any, Node: steplog.Any, Rank: steplog.Any}

// Lines returns the selected lines of a step, or of an instance, that are in the store.
func Lines(t testing.TB, s *store.Store, run, step string, selection steplog.Selection) []steplog.Line {
	t.Helper()
	logs, err := steplog.List(t.Context(), s, run, step)
	if err != nil {
		t.Fatal(err)
	}
	var lines []steplog.Line
	for _, log := range logs {
		if log.Step != step {
			continue
		}
		r := steplog.NewReader(s, selection)
		for _, g := range r.Add(log) {
			if err := r.Read(t.Context(), g, true, func(l steplog.Line) error { lines = append(lines, l); return nil }); err != nil {
				t.Fatal(err)
			}
		}
	}
	return lines
}
