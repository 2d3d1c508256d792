package spill

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/pipelines/rows"
)

// spilled writes rows to the spill file of a new work folder.
func spilled(t testing.TB, texts ...string) (work string, marks []Mark) {
	t.Helper()
	work = t.TempDir()
	for _, dir := range []string{"spill", "marks"} {
		if err := os.Mkdir(filepath.Join(work, dir), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	id := ID{Segment: 1, Unit: 2}
	f, err := Create(Path(work, id))
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range texts {
		at, err := f.Add(rows.Origin{Name: "raw.jsonl", Offset: int64(i)}, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		marks = append(marks, Mark{ID: id, Offset: at, Size: uint32(len(text))})
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return work, marks
}

// readings are the ways to read a row of a spill file.
var readings = map[string]func(work string, m Mark) (string, error){
	"all": func(work string, m Mark) (got string, err error) {
		err = Read(Path(work, m.ID), []uint64{m.Offset}, func(_ uint64, _ rows.Origin, text []byte) error { got = string(text); return nil })
		return got, err
	},
	"record": func(work string, m Mark) (string, error) {
		files := NewFiles(work)
		defer files.Close()
		from, text, err := files.Record(m)
		if err == nil && from.Name != "raw.jsonl" {
			err = errors.New("from " + from.Name)
		}
		return string(text), err
	},
	"text": func(work string, m Mark) (string, error) {
		files := NewFiles(work)
		defer files.Close()
		text := make([]byte, m.Size)
		err := files.Read(m.ID, m.Offset, text)
		return string(text), err
	},
}

// A row is read as it was written, or not at all: whichever bit of the file is another, and wherever the file ends.
func TestDamagedSpill(t *testing.T) {
	texts := []string{`{"id":1}`, `{"id":2,"text":"` + strings.Repeat("x", 20) + `"}`, `{}`}
	work, marks := spilled(t, texts...)
	path := Path(work, marks[0].ID)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, fails func(i int) bool) {
		for name, read := range readings {
			for i, m := range marks {
				got, err := read(work, m)
				if err == nil && got != texts[i] {
					t.Fatalf("%s: %s: row %d is %q", what, name, i, got)
				}
				if fails(i) && err == nil && name != "text" { // which does not read where a row is from
					t.Fatalf("%s: %s: row %d is read", what, name, i)
				}
				if !fails(i) && err != nil {
					t.Fatalf("%s: %s: row %d: %v", what, name, i, err)
				}
			}
		}
	}
	check("whole", func(int) bool { return false })
	ends := []int{int(marks[1].Offset), int(marks[2].Offset), len(whole)}
	for at := range whole {
		of, _ := slices.BinarySearch(ends, at+1)
		for bit := range 8 {
			damaged := bytes.Clone(whole)
			damaged[at] ^= 1 << bit
			if err := os.WriteFile(path, damaged, 0o666); err != nil {
				t.Fatal(err)
			}
			check("a bit", func(i int) bool { return i == of })
		}
	}
	for size := range whole {
		if err := os.WriteFile(path, whole[:size], 0o666); err != nil {
			t.Fatal(err)
		}
		check("cut off", func(i int) bool { return ends[i] > size })
	}
}

// The same of marks.
func TestDamagedMarks(t *testing.T) {
	work, _ := spilled(t)
	refs, err := PutAside(work, "marks/all", []Pack{{"0", []byte("some")}, {"1", []byte("marks")}})
	if err != nil {
		t.Fatal(err)
	}
	fetch := func() error {
		return Fetch(work, []Reference{refs[0].Data, refs[1].Data}, func([]byte) error { return nil })
	}
	if err := fetch(); err != nil {
		t.Fatal(err)
	}
	for at := range "somemarks" {
		damaged := []byte("somemarks")
		damaged[at] ^= 4
		if err := os.WriteFile(filepath.Join(work, "marks/all"), damaged, 0o666); err != nil {
			t.Fatal(err)
		}
		if err := fetch(); !errors.Is(err, errDamaged) {
			t.Errorf("byte %d: got %v", at, err)
		}
	}
	if err := os.WriteFile(filepath.Join(work, "marks/all"), []byte("somemark"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := fetch(); !errors.Is(err, io.EOF) {
		t.Errorf("cut off: got %v", err)
	}
}

// All rows come back, also some of them.
func TestSpill(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		texts := rapid.SliceOfN(rapid.StringMatching(`[a-z]{0,50}`), 1, 20).Draw(rt, "rows")
		work, marks := spilled(t, texts...)
		some := rapid.SliceOfNDistinct(rapid.IntRange(0, len(texts)-1), 0, -1, func(i int) int { return i }).Draw(rt, "some")
		slices.Sort(some)
		var offsets []uint64
		var want, got []string
		for _, i := range some {
			offsets, want = append(offsets, marks[i].Offset), append(want, texts[i])
		}
		err := Read(Path(work, marks[0].ID), offsets, func(_ uint64, _ rows.Origin, text []byte) error { got = append(got, string(text)); return nil })
		if err != nil || !slices.Equal(got, want) {
			rt.Fatalf("got %q, %v, want %q", got, err, want)
		}
	})
}

func BenchmarkSpill(b *testing.B) {
	text := []byte(`{"id":1,"text":"` + strings.Repeat("x", 100) + `"}`)
	from := rows.Origin{Name: "raw.jsonl"}
	b.Run("add", func(b *testing.B) {
		f, err := Create(os.DevNull)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			if _, err := f.Add(from, text); err != nil {
				b.Fatal(err)
			}
		}
	})
	work, marks := spilled(b, slices.Repeat([]string{string(text)}, 10_000)...)
	offsets := make([]uint64, len(marks))
	for i, m := range marks {
		offsets[i] = m.Offset
	}
	b.Run("read", func(b *testing.B) {
		b.SetBytes(int64(len(text) * len(marks)))
		for b.Loop() {
			if err := Read(Path(work, marks[0].ID), offsets, func(uint64, rows.Origin, []byte) error { return nil }); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("text", func(b *testing.B) {
		files := NewFiles(work)
		defer files.Close()
		to := make([]byte, len(text))
		b.SetBytes(int64(len(text) * len(marks)))
		for b.Loop() {
			for _, m := range marks {
				if err := files.Read(m.ID, m.Offset, to); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}
