package view

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store/record"
)

// TestShowProfile: of a wide dataset the columns that moved most are shown, one line each, and nothing of the rest.
func TestShowProfile(t *testing.T) {
	out := spec.CleanOutput{
		Rows: spec.Rows{Read: 9, Kept: 9}, Profile: spec.Profile{Columns: map[string]spec.ColumnProfile{}},
		Drift: &spec.Drift{Columns: map[string]spec.ColumnDrift{"c33": {PSI: 0.5}}}, Statistics: "sha256:1",
		Profiles: map[string]spec.Profile{"raw": {Columns: map[string]spec.ColumnProfile{"n": {Distinct: 7}}}},
	}
	for i := range 40 {
		out.Profile.Columns[fmt.Sprintf("c%02d", i)] = spec.ColumnProfile{Distinct: int64(1000 + i), Mean: new(float64(i) + 0.5)}
	}
	raw, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	v := StepView{
		Node: spec.Node{ID: "mail", Kind: spec.KindClean},
		Step: record.StepRecord{Step: "mail", Kind: spec.KindClean, Status: spec.StatusSucceeded, Outputs: raw},
	}
	if err := (Theme{}).Step(&b, v, noon); err != nil {
		t.Fatal(err)
	}
	got := b.String()
	head, rest, ok := strings.Cut(got, "column ")
	if !ok || strings.Contains(head, "c33") {
		t.Fatalf("no table:\n%s", got)
	}
	lines := strings.Split(rest, "\n")
	if want := "c33                        33.5         -         -         -       1,033           0     0.500"; lines[1] != want {
		t.Errorf("the first column is\n%s, want\n%s", lines[1], want)
	}
	if !strings.Contains(got, "and 20 columns more; --format json shows them all") || !strings.Contains(got, `"kept": 9`) {
		t.Errorf("got:\n%s", got)
	}
	if _, table, ok := strings.Cut(got, "at raw "); !ok || strings.Join(strings.Fields(strings.Split(table, "\n")[1]), " ") != "n - - - - 7 0" {
		t.Errorf("the profile `raw` is not shown:\n%s", got)
	}
	for _, absent := range []string{`"profile"`, `"profiles"`, `"drift"`, `"top"`, "c32"} {
		if strings.Contains(got, absent) {
			t.Errorf("%s is shown:\n%s", absent, got)
		}
	}
}
