package pipelines_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/inputpath"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/offload"
	"github.com/sluiceml/sluice/internal/stepargs"
	"github.com/sluiceml/sluice/pipelines"
)

const nodeChain = `
- {type: ReadFromJson, config: {path: "INPUT/*"}}
- {type: Filter, name: least, config: {keep: "row.id >= params.least && params.?absent.orValue('') == ''"}}
- {type: Exec, name: detect, config: {command: [python3, detect.py]}}
- {type: MaskPII, name: mask, config: {fields: [text], action: hash, key: PEPPER}}
- {type: WriteToJson}
`

// onNode runs the program that a node of a pool is asked to run for a cleaning of a folder, with the programs' files in its working folder, and
// returns the folder that it leaves, and what it prints, with how far it was in the end.
func onNode(t *testing.T, sp spec.Clean, input string, files map[string]string) (left, said string) {
	t.Helper()
	sp.Inputs = map[string]artifact.Ref{"rows": {Type: artifact.Dataset, Digest: "sha256:ab"}}
	raw, err := spec.Encode(sp)
	if err != nil {
		t.Fatal(err)
	}
	train, dir := sp.Train(), t.TempDir()
	args, err := stepargs.Write(train.Command.Command, "sluice", dir, raw)
	if err != nil || args[1] != stepargs.Clean {
		t.Fatalf("the node is to run %q, %v", args, err)
	}
	for i := range args {
		if args[i], err = inputpath.Replace(args[i], map[string]string{"rows": input}); err != nil {
			t.Fatal(err)
		}
	}
	output := t.TempDir()
	t.Setenv("SLUICE_OUTPUT_DIR", output)
	t.Chdir(write(t, files))
	var stdout bytes.Buffer
	if err := pipelines.NodeMain(t.Context(), args[2:], &stdout); err != nil {
		t.Fatal(err)
	}
	if told, ok := stepargs.ReadProgress(dir); ok {
		fmt.Fprintln(&stdout, told.Text)
	}
	return filepath.Join(output, train.Outputs[spec.CleanMade].Path), stdout.String()
}

// TestNode: what is cleaned on a node of a pool is what is cleaned beside the worker, with the step's parameters, variables and secrets.
func TestNode(t *testing.T) {
	input := write(t, map[string]string{`say "a".jsonl`: numberedRows(0, 100)})
	t.Setenv("WORD", "hello")
	t.Setenv("PEPPER", "a key of sixteen bytes")
	sp := chain(t, inputpath.Token("rows", "sha256:ab"), nodeChain)
	sp.Resources = spec.Resources{CPU: 1, Memory: 2 << 30}
	sp.RowParams = map[string]spec.RowParam{"least": {Type: "int", Value: json.RawMessage("5")}, "absent": {Type: "string"}}
	left, said := onNode(t, sp, input, map[string]string{"detect.py": detect})
	there, err := stepargs.ReadReport[offload.CleanReport](left, offload.CleanFile)
	if err != nil {
		t.Fatal(err)
	}

	dir := t.TempDir()
	j := withPrograms(t, dir, chain(t, input, nodeChain), map[string]string{"detect.py": detect}, "WORD=hello")
	j.Spec.RowParams = sp.RowParams
	j.Secrets = map[string]string{"PEPPER": "a key of sixteen bytes"}
	j.AccountFile, j.ProfileFile = filepath.Join(dir, "account.jsonl"), filepath.Join(dir, "profile.json")
	beside := mustRun(t, j)
	if diff := cmp.Diff(offload.CleanReport{Output: beside}, there, cmp.Comparer(func(a, b *fault.Error) bool { return a == b })); diff != "" {
		t.Errorf("cleaned on a node (-beside the worker +there):\n%s", diff)
	}
	if beside.Rows.Read != 100 || beside.Rows.Rejected == 0 || beside.Rows.Kept == 0 || beside.Rules["least"].Dropped != 5 {
		t.Errorf("of the rows it says %+v, %+v", beside.Rows, beside.Rules)
	}
	for name, of := range map[string]string{
		j.OutputDir: offload.Dataset, j.DeadLetterDir: offload.Rejected, j.AccountFile: offload.Account + "/account.jsonl", j.ProfileFile: offload.Profile,
	} {
		if diff := cmp.Diff(texts(t, name), texts(t, filepath.Join(left, of))); diff != "" {
			t.Errorf("%s (-beside the worker +there):\n%s", of, diff)
		}
	}
	for what, want := range map[string]string{"what the program wrote to stderr": "about to die", "its progress": " · 100 rows read · "} {
		if !strings.Contains(said, want) {
			t.Errorf("it said %q, without %s", said, what)
		}
	}
}

// texts are the contents of a file, or of all files in a folder, by their paths in it.
func texts(t *testing.T, root string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(root, path)
		all[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestNodeFails: what is wrong with a step is in the report, with its type.
func TestNodeFails(t *testing.T) {
	t.Setenv("PEPPER", "a key of sixteen bytes")
	sp := chain(t, inputpath.Token("rows", "sha256:ab"), nodeChain)
	sp.RowParams = map[string]spec.RowParam{"least": {Type: "int", Value: json.RawMessage("5")}, "absent": {Type: "string"}}
	input := write(t, map[string]string{"a.jsonl": numberedRows(0, 100)})
	for name, files := range map[string]map[string]string{
		"a program that is missing":    nil,
		"a program that fails at once": {"detect.py": "import sys; sys.exit(3)"},
	} {
		left, _ := onNode(t, sp, input, files)
		report, err := stepargs.ReadReport[offload.CleanReport](left, offload.CleanFile)
		if err != nil || report.Fault == nil || report.Fault.Type != fault.User || !strings.Contains(report.Fault.Message, "transform detect") {
			t.Errorf("%s: it reports %+v, %v", name, report.Fault, err)
		}
		if _, err := os.Stat(filepath.Join(left, offload.Dataset)); err == nil {
			t.Errorf("%s: there is a dataset", name)
		}
	}
	sp.Resources.Memory = 1 << 20
	left, _ := onNode(t, sp, input, nil)
	if report, err := stepargs.ReadReport[offload.CleanReport](left, offload.CleanFile); err != nil || report.Fault == nil || !strings.Contains(report.Fault.Message, "increase `resources: {memory}` of the step") {
		t.Errorf("of too little memory it reports %+v, %v", report.Fault, err)
	}
}
