package pipelines_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/pipelines"
	"github.com/sluiceml/sluice/pipelines/format"
)

// TestFileChanges: a file that changes while a job runs fails the job, whenever it was read, and leaves nothing, and nothing of that file in
// the cache. The files are changed by a program that the rows go through.
func TestFileChanges(t *testing.T) {
	tests := map[string]struct{ change, file string }{
		"replaced":                     {`mv "$NEW/b.jsonl" "$IN/b.jsonl"`, "b.jsonl"},
		"replaced, with the same time": {`touch -r "$IN/b.jsonl" "$NEW/b.jsonl" && mv "$NEW/b.jsonl" "$IN/b.jsonl"`, "b.jsonl"},
		"cut short":                    {`truncate -s 20 "$IN/b.jsonl"`, "b.jsonl"},
		"appended to":                  {`echo '{"id": 9}' >> "$IN/b.jsonl"`, "b.jsonl"},
		"removed":                      {`rm "$IN/a.jsonl"`, "a.jsonl"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			input := write(t, map[string]string{"a.jsonl": numberedRows(0, 10), "b.jsonl": numberedRows(10, 20)})
			newer := write(t, map[string]string{"b.jsonl": numberedRows(20, 30)})
			sp := chain(t, input, "- {type: ReadFromJson, config: {path: INPUT/*}}\n- {type: Exec, config: {command: [sh, change.sh]}}\n- {type: WriteToJson}")
			dir, cache := t.TempDir(), t.TempDir()
			j := withPrograms(t, dir, sp, map[string]string{
				"change.sh": "read -r line && echo \"$line\"\n[ -e done ] || { " + test.change + " && touch done; }\nexec cat\n",
			}, "IN="+input, "NEW="+newer)
			j.Cache = pipelines.Cache{Dir: cache, Limit: 1 << 30, Programs: "p"}
			_, err := run(t, j)
			if errorType(err) != fault.User || !strings.Contains(err.Error(), filepath.Join(input, test.file)+" changed while it was read, or was removed") {
				t.Errorf("%s: %v", errorType(err), err)
			}
			for _, left := range []string{j.OutputDir, j.DeadLetterDir} {
				if _, err := os.Stat(left); !os.IsNotExist(err) {
					t.Errorf("%s is left: %v", left, err)
				}
			}
			cached := 0
			err = filepath.WalkDir(cache, func(_ string, d fs.DirEntry, err error) error {
				if err == nil && !d.IsDir() {
					cached++
				}
				return err
			})
			if err != nil || cached > 1 {
				t.Errorf("%d files are cached, %v; want at most the other one", cached, err)
			}
		})
	}
}

// TestListed: a job that is given a list of files reads those of it alone, and fails if one is not what was listed.
func TestListed(t *testing.T) {
	input := write(t, map[string]string{"a.jsonl": numberedRows(0, 10), "b.jsonl": numberedRows(10, 20)})
	list := func() format.Listed {
		t.Helper()
		files, err := format.Find(t.Context(), []string{filepath.Join(input, "*")})
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(files)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "listed.json")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return format.Listed{File: path, Own: "/nowhere"}
	}
	j := job(t.TempDir(), chain(t, input+"/*", fromJSON))
	j.Listed = list()
	addFiles(t, input, map[string]string{"c.jsonl": numberedRows(20, 30)})
	if out := mustRun(t, j); out.Rows.Read != 20 {
		t.Errorf("%d rows were read, want the 20 of the files that were listed", out.Rows.Read)
	}
	j = job(t.TempDir(), j.Spec)
	j.Listed = list()
	if err := os.Remove(filepath.Join(input, "a.jsonl")); err != nil {
		t.Fatal(err)
	}
	if _, err := run(t, j); errorType(err) != fault.User || !strings.Contains(err.Error(), filepath.Join(input, "a.jsonl")+" changed") {
		t.Errorf("%s: %v", errorType(err), err)
	}
	j = job(t.TempDir(), j.Spec)
	j.Listed = list()
	addFiles(t, input, map[string]string{"b.jsonl": numberedRows(30, 40)})
	if _, err := run(t, j); errorType(err) != fault.User || !strings.Contains(err.Error(), filepath.Join(input, "b.jsonl")+" changed") {
		t.Errorf("%s: %v", errorType(err), err)
	}
}
