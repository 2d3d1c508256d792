package pipelines_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/pipelines/columns"
)

// A Profile describes the rows where it stands, whatever becomes of them, and changes nothing.
func TestProfileOfRowsOnTheWay(t *testing.T) {
	input := write(t, map[string]string{"a": `{"n": 1}` + "\n" + `{"n": 2}` + "\n", "b": `{"n": 3}` + "\n" + `{"n": 3}` + "\n", "c": `{"n": null}` + "\n"})
	digest := func(profiles bool) (spec.CleanOutput, string) {
		sp := chain(t, input, `
- {type: ReadFromJson, config: {path: INPUT/*}}
- {type: Profile, name: raw, config: {columns: {twice: 2 * row.n}}}
- {type: Deduplicate}
- {type: Profile, name: different}
- {type: Filter, config: {keep: row.n != null && row.n > 5}}
- {type: Profile, name: none}
- {type: WriteToJson}
`)
		if !profiles {
			sp.Transforms = slices.DeleteFunc(sp.Transforms, func(t spec.Transform) bool { return t.Type == "Profile" })
		}
		dir := t.TempDir()
		out := mustRun(t, job(dir, sp))
		return out, treeDigest(t, filepath.Join(dir, "out"))
	}
	out, with := digest(true)
	if _, without := digest(false); with != without {
		t.Error("the dataset is another one")
	}
	want := map[string]spec.Profile{
		"raw": {Columns: map[string]spec.ColumnProfile{
			"n": described([]float64{1, 2, 3, 3}, 1, 3, "3", 2, "1", 1, "2", 1), "twice": described([]float64{2, 4, 6, 6}, 1, 3, "6", 2, "2", 1, "4", 1),
		}},
		"different": {Columns: map[string]spec.ColumnProfile{"n": described([]float64{1, 2, 3}, 1, 3, "1", 1, "2", 1, "3", 1)}},
		"none":      {Columns: map[string]spec.ColumnProfile{}},
	}
	if diff := cmp.Diff(want, out.Profiles); diff != "" {
		t.Errorf("profiles (-want +got):\n%s", diff)
	}
}

// described is the profile of a few sorted numbers below 512, of which top lists the values and their counts.
func described(numbers []float64, nulls, distinct int64, top ...any) spec.ColumnProfile {
	sum := 0.0
	for _, n := range numbers {
		sum += n
	}
	at := func(share float64) *float64 {
		return new(numbers[max(0, int(math.Ceil(share*float64(len(numbers))))-1)])
	}
	c := spec.ColumnProfile{
		Types: []string{"integer"}, Nulls: nulls, Distinct: distinct, Min: at(0), Mean: new(sum / float64(len(numbers))), Max: at(1),
		P01: at(0.01), P05: at(0.05), P25: at(0.25), P50: at(0.5), P75: at(0.75), P95: at(0.95), P99: at(0.99),
	}
	for i := 0; i < len(top); i += 2 {
		c.Top = append(c.Top, spec.TopValue{Value: top[i].(string), Count: int64(top[i+1].(int))})
	}
	return c
}

// The profile describes what was kept, with computed columns; duplicates are counted by row and by group.
func TestProfile(t *testing.T) {
	input := write(t, map[string]string{"in": `{"text": "a", "n": 1}
{"text": "a", "n": 1}
{"text": "a", "n": 1}
{"text": "bbb", "n": null}
{"text": "bbb", "n": null}
{"text": "cc"}
`})
	sp := chain(t, input, `
- {type: ReadFromJson, config: {path: INPUT/in}}
- {type: Deduplicate}
- {type: Split, config: {key: row.text, parts: {a: 0.5, b: 0.5}}}
- {type: WriteToJson, config: {shards: 3}}
`)
	sp.Profile.Columns = map[string]spec.Expr{"len": "row.text.size() + params.more", "twice": "2 * row.n"}
	dir := t.TempDir()
	sp.RowParams = map[string]spec.RowParam{"more": {Type: "int", Value: json.RawMessage("10")}}
	j := job(dir, sp)
	j.ProfileFile = filepath.Join(dir, "profile.json")
	out := mustRun(t, j)

	if want := (spec.Duplicates{Dropped: 3, Groups: 2}); out.Duplicates != want {
		t.Errorf("duplicates: got %+v, want %+v", out.Duplicates, want)
	}
	got := out.Profile.Columns
	if len(got) != 4 || *got["len"].Mean != 12 || *got["len"].Max != 13 || got["twice"].Nulls != 2 || *got["twice"].Mean != 2 || got["n"].Nulls != 2 {
		t.Errorf("columns: got %+v", got)
	}
	text, err := os.ReadFile(j.ProfileFile)
	if err != nil {
		t.Fatal(err)
	}
	p, err := columns.ParseProfile(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(out.Profile, p.Summary()); diff != "" || p.Rows != 3 {
		t.Errorf("the file has %d rows (-output +file):\n%s", p.Rows, diff)
	}
	schema, err := os.ReadFile(filepath.Join(j.OutputDir, "schema.json"))
	if err != nil || strings.Contains(string(schema), "len") {
		t.Errorf("the schema has a column that is not in the rows: %s, %v", schema, err)
	}
}

// The profile is no part of the dataset: with another one it is the same.
func TestProfileOutsideOfDigest(t *testing.T) {
	input := write(t, map[string]string{"in": `{"text": "a"}`})
	digest := func(columns map[string]spec.Expr) string {
		spec := chain(t, input, "[{type: ReadFromJson, config: {path: INPUT/in}}, {type: WriteToJson}]")
		spec.Profile.Columns = columns
		j := job(t.TempDir(), spec)
		mustRun(t, j)
		return treeDigest(t, j.OutputDir)
	}
	if a, b := digest(nil), digest(map[string]spec.Expr{"len": "row.text.size()"}); a != b {
		t.Errorf("digests %s and %s", a, b)
	}
}

// A dataset without rows has a schema and a profile too.
func TestProfileOfNothing(t *testing.T) {
	input := write(t, map[string]string{"in": "\n"})
	dir := t.TempDir()
	j := job(dir, chain(t, input, "[{type: ReadFromJson, config: {path: INPUT/in}}, {type: WriteToJson}]"))
	j.ProfileFile = filepath.Join(dir, "profile.json")
	mustRun(t, j)
	text, err := os.ReadFile(j.ProfileFile)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := columns.ParseProfile(text); err != nil || p.Rows != 0 {
		t.Errorf("got %+v, %v", p, err)
	}
	if diff := cmp.Diff([]string{"all", "schema.json"}, names(t, j.OutputDir)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestProfileExpressionInvalid(t *testing.T) {
	sp := chain(t, t.TempDir(), "[{type: ReadFromJson, config: {path: INPUT/in}}, {type: WriteToJson}]")
	sp.Profile.Columns = map[string]spec.Expr{"len": "row.text.size("}
	_, err := run(t, job(t.TempDir(), sp))
	if errorType(err) != "invalid" || !strings.Contains(err.Error(), "column len") {
		t.Errorf("got %v", err)
	}
}
