package dsl

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
)

var update = flag.Bool("update", false, "write what the linter says as what it should say")

// archive is a workspace of the files of a test case.
type archive struct{ *txtar.Archive }

func (a archive) Exists(path string) bool { return a.file(path) != nil }

// LeftOut is what it may be of a folder: files that end in .pem stay out.
func (a archive) LeftOut(path string) (why, help string) {
	if strings.HasSuffix(path, ".pem") {
		return "it may hold a secret", "take it along"
	}
	return "", ""
}

func (a archive) ReadFile(path string) ([]byte, error) {
	if data := a.file(path); data != nil {
		return data, nil
	}
	return nil, fs.ErrNotExist
}

func (a archive) file(name string) []byte {
	for _, f := range a.Files {
		if f.Name == name {
			return append([]byte{}, f.Data...)
		}
	}
	return nil
}

// TestLint compares the whole text for each case in testdata/lint: a pipeline.yaml, perhaps an env.yaml and workspace files, and the
// text expected in `want`. A `\t` written as <TAB> stands for a tab, which an editor would not keep.
func TestLint(t *testing.T) {
	cases, err := filepath.Glob("testdata/lint/*.txtar")
	if err != nil || len(cases) < 35 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	covered := map[spec.Kind]bool{}
	defer func() {
		for _, k := range kinds {
			if !covered[k.kind] {
				t.Errorf("no case has a finding in a %s step", k.kind)
			}
		}
	}()
	for _, path := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			parsed, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			a := archive{parsed}
			pipeline := strings.ReplaceAll(string(a.file("pipeline.yaml")), "<TAB>", "\t")
			program, diags := Compile(document.File{Name: "pipeline.yaml", Source: []byte(pipeline)}, document.File{Name: "env.yaml", Source: a.file("env.yaml")}, a)
			if (program == nil) != diags.HasErrors() {
				t.Errorf("program is nil: %v, has errors: %v", program == nil, diags.HasErrors())
			}
			got := diags.Text(false)
			for _, k := range kinds {
				covered[k.kind] = covered[k.kind] || strings.Contains(got, string(k.kind)+": {") || strings.Contains(pipeline, string(k.kind)+":\n") && got != ""
			}
			if *update {
				if a.file("want") == nil {
					a.Files = append(a.Files, txtar.File{Name: "want"})
				}
				for i := range a.Files {
					if a.Files[i].Name == "want" {
						a.Files[i].Data = []byte(got)
					}
				}
				if err := os.WriteFile(path, txtar.Format(a.Archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(a.file("want")), got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
