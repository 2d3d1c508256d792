package pipelines_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
)

// A row that JSON can write and Sluice cannot keep is rejected, and none is changed on the quiet.
func TestWhatCannotBeKept(t *testing.T) {
	input := write(t, map[string]string{"in": strings.Join([]string{
		`{"a": 1, "b": {"c": 1, "c": 2}}`, `{"a": 1e-400}`, `{"a": 1e400}`, `{"a": "\ud83d"}`, `{"a": "\ud83d\ude00"}`, `{"a": 0e-400}`,
	}, "\n")})
	tests := []struct {
		config  string
		reasons map[string]int64
		rows    []string
	}{
		{
			"path: INPUT/in",
			map[string]int64{"ReadFromJson/repeated_field": 1, "ReadFromJson/number_range": 2, "ReadFromJson/bad_encoding": 1},
			[]string{`{"a":"😀"}`, `{"a":0}`},
		},
		{
			"path: INPUT/in, on_invalid: replace",
			map[string]int64{"ReadFromJson/repeated_field": 1, "ReadFromJson/number_range": 2},
			[]string{"{\"a\":\"\uFFFD\"}", `{"a":"😀"}`, `{"a":0}`},
		},
	}
	for _, test := range tests {
		t.Run(test.config, func(t *testing.T) {
			dir := t.TempDir()
			out := mustRun(t, job(dir, chain(t, input, "- {type: ReadFromJson, config: {"+test.config+"}}\n- {type: WriteToJson}\n")))
			if diff := cmp.Diff(test.reasons, out.Reasons); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.rows, parts(t, dir)["all"]); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
		})
	}
}

// An answer that cannot be kept rejects its row, and not the whole cleaning.
func TestExecAnswersWhatCannotBeKept(t *testing.T) {
	const answer = `import json, sys
for line in sys.stdin:
    row = json.loads(line)
    print('{"_row": %d, "a": "\\udc80"}' % row["_row"] if row["id"] == 2 else line)
`
	dir := t.TempDir()
	j := withPrograms(t, dir, chain(t, write(t, map[string]string{"in": numberedRows(0, 4)}), `
- {type: ReadFromJson, config: {path: INPUT/*}}
- {type: Exec, config: {command: [python3, answer.py]}}
- {type: WriteToJson}
`), map[string]string{"answer.py": answer})
	out := mustRun(t, j)
	if diff := cmp.Diff(map[string]int64{"Exec/bad_encoding": 1}, out.Reasons); diff != "" || out.Rows.Kept != 3 {
		t.Errorf("%+v, reasons (-want +got):\n%s", out.Rows, diff)
	}
}

// A program that fails when it has answered everything fails the step.
func TestExecFailsAtTheEnd(t *testing.T) {
	j := withPrograms(t, t.TempDir(), chain(t, write(t, map[string]string{"in": numberedRows(0, 4)}), `
- {type: ReadFromJson, config: {path: INPUT/*}}
- {type: Exec, config: {command: [python3, late.py]}}
- {type: WriteToJson}
`), map[string]string{"late.py": "import sys\nfor line in sys.stdin: print(line)\nsys.exit('the table was not saved')\n"})
	_, err := run(t, j)
	var e *fault.Error
	if want := "answered every row and then exited with exit code 1: the table was not saved"; !errors.As(err, &e) || e.Type != fault.User ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

// 1 and 1.0 are one number wherever values are compared.
func TestNumbersAreCompared(t *testing.T) {
	input := write(t, map[string]string{"in": `{"k": 1, "v": [1.0, {"x": 2}]}` + "\n" + `{"k": 1.0, "v": [1, {"x": 2.0}]}` + "\n" + `{"k": 1.5, "v": []}` + "\n"})
	for config, rows := range map[string]spec.Rows{
		"Deduplicate, config: {fields: [k]}":                          {Read: 3, Kept: 2, Dropped: 1},
		"Deduplicate, config: {fields: [v]}":                          {Read: 3, Kept: 2, Dropped: 1},
		"Deduplicate":                                                 {Read: 3, Kept: 2, Dropped: 1},
		"Combine, config: {group_by: [k], combine: {n: {fn: count}}}": {Read: 3, Kept: 2, Dropped: 1},
		`AssertEqual, config: {elements: [{k: 1, v: [1, {x: 2}]}, {k: 1, v: [1, {x: 2}]}, {k: 1.5, v: []}]}`: {Read: 3, Kept: 3},
	} {
		out := mustRun(t, job(t.TempDir(), chain(t, input, "- {type: ReadFromJson, config: {path: INPUT/in}}\n- {type: "+config+"}\n- {type: WriteToJson}\n")))
		if out.Rows != rows {
			t.Errorf("%s: got %+v, want %+v", config, out.Rows, rows)
		}
		if got := out.Profile.Columns["k"].Distinct; got != 2 && !strings.Contains(config, "[v]") {
			t.Errorf("%s: %d different values of k", config, got)
		}
	}
}
