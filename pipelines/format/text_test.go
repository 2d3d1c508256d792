package format

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/pipelines/rows"
)

// However a file is cut, each line is read once, at its offset.
func TestPiecesCoverAllLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "in")
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("ab \n\r"))).Draw(rt, "text")
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			rt.Fatal(err)
		}
		type found struct {
			Offset int64
			Text   string
		}
		var want, got []found
		at := 0
		for line := range strings.Lines(text) {
			want = append(want, found{int64(at), strings.TrimSuffix(line, "\n")})
			at += len(line)
		}
		size := int64(len(text))
		for start := int64(0); start < size; {
			end := min(size, start+rapid.Int64Range(1, 10).Draw(rt, "cut"))
			p := Piece{File{Path: path, Name: "in", Size: size}, start, end}
			err := textFile{utf8Charset}.lines(t.Context(), p, func(l line) error {
				got = append(got, found{l.offset, string(l.text)})
				return l.err
			})
			if err != nil {
				rt.Fatal(err)
			}
			start = end
		}
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Fatalf("lines (-want +got):\n%s", diff)
		}
	})
}

func TestTooLongLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "in")
	text := "short\n" + strings.Repeat("x", rows.MaxSize) + "\n" + strings.Repeat("y", rows.MaxSize+1) + "\nlast"
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	var got []string
	size := int64(len(text))
	p := Piece{File{Path: path, Size: size}, 0, size}
	err := textFile{utf8Charset}.lines(t.Context(), p, func(l line) error {
		word := string(l.text[:1])
		if l.err != nil {
			word += " rejected"
		}
		got = append(got, word)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"s", "x", "y rejected", "l"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
