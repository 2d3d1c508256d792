package answer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/serving/oip"
)

func dataset(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestRead(t *testing.T) {
	long := strings.Repeat("x", 200_000)
	dir := dataset(t, map[string]string{
		"test/part-00001.jsonl":  `{"n":3}`, // no newline at the end
		"test/part-00000.jsonl":  "{\"n\":1}\n{\"n\":\"" + long + "\"}\n",
		"train/part-00000.jsonl": "{\"n\":9}\n",
		"schema.json":            "{}",
	})
	var got []string
	for row, err := range ReadRows(dir, "test") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(row["n"]))
	}
	if diff := cmp.Diff([]string{"1", `"` + long + `"`, "3"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReadErrors(t *testing.T) {
	dir := dataset(t, map[string]string{"test/a.jsonl": "{\"n\":1}\nnot JSON\n{\"n\":3}\n", "dev/a.jsonl": "", "long/a.jsonl": strings.Repeat(" ", maxRow+1)})
	for split, want := range map[string]string{
		"test":   "test/a.jsonl:2:",
		"tset":   `no split "tset"; it has: dev, long, test`,
		"../dev": "is not a valid name for a split",
		"long":   "longer than",
	} {
		var last error
		for _, err := range ReadRows(dir, split) {
			if last != nil {
				t.Errorf("%s: rows go on after %v", split, last)
			}
			last = err
		}
		if last == nil || !strings.Contains(last.Error(), want) {
			t.Errorf("%s: %v, want %q", split, last, want)
		}
	}
}

// TestReadWithoutSplits: what a program has written is often files and no folders.
func TestReadWithoutSplits(t *testing.T) {
	dir := dataset(t, map[string]string{"rows.jsonl": "{\"n\":1}\n"})
	for _, err := range ReadRows(dir, "test") {
		const want = `the dataset has no split "test": a split is a folder with JSON lines`
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestTensors(t *testing.T) {
	for _, tc := range []struct {
		name     string
		datatype oip.Datatype
		shape    []int64
		value    string
		want     oip.Tensor
		err      string
	}{
		{name: "text", datatype: oip.Bytes, shape: []int64{-1}, value: `"a[b]"`, want: oip.Tensor{Name: "x", Shape: []int64{1}, Data: []string{"a[b]"}}},
		{name: "scalar", datatype: oip.FP32, shape: []int64{-1, 1}, value: `2`, want: oip.Tensor{Name: "x", Shape: []int64{1, 1}, Data: []float32{2}}},
		{name: "vector", datatype: oip.FP32, shape: []int64{-1, 2}, value: `[1,2]`, want: oip.Tensor{Name: "x", Shape: []int64{1, 2}, Data: []float32{1, 2}}},
		{name: "open", datatype: oip.Int64, shape: []int64{-1, -1}, value: `[1,2,3]`, want: oip.Tensor{Name: "x", Shape: []int64{1, 3}, Data: []int64{1, 2, 3}}},
		{name: "matrix", datatype: oip.FP64, shape: []int64{-1, 2, -1}, value: `[[1,2],[3,4]]`, want: oip.Tensor{Name: "x", Shape: []int64{1, 2, 2}, Data: []float64{1, 2, 3, 4}}},
		{name: "too many", datatype: oip.FP32, shape: []int64{-1, 2}, value: `[1,2,3]`, err: "3 elements"},
		{name: "type", datatype: oip.FP32, shape: []int64{-1}, value: `"a"`, err: `column "x" contains text ("a"), but the model's input takes numbers (FP32); convert it with a MapToFields in the cleaning`},
		{name: "boolean", datatype: oip.FP32, shape: []int64{-1}, value: `true`, err: `column "x" contains a boolean (true), but the model's input takes numbers (FP32); make it 1.0 or 0.0 with a MapToFields in the cleaning`},
		{name: "boolean as integer", datatype: oip.Int64, shape: []int64{-1}, value: `false`, err: `a boolean (false), but the model's input takes integers of 64 bits (INT64); make it 1 or 0 with`},
		{name: "null", datatype: oip.FP32, shape: []int64{-1, 2}, value: `[1, null]`, err: `column "x" contains null, but the model's input takes numbers (FP32); replace it`},
		{name: "object", datatype: oip.FP32, shape: []int64{-1}, value: `{"a":{"b":[1]}}`, err: `contains an object (`},
		{name: "list of texts", datatype: oip.FP64, shape: []int64{-1, 2}, value: `[["a"],["é` + strings.Repeat("é", 30) + `"]]`, err: `contains text ("a")`},
		{name: "a long text", datatype: oip.FP64, shape: []int64{-1}, value: `"` + strings.Repeat("é", 30) + `"`, err: `contains text ("` + strings.Repeat("é", 19) + `…)`},
		{name: "a list among numbers", datatype: oip.FP32, shape: []int64{-1, 2}, value: `[1, [2]]`, err: `contains a list ([2])`},
		{name: "out of range", datatype: oip.Uint8, shape: []int64{-1}, value: `256`, err: `a number (256), but the model's input takes integers of 8 bits from 0 on (UINT8); round or scale it`},
		{name: "too large", datatype: oip.FP32, shape: []int64{-1}, value: `1e99`, err: `a number (1e99), but the model's input takes numbers (FP32); round or scale it`},
		{name: "a fraction", datatype: oip.Int32, shape: []int64{-1}, value: `1.5`, err: `a number (1.5), but the model's input takes integers of 32 bits (INT32)`},
		{name: "a number as text", datatype: oip.Bytes, shape: []int64{-1}, value: `7`, err: `a number (7), but the model's input takes text (BYTES); convert it`},
		{name: "two open", datatype: oip.FP32, shape: []int64{-1, -1, -1}, value: `[1]`, err: "two dynamic dimensions"},
		{name: "missing", datatype: oip.FP32, shape: []int64{-1}, err: `a column "x"; the row has: y`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			row := Row{"y": json.RawMessage("1")}
			if tc.value != "" {
				row["x"] = json.RawMessage(tc.value)
			}
			got, err := RowTensors([]oip.TensorMetadata{{Name: "x", Datatype: tc.datatype, Shape: tc.shape}}, row)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("%v, want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]oip.Tensor{tc.want}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestIndex: the rows by number are those in order, whatever ends a shard.
func TestIndex(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("x", 100<<10) // longer than a buffer
	for name, content := range map[string]string{"0.jsonl": "{\"n\":1}\n{\"n\":\"" + long + "\"}\n", "1.jsonl": "", "2.jsonl": "{\"n\":3}\n{\"n\":4}"} {
		if err := os.MkdirAll(filepath.Join(dir, "test"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "test", name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	x, err := NewRowIndex(dir, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	n := 0
	for want, err := range ReadRows(dir, "test") {
		if err != nil {
			t.Fatal(err)
		}
		got, err := x.Row(n)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("row %d: %v (-want +got):\n%s", n, err, diff)
		}
		n++
	}
	if n != 4 || x.Len() != 4 {
		t.Errorf("%d rows in order, %d by number, want 4", n, x.Len())
	}
	if _, err := NewRowIndex(dir, "tset"); err == nil || !strings.Contains(err.Error(), "it has: test") {
		t.Errorf("a split that is not there: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "test", "3.jsonl"), []byte("{}\nnothing\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken, err := NewRowIndex(dir, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer broken.Close()
	if _, err := broken.Row(5); err == nil || !strings.Contains(err.Error(), "test/3.jsonl:2:") {
		t.Errorf("a row that is none: %v", err)
	}
}
