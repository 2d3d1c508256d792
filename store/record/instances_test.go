package record

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store"
)

// Instances are listed by their numbers, those that did not succeed first.
func TestLoadInstances(t *testing.T) {
	s, err := store.Open(t.Context(), "mem://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		status := spec.StatusSucceeded
		if i == 3 || i == 10 {
			status = spec.StatusFailed
		}
		at := StepRef{Run: "r", Step: "fit", Instance: &Instance{Index: i}}
		if err := s.PutJSON(t.Context(), Key(at), StepRecord{Step: "fit", Index: i, Status: status}, store.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for limit, want := range map[int][]int{0: {}, 1: {3}, 4: {3, 10, 0, 1}, 100: {3, 10, 0, 1, 2, 4, 5, 6, 7, 8, 9, 11}} {
		records, total, err := LoadInstances(t.Context(), s, "r", "fit", limit)
		got := []int{}
		for _, r := range records {
			got = append(got, r.Index)
		}
		if diff := cmp.Diff(want, got); diff != "" || total != 12 || err != nil {
			t.Errorf("%d of %d, %v (-want +got):\n%s", limit, total, err, diff)
		}
	}
	if _, total, err := LoadInstances(t.Context(), s, "r", "fi", 9); total != 0 || err != nil {
		t.Errorf("a step without instances has %d, %v", total, err)
	}
	if r, err := LoadInstance(t.Context(), s, "r", "fit", 99); err != nil || r.Status != spec.StatusPending {
		t.Errorf("one that has not ended is %+v, %v", r, err)
	}
}

func TestSubject(t *testing.T) {
	for _, c := range []struct {
		matrix, item string
		want         any
	}{
		{"", "", nil},
		{`{"arch": "cnn"}`, "", map[string]any{"arch": "cnn"}},
		{"", `"eu"`, "eu"},
		{"", `{"index": 0, "item": "eu", "rows": 1000, "split": {"bytes": 3}}`, "eu"},
		{"", `{"index": 0, "matrix": {"arch": "cnn"}, "f1": 0.9}`, map[string]any{"arch": "cnn"}},
		{"", `{"index": 0, "item": {"index": 4, "item": {"city": "Oslo", "at": [1, 2]}}}`, map[string]any{"city": "Oslo"}},
		{"", `{"city": "Oslo", "index": 3}`, map[string]any{"city": "Oslo", "index": int64(3)}},
		{"", `9007199254740993`, int64(9007199254740993)},
		{"", `{"at": [1, 2]}`, map[string]any{"at": []any{int64(1), int64(2)}}},
	} {
		got := StepRecord{Matrix: json.RawMessage(c.matrix), Item: json.RawMessage(c.item)}.Subject()
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s%s: %s", c.matrix, c.item, diff)
		}
	}
}
