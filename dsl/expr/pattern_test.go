package expr

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"strings"
	"testing"

	"github.com/google/cel-go/common/types"

	"github.com/sluiceml/sluice/dsl/spec"
)

// hugePattern is short, and may take its two thousand instructions at each byte.
const hugePattern = `(a{1,100}){1,10}$`

// A pattern over a text ends before it is looked for when all of its instructions at each byte would be too much, whether it stands in
// the expression or in the row, and whether the expression is watched or not. In full, each of these would take minutes.
//
// promise: docs/operations.md#p-limit-cost
func TestPatternCost(t *testing.T) {
	row := map[string]any{"t": strings.Repeat("a", 2<<20) + "b", "p": hugePattern, "list": []any{"x"}}
	for _, expr := range []spec.Expr{
		`row.t.matches("(a{1,100}){1,10}$")`, `matches(row.t, "(a{1,100}){1,10}$")`, `row.t.matches(row.p)`, `matches(row.t, row.p)`,
		`row.list.exists(x, row.t.matches("(a{1,100}){1,10}$"))`, `row.list.exists(x, row.t.matches(row.p))`,
		`row.list.exists(x, x.matches(row.t))`, `row.list[0].matches(row.t)`, // no text may be so long a pattern
	} {
		p, err := CompileRow(expr, nil)
		if err != nil {
			t.Errorf("%s: %v", expr, err)
			continue
		}
		if v, err := p.Eval(row); !errors.Is(err, ErrCost) {
			t.Errorf("%s: got %v, %v", expr, v, err)
		}
	}
}

// What people write is looked for in the largest of rows.
func TestPatternsOverLargestRow(t *testing.T) {
	text := strings.Repeat("some words\n", 16<<20/11)
	for _, regex := range []string{
		"https?://[a-z0-9.]+/", `\b(lorem|ipsum|dolor|sit|amet|consectetur|adipiscing)\b`, "[0-9]{3}-[0-9]{4}", `[\w.+-]+@[\w-]+\.[\w.]+`,
		`(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`, `(\d{1,3}\.){3}\d{1,3}`,
	} {
		if cost := patternOf(regex).cost(types.String(text)); cost > maxRowCost {
			t.Errorf("%s takes %d", regex, cost)
		}
	}
	p, err := CompileRow(`row.text.matches(row.word)`, nil)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := p.Eval(map[string]any{"text": text, "word": `(?i)absent|missing`}); err != nil || v != false {
		t.Errorf("got %v, %v", v, err)
	}
}

// The operations of a match grow with the instructions of its pattern, however short that is, and with the text.
func TestPatternOperations(t *testing.T) {
	for text, want := range map[string]uint64{"a$": 206, "(a{1,10}){1,10}$": 11_216, hugePattern: 102_116} {
		if got := costOf(t, spec.Expr(fmt.Sprintf("row.text.matches(%q) || row.list.all(x, true)", text)), 0, maxRowCost); got != want {
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

// What is wrong with a constant pattern is said when the expression is compiled; with one of a row, when it is looked for.
func TestPatternErrors(t *testing.T) {
	for text, want := range map[string]string{
		"(": "missing closing )", strings.Repeat("[ab]{1000}", 12): "of 12002 instructions is too large: the maximum is 10000",
		strings.Repeat("é", 6000): "of 12000 bytes is too large",
	} {
		for _, form := range []string{"row.t.matches(%q)", "row.t.split('').exists(x, x.matches(%q))"} {
			if _, err := CompileRow(spec.Expr(fmt.Sprintf(form, text)), nil); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf(form+": got %v", text, err)
			}
		}
	}
	p, err := CompileRow(`row.t.matches(row.p)`, nil)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := p.Eval(map[string]any{"t": "a", "p": "("}); err == nil || !strings.Contains(err.Error(), "missing closing )") {
		t.Errorf("got %v, %v", v, err)
	}
	if v, err := p.Eval(map[string]any{"t": "abc", "p": "b."}); err != nil || v != true {
		t.Errorf("got %v, %v", v, err)
	}
	if v, err := p.Eval(map[string]any{"t": int64(1), "p": "b"}); err == nil {
		t.Errorf("a number matches: %v", v)
	}
}

// BenchmarkPattern is what an instruction of a pattern takes at a byte, where all of them are tried.
func BenchmarkPattern(b *testing.B) {
	text := types.String(strings.Repeat("a", 1<<14))
	for _, regex := range []string{"a$", "(a*)*b$", "(a|b|c|d|e|f|g|h){10}$", "(a{1,10}){1,10}$", hugePattern} {
		b.Run(regex, func(b *testing.B) {
			p := patternOf(regex)
			for b.Loop() {
				p.match(text, maxRowCost)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(p.size*uint64(len(text))), "ns/instruction")
		})
	}
}
