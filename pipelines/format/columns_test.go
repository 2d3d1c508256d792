package format

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// rowsIn reads the rows of what is in a file, in its pieces, and the reasons of those that are none.
func rowsIn(t testing.TB, f Format, data []byte, cut bool) (list []rows.Row, reasons []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "in")
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
	size := int64(len(data))
	whole := Piece{File{Path: path, Name: "in", Size: size}, 0, size}
	pieces := []Piece{whole}
	var err error
	if cut {
		if pieces, err = f.Cut(t.Context(), whole); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range pieces {
		err := f.Read(t.Context(), p, func(r Record) error {
			if why := (*rows.Rejection)(nil); errors.As(r.Rejected, &why) {
				reasons = append(reasons, why.Reason)
				return nil
			}
			if r.Offset != int64(len(list)+len(reasons)) && !slices.Contains(reasons, "damaged") {
				t.Errorf("row %d has the number %d", len(list)+len(reasons), r.Offset)
			}
			list = append(list, r.Row)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return list, reasons
}

type parquetInner struct {
	Name string   `parquet:"name"`
	Tags []string `parquet:"tags,list"`
}

type parquetRecord struct {
	ID     int64            `parquet:"id"`
	Small  int32            `parquet:"small"`
	Big    uint64           `parquet:"big"`
	Text   *string          `parquet:"text,optional"`
	Score  float64          `parquet:"score"`
	Flag   bool             `parquet:"flag"`
	Raw    []byte           `parquet:"raw"`
	At     time.Time        `parquet:"at,timestamp(millisecond)"`
	Day    int32            `parquet:"day,date"`
	Price  int64            `parquet:"price,decimal(2:10)"`
	Items  []parquetInner   `parquet:"items,list"`
	Inner  *parquetInner    `parquet:"inner,optional"`
	Labels map[string]int64 `parquet:"labels"`
	Plain  []int64          `parquet:"plain"`
}

func parquetData(t testing.TB, rows []parquetRecord, group int64) []byte {
	t.Helper()
	var out bytes.Buffer
	w := parquet.NewGenericWriter[parquetRecord](&out, parquet.MaxRowsPerRowGroup(group), parquet.Compression(&parquet.Zstd))
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestParquet(t *testing.T) {
	text := "größe"
	list := []parquetRecord{
		{
			ID: 1, Small: -2, Big: 7, Text: &text, Score: 2.5, Flag: true, Raw: []byte{0, 0xff}, At: time.Date(2024, 2, 29, 12, 30, 1, 5e6, time.UTC),
			Day: 19782, Price: -1205, Items: []parquetInner{{"a", []string{"x", "y"}}, {"b", nil}}, Inner: &parquetInner{"c", []string{"z"}},
			Labels: map[string]int64{"p": 1, "q": 2}, Plain: []int64{4, 5},
		},
		{ID: 2, At: time.Unix(0, 0)},
		{ID: 3, Big: math.MaxUint64, At: time.Unix(0, 0)},
		{ID: 4, Score: math.NaN(), At: time.Unix(0, 0)},
	}
	want := []rows.Row{
		{
			"id": int64(1), "small": int64(-2), "big": uint64(7), "text": "größe", "score": 2.5, "flag": true, "raw": []byte{0, 0xff}, "at": instant("2024-02-29T12:30:01.005Z"),
			"day": date("2024-02-29"), "price": dec("-12.05"),
			"items": []any{
				map[string]any{"name": "a", "tags": []any{"x", "y"}}, map[string]any{"name": "b", "tags": []any{}},
			},
			"inner":  map[string]any{"name": "c", "tags": []any{"z"}},
			"labels": map[string]any{"p": int64(1), "q": int64(2)}, "plain": []any{int64(4), int64(5)},
		},
		{
			"id": int64(2), "small": int64(0), "big": uint64(0), "text": nil, "score": 0.0, "flag": false, "raw": []byte{}, "at": instant("1970-01-01T00:00:00Z"),
			"day": date("1970-01-01"), "price": dec("0.00"), "items": []any{}, "inner": nil, "labels": map[string]any{}, "plain": []any{},
		},
	}
	for i, id := range []int64{3, 4} {
		more := maps.Clone(want[1])
		more["id"] = id
		want = append(want, more)
		if i == 0 {
			more["big"] = uint64(math.MaxUint64)
		} else {
			more["score"] = math.NaN()
		}
	}
	for _, group := range []int64{1, 2, 100} {
		for _, cut := range []bool{false, true} {
			got, reasons := rowsIn(t, parquetFile{}, parquetData(t, list, group), cut)
			if diff := cmp.Diff(packed(t, want), packed(t, got)); diff != "" || reasons != nil {
				t.Errorf("groups of %d, cut %v, %q (-want +got):\n%s", group, cut, reasons, diff)
			}
		}
	}
}

// A value that a row cannot hold is reported with its column, and the other values of the row are shown.
func TestParquetNamesColumn(t *testing.T) {
	type inner struct {
		Day int32 `parquet:"day,date"`
	}
	type record struct {
		ID    int64 `parquet:"id"`
		Day   int32 `parquet:"day,date"`
		Inner inner `parquet:"inner"`
	}
	var out bytes.Buffer
	w := parquet.NewGenericWriter[record](&out)
	if _, err := w.Write([]record{{ID: 1, Day: 2932897}, {ID: 2, Inner: inner{-800000}}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	file := File{Path: filepath.Join(t.TempDir(), "in"), Name: "in", Size: int64(out.Len())}
	if err := os.WriteFile(file.Path, out.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	var got []string
	if err := (parquetFile{}).Read(t.Context(), Piece{File: file, End: file.Size}, func(r Record) error {
		got = append(got, string(r.Text), fmt.Sprint(r.Rejected))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`{"day":null,"id":1,"inner":{"day":"1970-01-01"}}`, "number_range: column day: a time is in the year 10000; supported are years from 0 to 9999",
		`{"day":"1970-01-01","id":2,"inner":{"day":null}}`, "number_range: column inner.day: a time is in the year -221; supported are years from 0 to 9999",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A Parquet file that is cut off or broken is rejected, its rows are not lost silently, and nothing panics.
func TestParquetDamage(t *testing.T) {
	var rows []parquetRecord
	for i := range 500 {
		rows = append(rows, parquetRecord{ID: int64(i), Items: []parquetInner{{strings.Repeat("x", i%7), []string{"y"}}}})
	}
	data := parquetData(t, rows, 100)
	if got, reasons := rowsIn(t, parquetFile{}, data, true); len(got) != 500 || len(reasons) > 0 {
		t.Fatalf("whole: %d rows, %q", len(got), reasons)
	}
	if _, reasons := rowsIn(t, parquetFile{}, data[:len(data)/2], true); !cmp.Equal(reasons, []string{"damaged"}) {
		t.Errorf("cut off: %q", reasons)
	}
	for at := 4; at < len(data)-8; at += 1 + len(data)/40 {
		broken := bytes.Clone(data)
		broken[at] ^= 0xff
		got, reasons := rowsIn(t, parquetFile{}, broken, false)
		if len(got) < 500 && len(reasons) == 0 {
			t.Errorf("byte %d broken: %d rows, %d rejected", at, len(got), len(reasons))
		}
	}
}

// avroData is a file of 25 rows that another program has written.
func avroData(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile("../avro/testdata/deflate.avro")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// The rows of an Avro file have their numbers, and where it is cut off the last one says so.
func TestAvro(t *testing.T) {
	data := avroData(t)
	if got, reasons := rowsIn(t, avroFile{}, data, true); len(got) != 25 || len(reasons) > 0 || got[24]["int"] != int64(-24) {
		t.Errorf("%d rows, %q", len(got), reasons)
	}
	if got, reasons := rowsIn(t, avroFile{}, data[:len(data)-20], false); len(got) == 25 || !cmp.Equal(reasons, []string{"damaged"}) {
		t.Errorf("cut off: %d rows, %q", len(got), reasons)
	}
}

// FuzzColumns: broken files neither panic nor fill the memory.
func FuzzColumns(f *testing.F) {
	f.Add([]byte("Obj\x01"), true)
	f.Add(avroData(f), true)
	f.Add(parquetData(f, []parquetRecord{{ID: 1, Items: []parquetInner{{"a", []string{"b"}}}}}, 10), false)
	f.Fuzz(func(t *testing.T, data []byte, isAvro bool) {
		var format Format = parquetFile{}
		if isAvro {
			format = avroFile{}
		}
		path := filepath.Join(t.TempDir(), "in")
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
		p := Piece{File{Path: path, Size: int64(len(data))}, 0, int64(len(data))}
		n := 0
		err := format.Read(t.Context(), p, func(Record) error {
			if n++; n > 1000 {
				return fmt.Errorf("enough")
			}
			return nil
		})
		if err != nil && n <= 1000 && fault.Of(err).Type != fault.User {
			t.Error(err)
		}
	})
}

// A Parquet or Avro file that is compressed as a whole is an error of the user before any row is read, and not one damaged row.
func TestPackedColumns(t *testing.T) {
	for _, f := range []struct {
		Format
		data []byte
	}{{parquetFile{}, parquetData(t, []parquetRecord{{ID: 1}}, 10)}, {avroFile{}, avroData(t)}} {
		for _, form := range []string{"gzip", "zstd"} {
			data := compressed(t, form, string(f.data))
			path := filepath.Join(t.TempDir(), "in")
			if err := os.WriteFile(path, data, 0o666); err != nil {
				t.Fatal(err)
			}
			size := int64(len(data))
			err := f.Read(t.Context(), Piece{File{Path: path, Name: "in.packed", Size: size}, 0, size}, func(r Record) error {
				t.Errorf("%T in %s: the row %v", f.Format, form, r)
				return nil
			})
			if err == nil || fault.Of(err).Type != fault.User || !strings.HasPrefix(err.Error(), "in.packed is compressed with "+form) {
				t.Errorf("%T in %s: %v", f.Format, form, err)
			}
		}
	}
}

// A page that is small in the file and large in memory is refused before it is decompressed.
func TestParquetLargePage(t *testing.T) {
	defer func(before int64) { maxPage = before }(maxPage)
	maxPage = 1 << 20
	type record struct {
		ID   int64  `parquet:"id"`
		Text string `parquet:"text"`
	}
	var out bytes.Buffer
	w := parquet.NewGenericWriter[record](&out, parquet.Compression(&parquet.Zstd), parquet.SkipPageBounds("text"))
	if _, err := w.Write([]record{{1, "a"}, {2, strings.Repeat("x", int(maxPage)+1)}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	file := File{Path: filepath.Join(t.TempDir(), "in"), Name: "in", Size: int64(out.Len())}
	if err := os.WriteFile(file.Path, out.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	var got []Record
	if err := (parquetFile{}).Read(t.Context(), Piece{File: file, End: file.Size}, func(r Record) error {
		got = append(got, r)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].Lost != 2 || !strings.Contains(fmt.Sprint(got[0].Rejected), "a page of the column text has 1024 KiB when it is decompressed") {
		t.Errorf("got %d records, the first of %d rows: %v", len(got), got[0].Lost, got[0].Rejected)
	}
}
