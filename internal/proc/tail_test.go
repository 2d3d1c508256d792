package proc_test

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/internal/proc"
)

func TestTailKeepsTheLastLines(t *testing.T) {
	// However the text is cut into writes, the last lines are those of the text.
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "n")
		parts := rapid.SliceOf(rapid.StringMatching(`[ab\n]{0,6}`)).Draw(t, "parts")
		tail := proc.NewTail(n)
		for _, part := range parts {
			if wrote, err := tail.Write([]byte(part)); wrote != len(part) || err != nil {
				t.Fatalf("Write = %d, %v", wrote, err)
			}
		}
		all := strings.Split(strings.TrimSuffix(strings.Join(parts, ""), "\n"), "\n")
		want := strings.Join(all[max(0, len(all)-n):], "\n")
		if diff := cmp.Diff(want, tail.String()); diff != "" {
			t.Fatalf("tail (-want +got):\n%s", diff)
		}
	})
}

func TestTailBoundsALine(t *testing.T) {
	tail := proc.NewTail(2)
	for _, part := range append(slices.Repeat([]string{strings.Repeat("x", 1000)}, 1000), "end") {
		if _, err := io.WriteString(tail, part); err != nil {
			t.Fatal(err)
		}
	}
	if got := tail.String(); len(got) > 4096 || !strings.HasSuffix(got, "xend") {
		t.Errorf("kept %d bytes ending in %q", len(got), got[max(0, len(got)-10):])
	}
}

func TestTailExplains(t *testing.T) {
	for said, want := range map[string]string{
		"":           "",
		"  \n---\n":  "",
		"no model\n": ": no model",
		"Traceback:\n  File x\nValueError: bad shape\n\n====\n": ": ValueError: bad shape\nTraceback:\n  File x\nValueError: bad shape\n\n====",
		"10%\r50%\rout of disk\r\n":                             ": out of disk\n10%\r50%\rout of disk\r",
		strings.Repeat("é", 300):                                ": " + strings.Repeat("é", 199) + "…\n" + strings.Repeat("é", 300),
	} {
		tail := proc.NewTail(9)
		if _, err := io.WriteString(tail, said); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, tail.Explain()); diff != "" {
			t.Errorf("%q (-want +got):\n%s", said, diff)
		}
	}
}
