package control

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

func newStore(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), "file://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// pipelineIn makes a folder with a pipeline and other files, path to content, and returns the pipeline's path.
func pipelineIn(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	files["pipeline.yaml"] = "sluice: pipeline/v1\nname: only\nsteps: {only: {run: {command: [\"true\"]}}}\n"
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "pipeline.yaml")
}

// TestSnapshot: a run's workspace is the pipeline's folder without what is ignored.
func TestSnapshot(t *testing.T) {
	s := &Session{Store: newStore(t)}
	file := pipelineIn(t, map[string]string{"train.py": "", "notes.tmp": "", ".sluiceignore": "*.tmp\n"})
	if err := os.MkdirAll(filepath.Join(filepath.Dir(file), ".git", "objects"), 0o700); err != nil {
		t.Fatal(err)
	}
	req := SubmitRequest{PipelineFile: file}
	program, _, err := req.load()
	if err != nil {
		t.Fatal(err)
	}
	ref, _, err := s.snapshot(t.Context(), req, program)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := s.Store.Manifest(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, f := range manifest.Files {
		paths = append(paths, f.Path)
	}
	if diff := cmp.Diff([]string{".sluiceignore", "pipeline.yaml", "train.py"}, paths); diff != "" || ref.Type != artifact.Workspace {
		t.Errorf("%s (-want +got):\n%s", ref.Type, diff)
	}
}

func TestReuse(t *testing.T) {
	// a ─> b ─> c, a ─> d
	graph := []spec.Node{{ID: "a"}, {ID: "b", After: []string{"a"}}, {ID: "c", After: []string{"b"}}, {ID: "d", After: []string{"a"}}}
	tests := []struct {
		name, from string
		only       []string
		want       record.Reuse
	}{
		{"all there is", "", nil, record.Reuse{}},
		{"from a step: it and what comes after it is done again", "b", nil, record.Reuse{Again: []string{"b", "c"}}},
		{"from the first", "a", nil, record.Reuse{Again: []string{"a", "b", "c", "d"}}},
		{
			"only some: they are done, what comes after them is not", "",
			[]string{"b", "d"},
			record.Reuse{Only: []string{"b", "d"}, Again: []string{"b", "d"}, Needed: []string{"a"}},
		},
		{
			"only some, one after the other", "",
			[]string{"c", "b"},
			record.Reuse{Only: []string{"c", "b"}, Again: []string{"b", "c"}, Needed: []string{"a"}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := reuse(graph, tt.from, tt.only, false)
			if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
	for _, bad := range []struct {
		from string
		only []string
	}{{"x", nil}, {"", []string{"a", "x"}}} {
		if _, err := reuse(graph, bad.from, bad.only, false); fault.TypeOf(err) != fault.Invalid || !strings.Contains(err.Error(), "no step `x`") {
			t.Errorf("%+v: %v, want an error that names the step there is not", bad, err)
		}
	}
}

// TestCompileOnce: what was checked is what is run, whatever becomes of the files meanwhile.
func TestCompileOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pipeline.yaml")
	write := func(source string) {
		if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("sluice: pipeline/v1\nname: first\nsteps: {a: {run: {command: [echo]}}}\n")
	req := SubmitRequest{PipelineFile: file}
	if err := Compile(&req); err != nil {
		t.Fatal(err)
	}
	write("nothing that compiles")
	program, sub, err := req.compile()
	if err != nil || program.Pipeline().Name != "first" || !strings.Contains(string(sub.Pipeline), "name: first") {
		t.Errorf("%v, %+v", err, sub)
	}
}
