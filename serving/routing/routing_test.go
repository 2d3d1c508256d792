package routing

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/store"
)

var model = artifact.Ref{Type: artifact.Model, Digest: "sha256:aa", Bytes: 1, Files: 1}

func open(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), "file://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func document(weights ...float64) Document {
	d := Document{Target: "production", Versions: int64(len(weights))}
	for i, w := range weights {
		d.Releases = append(d.Releases, Release{Version: fmt.Sprint(i + 1), Model: model, Weight: w})
	}
	return d
}

func TestSetAndCurrent(t *testing.T) {
	s := open(t)
	empty, err := Current(t.Context(), s, "production")
	if err != nil || empty.Revision != 0 {
		t.Fatalf("Current of nothing = %+v, %v", empty, err)
	}
	for revision := int64(0); revision < 12; revision++ {
		written, err := Set(t.Context(), s, revision, document(0.25, 0.75))
		if err != nil {
			t.Fatal(err)
		}
		current, err := Current(t.Context(), s, "production")
		if err != nil || current.Revision != revision+1 {
			t.Fatalf("Current = %+v, %v, want revision %d", current, err, revision+1)
		}
		if diff := cmp.Diff(written, current); diff != "" {
			t.Errorf("(-written +current):\n%s", diff)
		}
	}
	if serving, ok := document(0.25, 0.75).Serving(); !ok || serving.Version != "2" {
		t.Errorf("Serving = %+v, %v", serving, ok)
	}
	if other, err := Current(t.Context(), s, "prod"); err != nil || other.Revision != 0 {
		t.Errorf("a target with another's name as its prefix: %+v, %v", other, err)
	}
	if _, err := At(t.Context(), s, "production", 13); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("At a revision to come = %v, want ErrNotFound", err)
	}
}

func TestConflicts(t *testing.T) {
	s := open(t)
	if _, err := Set(t.Context(), s, 0, document(1)); err != nil {
		t.Fatal(err)
	}
	for _, expected := range []int64{0, 2, 100} {
		if _, err := Set(t.Context(), s, expected, document(1)); !errors.Is(err, ErrConflict) {
			t.Errorf("Set at revision 1 for revision %d = %v, want ErrConflict", expected, err)
		}
	}
}

func TestOneOfManyWritersWins(t *testing.T) {
	s := open(t)
	for revision := range int64(5) {
		var won atomic.Int64
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				switch _, err := Set(context.WithoutCancel(t.Context()), s, revision, document(1)); {
				case err == nil:
					won.Add(1)
				case !errors.Is(err, ErrConflict):
					t.Error(err)
				}
			})
		}
		group.Wait()
		if won.Load() != 1 {
			t.Fatalf("%d writers of revision %d won", won.Load(), revision+1)
		}
	}
}

func TestDocumentsThatAreRefused(t *testing.T) {
	s := open(t)
	change := func(f func(*Document)) Document {
		d := document(0.5, 0.5)
		f(&d)
		return d
	}
	for name, d := range map[string]Document{
		"name":            change(func(d *Document) { d.Target = "../x" }),
		"sum":             document(0.5, 0.4),
		"negative":        document(1.5, -0.5),
		"not a number":    document(math.NaN(), 1),
		"twice":           change(func(d *Document) { d.Releases[1].Version = "1" }),
		"unknown version": change(func(d *Document) { d.Releases[1].Version = "3" }),
		"no number":       change(func(d *Document) { d.Releases[1].Version = "b" }),
		"no model":        change(func(d *Document) { d.Releases[1].Model = artifact.Ref{} }),
		"shadow of none":  change(func(d *Document) { d.Shadow = &Shadow{Version: "3", Share: 1} }),
		"shadow share":    change(func(d *Document) { d.Shadow = &Shadow{Version: "2", Share: 1.1} }),
	} {
		if _, err := Set(t.Context(), s, 0, d); err == nil {
			t.Errorf("%s: %+v was written", name, d)
		}
	}
}

// TestRowsKeepNoDataset: the rows that a release is warmed up with keep their dataset from no collector, in any revision.
func TestRowsKeepNoDataset(t *testing.T) {
	s := open(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "rows.jsonl"), []byte(`{"x":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	dataset, err := s.PutTree(t.Context(), artifact.Dataset, dir, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	doc := document(1)
	doc.Releases[0].WarmUp = RowsOf(dataset, "test")
	if _, err := Set(t.Context(), s, 0, doc); err != nil {
		t.Fatal(err)
	}
	read, err := Current(t.Context(), s, doc.Target)
	if err != nil || read.Releases[0].WarmUp.Dataset().Digest != dataset.Digest {
		t.Errorf("the rows are of %+v, %v, want %s", read.Releases[0].WarmUp, err, dataset.Digest)
	}
	garbage, err := s.Garbage(t.Context(), time.Now().Add(time.Hour))
	if err != nil || len(garbage) != 2 { // the list of files and a file
		t.Errorf("garbage is %+v, %v, want the whole dataset", garbage, err)
	}
}
