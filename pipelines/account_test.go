package pipelines_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/pipelines/account"
)

// fileAccounts reads the accounts that a job left, by file.
func fileAccounts(t testing.TB, path string) map[string]account.FileAccount {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]account.FileAccount{}
	last := ""
	for line := range strings.Lines(string(text)) {
		var a account.FileAccount
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatal(err)
		}
		if a.File <= last {
			t.Errorf("the account of %s comes after that of %s", a.File, last)
		}
		last, all[a.File] = a.File, a
	}
	return all
}

func TestAccountOfFiles(t *testing.T) {
	input := write(t, map[string]string{
		"a.jsonl":    `{"id": 1, "text": "x"}` + "\n" + `{"id": 2, "text": "y"}` + "\n{",
		"b/b.jsonl":  `{"id": 3, "text": "x"}` + "\n" + `{"id": 4, "list": [1, 2, 3]}` + "\n" + `{"id": 50, "text": "z"}`,
		"none.jsonl": "",
	})
	dir := t.TempDir()
	j := job(dir, chain(t, input, `
- {type: ReadFromJson, config: {path: INPUT/**}}
- {type: MapToFields, config: {append: true, fields: {list: 'has(row.list) ? row.list : [0]'}}}
- {type: Explode, config: {fields: [list]}}
- {type: Deduplicate, config: {fields: [text], order_by: row.id}}
- {type: Filter, name: few, config: {keep: row.id < 50}}
- {type: WriteToJson}
`))
	j.AccountFile = filepath.Join(dir, "account.jsonl")
	mustRun(t, j)
	want := map[string]account.FileAccount{
		"a.jsonl": {File: "a.jsonl", Read: 3, Kept: 2, Rejected: map[string]int64{"ReadFromJson/not_json": 1}},
		"b/b.jsonl": {
			File: "b/b.jsonl", Read: 5, Dropped: map[string]int64{"Deduplicate": 1, "few": 1},
			Rejected: map[string]int64{"Deduplicate/missing_field": 3},
		},
		"none.jsonl": {File: "none.jsonl"},
	}
	if diff := cmp.Diff(want, fileAccounts(t, j.AccountFile)); diff != "" {
		t.Errorf("accounts (-want +got):\n%s", diff)
	}
}

// The account of each file is right, whatever is in it, and however many there are.
func TestAccountsOfFiles(t *testing.T) {
	const spec = `
- {type: ReadFromJson, config: {path: INPUT/*}}
- {type: Filter, name: small, config: {keep: row.n < 100}}
- {type: Deduplicate, config: {fields: [n], order_by: row.n}}
- {type: Explode, config: {fields: [list]}}
- {type: Deduplicate, name: again, config: {fields: [list]}}
- {type: WriteToJson, config: {shards: 2}}
`
	fewerChecks(t, "10")
	rapid.Check(t, func(rt *rapid.T) {
		files := map[string]string{}
		read := map[string]int64{}
		for f := range rapid.SampledFrom([]int{1, 3, 600}).Draw(rt, "files") {
			name := fmt.Sprintf("%04d.jsonl", f)
			files[name] = ""
			for range rapid.IntRange(0, 5).Draw(rt, "rows") {
				n := rapid.IntRange(0, 120).Draw(rt, "n")
				list := rapid.SliceOfN(rapid.IntRange(0, 99), 0, 3).Draw(rt, "list")
				text, err := json.Marshal(map[string]any{"n": n, "list": list, "file": name})
				if err != nil {
					rt.Fatal(err)
				}
				read[name]++
				if rapid.IntRange(0, 9).Draw(rt, "broken") == 0 {
					text = text[1:]
				}
				files[name] += string(text) + "\n"
			}
		}
		dir := t.TempDir()
		j := job(dir, chain(t, write(t, files), spec))
		j.AccountFile = filepath.Join(dir, "account.jsonl")
		mustRun(t, j)
		kept, rejected := map[string]int64{}, map[string]int64{}
		for _, row := range lines(t, filepath.Join(dir, "out", "*", "*.jsonl")) {
			kept[row["file"].(string)]++
		}
		for _, row := range lines(t, filepath.Join(dir, "rejected", "*")) {
			rejected[row["source"].(string)]++
		}
		all := fileAccounts(t, j.AccountFile)
		for name := range files {
			a := all[name]
			lost := int64(0)
			for _, n := range a.Rejected {
				lost += n
			}
			if a.Kept != kept[name] || lost != rejected[name] || a.Read < read[name] {
				rt.Fatalf("the account of %s is %+v, but of %d rows %d were kept and %d rejected", name, a, read[name], kept[name], rejected[name])
			}
		}
		if len(all) != len(files) {
			rt.Fatalf("%d accounts of %d files", len(all), len(files))
		}
	})
}

// Files of two readers that are called the same have an account each; a file that both read has one.
func TestAccountOfTwoReaders(t *testing.T) {
	input := write(t, map[string]string{"a/x.jsonl": numberedRows(0, 2), "b/x.jsonl": numberedRows(2, 5), "b/y.jsonl": numberedRows(5, 6)})
	for _, c := range []struct {
		one, other string
		want       map[string]int64
	}{
		{"a/*", "b/*", map[string]int64{"one/x.jsonl": 2, "other/x.jsonl": 3, "other/y.jsonl": 1}},
		{"b/x*", "b/*", map[string]int64{"x.jsonl": 6, "y.jsonl": 1}},
	} {
		dir := t.TempDir()
		j := job(dir, graphSpec(t, input, `
type: composite
transforms:
- {type: ReadFromJson, name: one, config: {path: INPUT/`+c.one+`}}
- {type: ReadFromJson, name: other, config: {path: "INPUT/`+c.other+`"}}
- {type: Flatten, name: all, input: [one, other]}
- {type: WriteToJson, input: [all]}
`))
		j.AccountFile = filepath.Join(dir, "account.jsonl")
		mustRun(t, j)
		got := map[string]int64{}
		for _, a := range fileAccounts(t, j.AccountFile) {
			got[a.File] = a.Read
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s and %s (-want +got):\n%s", c.one, c.other, diff)
		}
	}
}
