package meter

import (
	"fmt"
	"regexp/syntax"
	"strings"
	"testing"

	"github.com/google/cel-go/common/types"
)

// hugePattern is short, and may take its two thousand instructions at each byte.
const hugePattern = `(a{1,100}){1,10}$`

// What people write is looked for in the largest of rows.
func TestPatternsOverLargestRow(t *testing.T) {
	text := strings.Repeat("some words\n", 16<<20/11)
	for _, regex := range []string{
		"https?://[a-z0-9.]+/", `\b(lorem|ipsum|dolor|sit|amet|consectetur|adipiscing)\b`, "[0-9]{3}-[0-9]{4}", `[\w.+-]+@[\w-]+\.[\w.]+`,
		`(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`, `(\d{1,3}\.){3}\d{1,3}`,
	} {
		if cost := patternOf(regex).cost(types.String(text)); cost > plenty {
			t.Errorf("%s takes %d", regex, cost)
		}
	}
}

// The operations of a match grow with the instructions of its pattern, however short that is, and with the text.
func TestPatternOperations(t *testing.T) {
	for text, want := range map[string]uint64{"a$": 206, "(a{1,10}){1,10}$": 11_216, hugePattern: 102_116} {
		if got := costOf(t, fmt.Sprintf("row.text.matches(%q) || row.list.all(x, true)", text), 0, plenty); got != want {
			t.Errorf("%s takes %d over 1000 bytes, want %d", text, got, want)
		}
	}
}

// No pattern has more instructions than are counted without compiling it, and few less.
func TestPatternInstructions(t *testing.T) {
	for _, text := range []string{
		"", "a", "a$", "abc|abd|x", "(a|b|c)*", "(a*)*b", "a+?b??", "[a-z]{3,7}", "(?:ab){2,}", "(?:ab){0,}", "x{0}", "(?i)straße", "()", `\bword\b`, "(a{1,10}){1,10}$", hugePattern,
		`(?s).*(.+)?\pL`, "[^\x00-\\x{10FFFF}]", "((a?){3}){2,}",
	} {
		tree, err := syntax.Parse(text, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		counted := instructions(tree) + 2
		program, err := syntax.Compile(tree.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		if n := uint64(len(program.Inst)); counted < n || counted > 2*n+4 {
			t.Errorf("%q is counted as %d instructions, and has %d", text, counted, n)
		}
	}
}

// BenchmarkPattern is what an instruction of a pattern takes at a byte, where all of them are tried.
func BenchmarkPattern(b *testing.B) {
	text := types.String(strings.Repeat("a", 1<<14))
	for _, regex := range []string{"a$", "(a*)*b$", "(a|b|c|d|e|f|g|h){10}$", "(a{1,10}){1,10}$", hugePattern} {
		b.Run(regex, func(b *testing.B) {
			p := patternOf(regex)
			for b.Loop() {
				p.match(text, plenty)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(p.size*uint64(len(text))), "ns/instruction")
		})
	}
}
