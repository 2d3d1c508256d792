package expr

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/dsl/spec"
)

// A hostile row ends the evaluation over it before a call is made that would take minutes, or all memory.
//
// promise: docs/operations.md#p-limit-cost
func TestRowCost(t *testing.T) {
	word := strings.Repeat("a", 1<<20)
	list := func(n int, v any) []any {
		all := make([]any, n)
		for i := range all {
			all[i] = v
		}
		return all
	}
	const limit = 100_000
	env, err := envWithin(limit)
	if err != nil {
		t.Fatal(err)
	}
	row := map[string]any{"text": word, "other": word, "one": "a", "list": list(5000, "x"), "lists": list(5000, list(5000, "x")), "words": list(200, word)}
	for _, expr := range []spec.Expr{
		`row.text.replace(row.one, row.other)`, `row.text.indexOf(row.other + "b")`, `row.words.join()`,
		`row.lists.flatten().size()`, `row.lists.distinct()`, `sets.contains(row.lists, row.list)`, `row.words.sort()`,
		`row.list.map(x, row.text.upperAscii().size())`, `row.list.map(x, row.list).map(x, x).distinct()`, `row.list.exists(x, row.text.charAt(2) == "b")`,
		`row.list.map(x, row.list.sortBy(y, y))`, `row.list.all(x, row.list.all(y, row.list.all(z, x == z)))`, `row.list.map(x, row.text) == row.list.map(x, row.other)`,
		`false || row.lists.distinct().size() > 1 || true`, // nothing absorbs it
	} {
		p, err := compileRow(env, expr, nil)
		if err != nil {
			t.Errorf("%s: %v", expr, err)
			continue
		}
		if v, err := p.Eval(row); !errors.Is(err, ErrCost) {
			t.Errorf("%s: got %.40v, %v", expr, v, err)
		}
	}
}

// Lists that hold the same list many times over are not compared, which would take hours for elements that nobody made.
func TestComparisonCost(t *testing.T) {
	env, err := envWithin(100_000)
	if err != nil {
		t.Fatal(err)
	}
	list := make([]any, 1000)
	for i := range list {
		list[i] = "x"
	}
	for expr, want := range map[spec.Expr]any{
		`[row.list.map(x, row.list)].exists(m, m.map(r, m) == m.map(r, m))`:                   nil,
		`[row.list.map(x, row.list)].exists(m, m.map(r, m) != m.map(r, m))`:                   nil,
		`[row.list.map(x, row.list)].exists(m, m.map(r, m) in [m.map(r, m)])`:                 nil,
		spec.Expr(`[row.list]` + strings.Repeat(`.map(l, l + l)`, 20) + `.exists(l, 1 in l)`): nil,
		`row.list.all(x, x in ["x", "y"]) && row.list.map(x, x) == row.list`:                  true,
		`row.list.exists(x, x != "x") || row.list in [row.list.map(x, "y")]`:                  false,
		`[1].all(x, "list" in row && !("other" in row))`:                                      true,
	} {
		p, err := compileRow(env, expr, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := p.Eval(map[string]any{"list": list}); got != want || errors.Is(err, ErrCost) != (want == nil) {
			t.Errorf("%s: got %v, %v", expr, got, err)
		}
	}
}

// What takes an element once has room for a row of megabytes.
func TestDistinctWords(t *testing.T) {
	words := make([]string, 400_000)
	for i := range words {
		words[i] = string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676%26)) + string(rune('a'+i/17576))
	}
	p, err := CompileRow(`row.text.split(" ").distinct().size()`, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := p.Eval(map[string]any{"text": strings.Join(words, " ")}); err != nil || n != int64(len(words)) {
		t.Errorf("got %v, %v", n, err)
	}
}

// The functions of lists say what those of CEL's own library say, which compare all with all.
func TestListFunctions(t *testing.T) {
	values := rapid.SampledFrom([]string{"1", "1u", "1.0", "2", "1.5", "true", "'a'", "b'a'", "null", "[1]", "[1.0]", "[[1], 'a']", "{'a': 1, 'b': 2}", "{'b': 2u, 'a': 1.0}", "duration('1s')", "timestamp(0)", "0.0/0.0", "[0.0/0.0]", "optional.of(1)"})
	lists := rapid.Custom(func(rt *rapid.T) string {
		return "[" + strings.Join(rapid.SliceOfN(rapid.Map(values, func(s string) string { return "dyn(" + s + ")" }), 0, 6).Draw(rt, "list"), ", ") + "]"
	})
	env, err := rowEnv()
	if err != nil {
		t.Fatal(err)
	}
	equal := func(a, b ref.Val) bool { return a.Equal(b) == types.True }
	eval := func(rt *rapid.T, text string) ref.Val {
		checked, issues := env.Compile(text)
		if issues.Err() != nil {
			rt.Fatalf("%s: %v", text, issues.Err())
		}
		program, err := env.Program(checked)
		if err != nil {
			rt.Fatal(err)
		}
		v, _, err := program.Eval(cel.NoVars())
		if err != nil {
			rt.Fatalf("%s: %v", text, err)
		}
		return v
	}
	rapid.Check(t, func(rt *rapid.T) {
		a, b := lists.Draw(rt, "a"), lists.Draw(rt, "b")
		all, others := elements(eval(rt, a)), elements(eval(rt, b))
		has := func(list []ref.Val, v ref.Val) bool {
			for _, x := range list {
				if equal(x, v) {
					return true
				}
			}
			return false
		}
		var want []ref.Val
		contains, intersects := true, false
		for _, v := range all {
			if !has(want, v) {
				want = append(want, v)
			}
			contains = contains && has(others, v)
			intersects = intersects || has(others, v)
		}
		if got := eval(rt, a+".distinct()").(traits.Lister); got.Size() != types.Int(len(want)) {
			rt.Fatalf("%s has %v distinct elements, want %d", a, got.Size(), len(want))
		}
		if got := eval(rt, "sets.contains("+b+", "+a+")"); got != types.Bool(contains) {
			rt.Fatalf("sets.contains(%s, %s) is %v", b, a, got)
		}
		if got := eval(rt, "sets.intersects("+b+", "+a+")"); got != types.Bool(intersects) {
			rt.Fatalf("sets.intersects(%s, %s) is %v", b, a, got)
		}
	})
}

func TestSort(t *testing.T) {
	for expr, want := range map[spec.Expr]string{
		"['b', 'a'].sort() == ['a', 'b']": "", "[3, 1, 2].sortBy(x, -x) == [3, 2, 1]": "", "['bb', 'a', 'aa'].sortBy(x, size(x)) == ['a', 'bb', 'aa']": "",
		"[dyn(1), dyn('a')].sort() == []": "same type", "[1, 2].reverse() == [2, 1]": "", "lists.range(3) == [0, 1, 2]": "", "lists.range(-1) == []": "size",
	} {
		p, err := CompileRow(expr, nil)
		if err != nil {
			t.Errorf("%s: %v", expr, err)
			continue
		}
		v, err := p.Eval(nil)
		if want == "" && (err != nil || v != true) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, %v", expr, v, err)
		}
	}
}
