package expr

import (
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/dsl/spec"
)

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
