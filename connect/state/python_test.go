package state

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sluiceml/sluice/serving/onnx"
)

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
	tests := []struct{ name, cwd, variable, want string }{
		{"beside", filepath.Join(root, "project"), "", env},
		{"above, past a folder of that name without Python", below, "", env},
		{"nowhere", filepath.Join(root, "other"), "", ""},
		{"named", below, "/opt/env", "/opt/env"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv(onnx.EnvironmentVariable, tt.variable)
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
