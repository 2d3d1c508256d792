package format

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/pipelines/rows"
)

// The rows of testdata/encodings.py.
func booleanRows() (list []rows.Row) {
	for i := range 501 {
		b := i*7%5 < 2
		if i < 300 {
			b = i/37%2 == 0
		}
		r := rows.Row{
			"i": int64(i), "b": b, "ones": true, "opt": any(b), "list": []any{b, nil, !b}[:min(i%4, 3)], "struct": map[string]any{"x": b},
		}
		if i%11 == 0 {
			r["opt"] = nil
		}
		list = append(list, r)
	}
	return list
}

// Booleans in runs are read as they were written. The library's own decoder reads every run wrongly and reports no error.
func TestParquetBooleans(t *testing.T) {
	for _, name := range []string{"booleans-v1", "booleans-v2"} {
		got, reasons := rowsIn(t, parquetFile{}, readFixture(t, "testdata/"+name+".parquet"), true)
		if diff := cmp.Diff(booleanRows(), got); diff != "" || reasons != nil {
			t.Errorf("%s: %q (-want +got):\n%s", name, reasons, diff)
		}
	}
}

// Runs that are corrupt are an error and never fill the memory.
func TestBooleanRuns(t *testing.T) {
	decode := func(n int, runs ...byte) ([]byte, error) {
		bits := make([]byte, (n+7)/8)
		src := append(binary.LittleEndian.AppendUint32(nil, uint32(len(runs))), runs...)
		return bits, decodeBits(bits, src)
	}
	for _, test := range []struct {
		n    int
		runs []byte
		want []byte
	}{
		{0, nil, []byte{}},
		{16, []byte{32, 1}, []byte{0xff, 0xff}},
		{16, []byte{6, 1, 10, 0, 16, 1}, []byte{0x07, 0xff}},
		{10, []byte{4, 1, 3, 0b101, 0, 0}, []byte{0b10111, 0}},
		{9, []byte{5, 0xaa, 0x55}, []byte{0xaa, 0x55}},
		{3, []byte{0xfe, 0xff, 0xff, 0xff, 0x0f, 1}, []byte{0xff}},
	} {
		if got, err := decode(test.n, test.runs...); err != nil || !bytes.Equal(got, test.want) {
			t.Errorf("%v: %08b, %v; want %08b", test.runs, got, err, test.want)
		}
	}
	for _, runs := range [][]byte{nil, {32}, {0x80}, {7, 1, 1}, {16, 1}} {
		if got, err := decode(17, runs...); err == nil {
			t.Errorf("%v: %08b and no error", runs, got)
		}
	}
	if decodeBits(make([]byte, 1), []byte{200, 0, 0, 0, 2, 1}) == nil {
		t.Error("a length beyond the page: no error")
	}
}

// A page is read from the buffer into which its codec has decompressed it.
func TestParquetCodecs(t *testing.T) {
	var want []rows.Row
	for i := range int64(150) {
		want = append(want, rows.Row{"i": i, "text": fmt.Sprintf("%08x", uint32(i*2654435761)), "float": float64(i) / 7})
	}
	for _, name := range []string{"lz4-v1", "lz4-v2"} {
		got, reasons := rowsIn(t, parquetFile{}, readFixture(t, "testdata/"+name+".parquet"), true)
		if diff := cmp.Diff(want, got); diff != "" || reasons != nil {
			t.Errorf("%s: %q (-want +got):\n%s", name, reasons, diff)
		}
	}
}
