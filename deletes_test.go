package sluice_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// deleters are the files whose code deletes from a store, with what.
var deleters = map[string]string{
	"activities/retention/retention.go": "runs, by `sluice rm` or `keep`",
	"connect/schedule/schedule.go":      "the memory of a trigger that somebody deletes",
	"serving/replica/replica.go":        "what gateways said of themselves that ended an hour ago",
	"store/part.go":                     "what is in a part of the store, for those below",
	"store/record/accepted.go":          "the note of the accepted run before the last",
	"store/registry/registry.go":        "tags that somebody deletes",
	"store/sweep.go":                    "what nothing refers to, by `sluice data gc --yes`",
	"store/verify.go":                   "damaged files, by `sluice data verify --remove`",
	"training/checkpoint/prune.go":      "checkpoints that newer ones replace, and by `sluice data gc --checkpoints --yes`",
	"training/delivery/delivery.go":     "what agents are told before they begin",
}

var deletes = regexp.MustCompile(`[dD]river(?:\(\))?\.Delete\(`)

// TestNothingElseDeletes: whoever deletes from the store is in the list above, and in what the docs say of it.
//
// promise: docs/operations.md#p-nothing-deleted
func TestNothingElseDeletes(t *testing.T) {
	var found []string
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules" || name == "internal/testing"):
			return fs.SkipDir
		case !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		source, err := os.ReadFile(name)
		if deletes.Match(source) {
			found = append(found, filepath.ToSlash(name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(deleters)), found); diff != "" {
		t.Errorf("files that delete from a store (-listed +found):\n%s", diff)
	}
}
