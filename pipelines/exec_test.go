package pipelines_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/pipelines"
)

// detect is a program in the five lines that it takes, and what tests need beside.
const detect = `import json, os, sys
for line in sys.stdin:
    row = json.loads(line)
    if row["id"] % 10 == 1: row["_drop"] = "ones"
    if row["id"] % 10 == 2: row["_reject"] = "twos"
    if row["id"] == 33: print("about to die", file=sys.stderr, flush=True); os._exit(7)
    row["seen"] = os.environ["WORD"]
    if row["id"] != 44: print(json.dumps(row))
`

// withPrograms returns a job over a chain whose programs run in a folder with these files.
func withPrograms(t *testing.T, dir string, spec spec.Clean, files map[string]string, env ...string) pipelines.Job {
	t.Helper()
	j := job(dir, spec)
	j.Programs = pipelines.Programs{Dir: write(t, files), Env: append([]string{"PATH=" + os.Getenv("PATH"), "PYTHONUNBUFFERED=1"}, env...)}
	return j
}

const execChain = `
- {type: ReadFromJson, config: {path: INPUT/*}}
- {type: Exec, name: detect, config: {command: [python3, detect.py]}}
- {type: Deduplicate, config: {fields: [text]}}
- {type: Exec, config: {command: [python3, -c, "import sys\nfor line in sys.stdin: print(line)"]}}
- {type: Exec, name: third, config: {command: [cat]}}
- {type: Split, config: {key: row.id, parts: {a: 0.5, b: 0.5}}}
- {type: WriteToJson}
`

func numberedRows(from, to int) string {
	var text strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&text, `{"id": %d, "text": "%d"}`+"\n", i, i)
	}
	return text.String()
}

func TestExec(t *testing.T) {
	first, second, more := numberedRows(0, 30), numberedRows(30, 60), numberedRows(60, 100)
	digests := map[string]bool{}
	for _, files := range []map[string]string{
		{"a": first + second, "b": more},
		{"a": second + more + first},
	} {
		dir := t.TempDir()
		j := withPrograms(t, dir, chain(t, write(t, files), execChain), map[string]string{"detect.py": detect}, "WORD=hello")
		var log bytes.Buffer
		j.Programs.Log = &log
		got := mustRun(t, j)
		want := spec.CleanOutput{
			Rows:    spec.Rows{Read: 100, Kept: 78, Dropped: 10, Rejected: 12},
			Rules:   map[string]spec.Rule{"detect/ones": {Dropped: 10}, "Deduplicate": {}},
			Reasons: map[string]int64{"detect/twos": 10, "detect/no_answer": 1, "detect/crashed": 1},
			Splits:  got.Splits, Masked: map[string]int64{}, Profile: got.Profile, Profiles: map[string]spec.Profile{}, Schema: got.Schema,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("result (-want +got):\n%s", diff)
		}
		if said := "about to die\n"; strings.Count(log.String(), said) != 2 || strings.ReplaceAll(log.String(), said, "") != "" {
			t.Errorf("the log says %q", log.String())
		}
		for _, row := range lines(t, filepath.Join(dir, "out", "*", "*.jsonl")) {
			if diff := cmp.Diff(map[string]any{"id": row["id"], "text": fmt.Sprint(row["id"]), "seen": "hello"}, row); diff != "" {
				t.Errorf("a row (-want +got):\n%s", diff)
			}
		}
		for _, row := range lines(t, filepath.Join(dir, "rejected", "*")) {
			if row["reason"] == "crashed" && (row["element"].(map[string]any)["id"] != 33.0 || !strings.Contains(row["message"].(string), "exit code 7")) {
				t.Errorf("the row that crashed is %v", row)
			}
		}
		digests[treeDigest(t, filepath.Join(dir, "out"))] = true
	}
	if len(digests) != 1 {
		t.Errorf("%d digests, want one", len(digests))
	}
}

