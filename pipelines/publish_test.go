package pipelines

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/pipelines/account"
)

// Of two cleanings into one folder the second one is told so, and nothing of it stays.
func TestPublishIntoTaken(t *testing.T) {
	dir := t.TempDir()
	job := Job{
		WorkDir: filepath.Join(dir, "work"), OutputDir: filepath.Join(dir, "out"), DeadLetterDir: filepath.Join(dir, "rejected"),
		AccountFile: filepath.Join(dir, "account"),
	}
	makeFiles(t, dir, "work/out/all/part", "work/dead/000-0000000000", "work/"+account.FileName, "out/others")
	err := publish(job, spec.CleanOutput{Rows: spec.Rows{Rejected: 1}})
	if e := (*fault.Error)(nil); !errors.As(err, &e) || e.Type != fault.Invalid || !strings.Contains(err.Error(), "was created while this command ran") {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff([]string{"out", "work"}, namesIn(t, dir)); diff != "" {
		t.Errorf("what stays (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"others"}, namesIn(t, job.OutputDir)); diff != "" {
		t.Errorf("what was there (-want +got):\n%s", diff)
	}
}

// Work folders whose process is gone are removed; nothing else, and none that is in use.
func TestLeftOvers(t *testing.T) {
	dir := t.TempDir()
	used, remove, err := makeWorkFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	makeFiles(t, dir, ".clean-123/out/all/part", ".clean-mine/notes", ".clean-7", "clean-1/x", filepath.Base(used)+"/spill/1")
	removeLeftOvers(dir)
	want := []string{".clean-7", ".clean-mine", "clean-1", filepath.Base(used)}
	slices.Sort(want)
	if diff := cmp.Diff(want, namesIn(t, dir)); diff != "" {
		t.Errorf("while one is in use (-want +got):\n%s", diff)
	}
	child, err := holdFolder(used)
	if err != nil {
		t.Fatal(err)
	}
	defer child.Close()
	remove()
	if _, err := os.Stat(used); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
}

func makeFiles(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, nil, 0o666)); err != nil {
			t.Fatal(err)
		}
	}
}

func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
