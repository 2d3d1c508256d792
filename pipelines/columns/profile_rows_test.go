package columns_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/pipelines/columns"
)

func source(rows ...string) columns.Rows {
	return func(yield func([]byte) error) error {
		for _, r := range rows {
			if err := yield([]byte(r)); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestDiffRows(t *testing.T) {
	older := source(`{"id": 1, "t": "a"}`, `{"id": 2, "t": "b"}`, `{"id": 3, "t": "c"}`, `{"id": 4, "t": "d"}`, `{"id": 4, "t": "d"}`)
	newer := source(`{"t": "a", "id": 1}`, `{"id": 2, "t": "B"}`, `{"id": 5, "t": "e"}`, `{"id": 4, "t": "d"}`, `{"id": 4, "t": "D"}`, `{"id": 4, "t": "x"}`)
	for _, c := range []struct {
		key  []string
		want columns.RowDiff
	}{
		{[]string{"id"}, columns.RowDiff{Added: 2, Removed: 1, Changed: 2, Same: 2}},
		{nil, columns.RowDiff{Added: 4, Removed: 3, Same: 2}},
		{[]string{"id", "t"}, columns.RowDiff{Added: 4, Removed: 3, Same: 2}},
	} {
		for _, count := range []int64{0, 5_000_000, 1 << 40} { // one part, some, the most
			got, err := columns.DiffRows(t.Context(), older, newer, count, c.key, t.TempDir())
			if err != nil || got != c.want {
				t.Errorf("key %v, %d rows: got %+v, %v, want %+v", c.key, count, got, err, c.want)
			}
		}
	}
}

func TestDiffManyRows(t *testing.T) {
	var older, newer []string
	for i := range 20_000 {
		row := fmt.Sprintf(`{"id": %d, "n": %d}`, i, i)
		if i%10 != 0 {
			older = append(older, row)
		}
		if i%4 == 0 {
			row = fmt.Sprintf(`{"id": %d, "n": -1}`, i)
		}
		if i%7 != 0 {
			newer = append(newer, row)
		}
	}
	rand.Shuffle(len(newer), func(i, j int) { newer[i], newer[j] = newer[j], newer[i] })
	want := columns.RowDiff{}
	for i := range 20_000 {
		switch before, after := i%10 != 0, i%7 != 0; {
		case before && after && i%4 == 0:
			want.Changed++
		case before && after:
			want.Same++
		case before:
			want.Removed++
		case after:
			want.Added++
		}
	}
	temp := t.TempDir()
	got, err := columns.DiffRows(t.Context(), source(older...), source(newer...), 50_000_000, []string{"id"}, temp)
	if err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestDiffRowsRefuses(t *testing.T) {
	for row, want := range map[string]string{`{"x": 1}`: `no field "id"`, `[1]`: "not an object", `{`: "cannot be read", `{"id": 1, "id": 2}`: "is duplicated"} {
		if _, err := columns.DiffRows(t.Context(), source(row), source(), 1, []string{"id"}, t.TempDir()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", row, err, want)
		}
	}
}
