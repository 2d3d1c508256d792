package pipelines_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/pipelines/profile"
)

// The profile describes what was kept, with computed columns; duplicates are counted by row and by group.
func TestProfile(t *testing.T) {
	input := write(t, map[string]string{"in": `{"text": "a", "n": 1}
{"text": "a", "n": 1}
{"text": "a", "n": 1}
{"text": "bbb", "n": null}
{"text": "bbb", "n": null}
{"text": "cc"}
`})
	spec := chain(t, input, `
- {type: ReadFromJson, config: {path: INPUT/in}}
- {type: Deduplicate}
- {type: Split, config: {key: row.text, parts: {a: 0.5, b: 0.5}}}
- {type: WriteToJson, config: {shards: 3}}
`)
	spec.Profile.Columns = map[string]dsl.Expr{"len": "row.text.size() + params.more", "twice": "2 * row.n"}
	dir := t.TempDir()
	j := job(dir, spec)
	j.Params = map[string]any{"more": 10}
	j.ParamTypes = map[string]dsl.Param{"more": {Type: "int"}}
	j.ProfileFile = filepath.Join(dir, "profile.json")
	out := mustRun(t, j)

	if want := (dsl.Duplicates{Dropped: 3, Groups: 2}); out.Duplicates != want {
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
	p, err := profile.Parse(text)
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
	digest := func(columns map[string]dsl.Expr) string {
		spec := chain(t, input, "[{type: ReadFromJson, config: {path: INPUT/in}}, {type: WriteToJson}]")
		spec.Profile.Columns = columns
		j := job(t.TempDir(), spec)
		mustRun(t, j)
		return treeDigest(t, j.OutputDir)
	}
	if a, b := digest(nil), digest(map[string]dsl.Expr{"len": "row.text.size()"}); a != b {
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
	if p, err := profile.Parse(text); err != nil || p.Rows != 0 {
		t.Errorf("got %+v, %v", p, err)
	}
	if diff := cmp.Diff([]string{"all", "schema.json"}, names(t, j.OutputDir)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestProfileExpressionInvalid(t *testing.T) {
	spec := chain(t, t.TempDir(), "[{type: ReadFromJson, config: {path: INPUT/in}}, {type: WriteToJson}]")
	spec.Profile.Columns = map[string]dsl.Expr{"len": "row.text.size("}
	_, err := run(t, job(t.TempDir(), spec))
	if errorType(err) != "invalid" || !strings.Contains(err.Error(), "column len") {
		t.Errorf("got %v", err)
	}
}
