package script

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

type kept struct {
	bytes.Buffer
	closed bool
}

func (k *kept) Close() error { k.closed = true; return nil }

func TestLogKeepsHeadAndTail(t *testing.T) {
	var k kept
	l := &Log{to: &k, head: 10, tail: 12}
	for i := range 20 {
		if _, err := fmt.Fprintf(l, "line %d\n", i); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil || !k.closed {
		t.Fatal(err, k.closed)
	}
	want := "line 0\nlin\n[sluice: the log has reached its maximum size; only the last 12 B of the rest are kept, and added when the program has ended]\n" +
		"[sluice: 132 B were omitted]\nline 19\n"
	if diff := cmp.Diff(want, k.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A log is what was written, whole, or its beginning, how much is missing, and its end; and never much longer than it may be.
func TestLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var k kept
		head, tail := rapid.IntRange(0, 50).Draw(t, "head"), rapid.IntRange(1, 50).Draw(t, "tail")
		l := &Log{to: &k, head: head, tail: tail}
		var all bytes.Buffer
		for _, part := range rapid.SliceOf(rapid.StringMatching(`[a-z\n]{0,40}`)).Draw(t, "parts") {
			all.WriteString(part)
			if n, err := io.WriteString(l, part); n != len(part) || err != nil {
				t.Fatal(n, err)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if l.cut == 0 {
			if k.String() != all.String() || all.Len() >= head+2*tail {
				t.Fatalf("%q became %q", all.String(), k.String())
			}
			return
		}
		begin, rest, _ := strings.Cut(k.String(), "\n[sluice: ")
		_, end, _ := strings.Cut(rest, " omitted]\n")
		whole := all.String()
		if begin != whole[:head] || !strings.HasSuffix(whole, end) || len(end) > tail || int64(len(begin)+len(end))+l.cut != int64(len(whole)) {
			t.Fatalf("%q became %q, %d cut", whole, k.String(), l.cut)
		}
	})
}

type full struct{ kept }

func (*full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestLogOnAFullDisk(t *testing.T) {
	for _, head := range []int{0, 10} {
		f := &full{}
		l := &Log{to: f, head: head, tail: 1}
		_, err := io.WriteString(l, "some words")
		if err = errors.Join(err, l.Close()); !errors.Is(err, io.ErrShortWrite) || !f.closed {
			t.Errorf("head %d: %v, closed %v", head, err, f.closed)
		}
	}
}
