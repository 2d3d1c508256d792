package state

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/serving/onnx"
)

func TestCheckPython(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for named, want := range map[string]string{
		"": "", dir: "",
		file:                        "SLUICE_PYTHON_ENV is \"" + file + "\", which is not a folder",
		filepath.Join(dir, "there"): "help: unset it, or create the virtual environment: `python3 -m venv " + filepath.Join(dir, "there") + "`",
	} {
		t.Setenv(onnx.EnvironmentVariable, named)
		err := CheckPython()
		if (err == nil) != (want == "") || err != nil && (fault.TypeOf(err) != fault.Invalid || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", named, err, want)
		}
	}
}

func TestFindPython(t *testing.T) {
	root := t.TempDir()
	below := filepath.Join(root, "project", "examples")
	for _, dir := range []string{filepath.Join(root, "project", ".venv", "bin"), filepath.Join(below, ".venv"), filepath.Join(root, "other")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	env := filepath.Join(root, "project", ".venv")
	if err := os.WriteFile(filepath.Join(env, "bin", "python3"), nil, 0o700); err != nil {
		t.Fatal(err)
	}
	active := filepath.Join(root, "active")
	if err := os.CopyFS(active, os.DirFS(env)); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, cwd, variable, activated, conda, want string }{
		{"beside", filepath.Join(root, "project"), "", "", "", env},
		{"above, past a folder of that name without Python", below, "", "", "", env},
		{"nowhere", filepath.Join(root, "other"), "", "", "", ""},
		{"named", below, "/opt/env", active, "", "/opt/env"},
		{"activated", filepath.Join(root, "other"), "", active, "", active},
		{"activated by conda", filepath.Join(root, "other"), "", "", active, active},
		{"activated, and beside", below, "", active, "", env},
		{"activated, and removed since", filepath.Join(root, "other"), "", filepath.Join(root, "gone"), "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv(onnx.EnvironmentVariable, tt.variable)
			t.Setenv("VIRTUAL_ENV", tt.activated)
			t.Setenv("CONDA_PREFIX", tt.conda)
			t.Chdir(tt.cwd)
			if got := FindPython(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			t.Chdir("/")
			if got := PythonBeside(tt.cwd); got != tt.want {
				t.Errorf("beside a pipeline: got %q, want %q", got, tt.want)
			}
		})
	}
}
