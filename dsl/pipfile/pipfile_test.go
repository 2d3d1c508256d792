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
