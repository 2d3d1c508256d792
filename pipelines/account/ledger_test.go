package account

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Work that is done twice counts once, and what ends at the same moment is not forgotten.
func TestCounts(t *testing.T) {
	work := t.TempDir()
	if err := os.Mkdir(filepath.Join(work, Folder), 0o700); err != nil {
		t.Fatal(err)
	}
	read, kept := [2]string{CountRead, AllRead}, [2]string{CountKept, "a/b"}
	for of, counts := range map[string]Ledger{
		"segment/0/1": {read: 3}, "segment/0/2": {read: 4}, "write/a/b/part-0": {kept: 5}, "write/a%2Fb/part-0": {kept: 1}, "nothing": {},
	} {
		for range 2 {
			if err := counts.Keep(work, of); err != nil {
				t.Fatal(err)
			}
		}
	}
	all, err := Sum(work)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Ledger{read: 7, kept: 6}, all); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
