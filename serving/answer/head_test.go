package answer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/store"
)

// breaking is a store of which half of each row is read. Lists of files are whole.
type breaking struct{ store.Driver }

var errBroken = errors.New("the connection broke")

func (b breaking) Read(ctx context.Context, key string) (io.ReadCloser, error) {
	blob, err := b.Driver.Read(ctx, key)
	if err != nil {
		return nil, err
	}
	defer blob.Close()
	all, err := io.ReadAll(blob)
	if err != nil || bytes.HasPrefix(all, []byte(`{"type"`)) {
		return io.NopCloser(bytes.NewReader(all)), err
	}
	return io.NopCloser(io.MultiReader(bytes.NewReader(all[:4]), iotest.ErrReader(errBroken))), nil
}

// TestHead: the first rows of a split are read from the store, as many as are wanted, in the order of ReadRows.
func TestHead(t *testing.T) {
	s, err := store.Open(t.Context(), "mem://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	big := `{"n":"` + strings.Repeat("x", maxHead-10) + `"}`
	ref, err := s.PutTree(t.Context(), artifact.Dataset, dataset(t, map[string]string{
		"test/part-00001.jsonl":      `{"n":3}`,
		"test/part-00000.jsonl":      "{\"n\":1}\n{\"n\":2}\n",
		"test/deep/part-00000.jsonl": "{\"n\":9}\n",
		"big/part-00000.jsonl":       big + "\n" + big,
		"bad/part-00000.jsonl":       "{\"n\":1}\n{]",
		"other/part-00000.parquet":   "PAR1",
		"schema.json":                "{}",
	}), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		split string
		n     int
		want  string // the rows, or the error
	}{
		{"test", 2, "1 2"},
		{"test", 3, "1 2 3"},
		{"test", 9, "1 2 3"},
		{"bad", 1, "1"},
		{"bad", 2, "bad/part-00000.jsonl:2: invalid character"},
		{"other", 2, `split "other" has no rows as JSON lines`},
		{"tset", 2, `the dataset has no split "tset"; it has: bad, big, other, test`},
		{"..", 2, `the dataset has no split ".."`},
	} {
		head, err := FirstRows(t.Context(), s, ref, tc.split, tc.n)
		if err != nil {
			if _, ok := errors.AsType[*DataError](err); !ok || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%d of %s: %v, want a DataError with %s", tc.n, tc.split, err, tc.want)
			}
			continue
		}
		var got []string
		for _, row := range head {
			got = append(got, string(row["n"]))
		}
		if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%d of %s (-want +got):\n%s", tc.n, tc.split, diff)
		}
	}
	if head, err := FirstRows(t.Context(), s, ref, "big", 2); err != nil || len(head) != 1 {
		t.Errorf("of rows of 4 MiB: %d, %v, want one", len(head), err)
	}
	if _, err := FirstRows(t.Context(), s, artifact.Ref{Type: artifact.Dataset, Digest: "sha256:" + strings.Repeat("0", 64)}, "test", 2); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a dataset that is not there: %v", err)
	}
	broken := store.New(breaking{s.Driver()}, s.URL())
	if _, err := FirstRows(t.Context(), broken, ref, "test", 2); !errors.Is(err, errBroken) {
		t.Errorf("reading that breaks off within a row: %v", err)
	}
}
