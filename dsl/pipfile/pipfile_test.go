package pipfile

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestIncluded(t *testing.T) {
	const text = "numpy==2.0\n-r more.txt\n  --constraint=../limits.txt\n-c\n--requirement sub/other.txt # why\ntorch --hash=sha256:00\n"
	want := []string{"envs/more.txt", "limits.txt", "envs/sub/other.txt"}
	if diff := cmp.Diff(want, Included("envs/base.txt", []byte(text))); diff != "" {
		t.Error(diff)
	}
}

func TestFolder(t *testing.T) {
	for text, want := range map[string]string{
		"numpy==2.0\n-e .\n":             "-e .",
		"--editable=src # ours\n":        "--editable=src # ours",
		"  ./dist/a.whl\n../other\n":     "./dist/a.whl",
		"/opt/wheels/a.whl\n":            "/opt/wheels/a.whl",
		"numpy\n\n# -e .\n-r more.txt\n": "",
		"a @ https://host/a.whl\n--extra-index-url https://host/simple\n": "",
	} {
		if got := Folder([]byte(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
