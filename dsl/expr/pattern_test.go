package expr

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/dsl/expr/meter"
	"github.com/sluiceml/sluice/dsl/spec"
)

// A pattern over a text ends before it is looked for when all of its instructions at each byte would be too much, whether it stands in
// the expression or in the row, and whether the expression is watched or not. In full, each of these would take minutes.
func TestPatternCost(t *testing.T) {
	row := map[string]any{"t": strings.Repeat("a", 2<<20) + "b", "p": `(a{1,100}){1,10}$`, "list": []any{"x"}}
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
		if v, err := p.Eval(row); !errors.Is(err, meter.ErrCost) {
			t.Errorf("%s: got %v, %v", expr, v, err)
		}
	}
}

// A pattern of the row is looked for in the largest of rows.
func TestPatternOfRow(t *testing.T) {
	text := strings.Repeat("some words\n", 16<<20/11)
	p, err := CompileRow(`row.text.matches(row.word)`, nil)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := p.Eval(map[string]any{"text": text, "word": `(?i)absent|missing`}); err != nil || v != false {
		t.Errorf("got %v, %v", v, err)
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