// What a program answers first does not matter for the dead letter.
func TestExecDeadLetter(t *testing.T) {
	const shuffle = `import json, os, random, sys
rows = [json.loads(line) for line in sys.stdin]
random.seed(os.environ["SEED"])
random.shuffle(rows)
for row in rows:
    if row["id"] % 2: row["_reject"] = "odd"
    print(json.dumps(row))
`
	input := write(t, map[string]string{"in": numberedRows(0, 40) + "broken\n" + numberedRows(40, 80) + "[]\n"})
	letters := map[string]bool{}
	for _, seed := range []string{"1", "2", "3"} {
		dir := t.TempDir()
		j := withPrograms(t, dir, chain(t, input, `
- {type: ReadFromJson, config: {path: INPUT/*}}
- {type: Exec, config: {command: [python3, shuffle.py]}}
- {type: WriteToJson}
`), map[string]string{"shuffle.py": shuffle}, "SEED="+seed)
		if got := mustRun(t, j); got.Rows.Rejected != 42 {
			t.Errorf("%d rows were rejected, want 42", got.Rows.Rejected)
		}
		letters[treeDigest(t, filepath.Join(dir, "rejected"))] = true
	}
	if len(letters) != 1 {
		t.Errorf("%d different dead letters, want one", len(letters))
	}
}

func TestExecFails(t *testing.T) {
	input := write(t, map[string]string{"in": numberedRows(0, 50), "reserved": `{"_row": 1}`})
	tests := []struct{ name, command, want string }{
		{"not installed", "[no_such_program]", "no_such_program is not installed"},
		{"not there", "[./no_such_file]", "no such file"},
		{"no JSON", `[echo, loading]`, `transform detect: the program wrote something to stdout that is not a JSON object`},
		{"broken", `[python3, nowhere.py]`, "without ever answering a row: "},
		{"too many rejected", `[cat], error_handling: {threshold: 0.01}`, "transform detect rejected 1 of 51 rows"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			spec := chain(t, input, "- {type: ReadFromJson, config: {path: INPUT/*}}\n- {type: Exec, name: detect, config: {command: "+
				tt.command+"}}\n- {type: WriteToJson}")
			_, err := run(t, withPrograms(t, dir, spec, nil))
			if errorType(err) != fault.User || !strings.Contains(fmt.Sprint(err), tt.want) {
				t.Errorf("got %v, want a user error with %q", err, tt.want)
			}
			if left := names(t, dir); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

// What a program knows of secrets does not get into the outputs, which everyone can read: by the name of a rule, of a field, or by a value that
// many rows have. No dataset is left.
func TestExecLeavesNoSecret(t *testing.T) {
	for name, line := range map[string]string{
		"a rule":   `row["_drop"] = os.environ["KEY"]`,
		"a reason": `row["_reject"] = "no-" + os.environ["KEY"]`,
		"a field":  `row[os.environ["KEY"]] = 1`,
		"a value":  `row["seen"] = os.environ["KEY"]`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			program := "import json, os, sys\nfor text in sys.stdin:\n    row = json.loads(text)\n    " + line + "\n    print(json.dumps(row))\n"
			j := withPrograms(t, dir, chain(t, write(t, map[string]string{"a": numberedRows(0, 9)}), execChain), map[string]string{"detect.py": program}, "KEY=hunter-2-hunter")
			j.Secrets = map[string]string{"KEY": "hunter-2-hunter"}
			_, err := run(t, j)
			if fault.TypeOf(err) != fault.User || !strings.Contains(err.Error(), "value of a secret") || strings.Contains(err.Error(), "hunter") {
				t.Errorf("ended with %v, want an error of the user that does not tell the secret", err)
			}
			if _, err := os.Stat(j.OutputDir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a dataset is left: %v", err)
			}
		})
	}
}

// A job that is cancelled, or whose child is killed, takes its programs along.
func TestExecInterrupted(t *testing.T) {
	for name, interrupt := range map[string]func(context.CancelFunc){
		"canceled": func(cancel context.CancelFunc) { cancel() },
		"killed":   func(context.CancelFunc) { killChildren(t) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			pids := filepath.Join(t.TempDir(), "pids")
			j := withPrograms(t, dir, chain(t, slowInput(t), `
- {type: ReadFromJson, config: {path: INPUT/*}}
- {type: Exec, config: {command: [sh, sleep.sh]}}
- {type: WriteToJson}
`), map[string]string{"sleep.sh": "echo $$ >> " + pids + "\nexec sleep 600"})
			err := midRun(t, j, func(cancel context.CancelFunc) {
				await(t, "program", func() bool { return len(names(t, filepath.Dir(pids))) > 0 })
				interrupt(cancel)
			})
			if err == nil {
				t.Error("the job succeeded")
			}
			text, readErr := os.ReadFile(pids)
			if readErr != nil {
				t.Fatal(readErr)
			}
			for pid := range strings.Lines(string(text)) {
				if _, err := os.Stat("/proc/" + strings.TrimSpace(pid)); err == nil {
					t.Errorf("the program %s lives on", pid)
				}
			}
			if left := names(t, dir); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}
