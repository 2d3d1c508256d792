package main

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/internal/telemetry"
)

// TestPage keeps docs/metrics.md what the table says.
func TestPage(t *testing.T) {
	want, err := render()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile("../../../docs/metrics.md"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("docs/metrics.md is stale (%v): run `make generate`", err)
	}
}

// TestNames holds the table to Prometheus's conventions: counters end in _total, others do not, and no name is used twice.
func TestNames(t *testing.T) {
	var names []string
	for _, g := range telemetry.Groups() {
		for _, m := range g.Metrics {
			names = append(names, m.Name)
			if !regexp.MustCompile(`^sluice_[a-z_]+$`).MatchString(m.Name) || (m.Type == telemetry.Counter) != strings.HasSuffix(m.Name, "_total") {
				t.Errorf("%s is no name for a %s", m.Name, m.Type)
			}
			if m.Help == "" || strings.HasSuffix(m.Help, ".") || strings.Contains(m.Help, "|") {
				t.Errorf("%s: help %q", m.Name, m.Help)
			}
		}
	}
	slices.Sort(names)
	if once := slices.Compact(slices.Clone(names)); !slices.Equal(once, names) {
		t.Errorf("names are used twice: %v", names)
	}
}
