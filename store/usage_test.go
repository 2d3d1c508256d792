package store_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/store"
)

// What is stored is added up by kind: files by the type of the artifact that has them, and what can go apart from what stays.
func TestUsage(t *testing.T) {
	s, _ := openFolder(t)
	unused := blob(t, s, "unused")
	data := folder(t, s, map[string]string{"a": "rows rows", "b": "in both"})
	model, err := s.PutTree(t.Context(), artifact.Model, t.TempDir(), map[string]string{"of": "nothing"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	value := blob(t, s, "a large value")
	if err := s.PutJSON(t.Context(), "runs/r/run.json", []any{data, model, value}, store.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	for key, text := range map[string]string{
		"parts/checkpoints/open/fit/g1/step-1/blobs/aa/aa":  "four",
		"parts/checkpoints/ended/fit/g1/step-1/blobs/aa/aa": "seven!!",
		"checkpoints/ended/fit/g1/step-1.json":              "{}",
		"serving/kserve/t/1/model":                          "model",
		"logs/open/fit/g1/n0/1-0.json":                      unused, // what is printed refers to nothing
	} {
		if err := s.Driver().Write(t.Context(), key, strings.NewReader(text), store.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var read atomic.Int64
	usage := func(before time.Time) map[string]store.Usage {
		t.Helper()
		got, err := s.Usage(t.Context(), before, map[string]bool{"open": true}, func(n int64) { read.Store(max(n, read.Load())) })
		if err != nil {
			t.Fatal(err)
		}
		records := got[store.KindRecords]
		if records.Files != 4 || records.Bytes < 13 || records.Free != 0 { // two manifests, the value and the run
			t.Errorf("records are %+v", records)
		}
		delete(got, store.KindRecords)
		return got
	}
	want := map[string]store.Usage{
		store.KindDatasets:    {Files: 2, Bytes: 16},
		store.KindUnused:      {Files: 1, Bytes: 6, Free: 6},
		store.KindCheckpoints: {Files: 3, Bytes: 13, Free: 7},
		store.KindServed:      {Files: 1, Bytes: 5},
		store.KindLogs:        {Files: 1, Bytes: int64(len(unused))},
	}
	if diff := cmp.Diff(want, usage(time.Now().Add(time.Hour))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if read.Load() == 0 {
		t.Error("nobody was told of what was read")
	}
	for kind, u := range want {
		u.Free = 0
		want[kind] = u
	}
	if diff := cmp.Diff(want, usage(time.Now().Add(-time.Hour))); diff != "" {
		t.Errorf("young, -want +got:\n%s", diff)
	}
}
