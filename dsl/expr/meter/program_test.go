package meter

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
	"github.com/google/cel-go/interpreter"
)

// plenty is a limit that no evaluation here reaches.
const plenty = 100_000_000

// What an evaluation costs grows as the list does, with all that is done for an element; over the limit it ends.
func TestMeteredOperations(t *testing.T) {
	for expr, perElement := range map[string]uint64{
		`row.list.all(x, x >= 0)`:                       6,
		`row.list.exists(x, x == row.absent)`:           10, // what fails for an element ends nothing
		`row.list.all(x, row.text.matches("a$"))`:       209,
		`row.list.all(x, !(row.text in ["b", "c"]))`:    110,
		`row.list.all(x, row.text.split("")[0] == "a")`: 111,
	} {
		small, large := costOf(t, expr, 200, plenty), costOf(t, expr, 2000, plenty)
		if got := (large - small) / 1800; got != perElement || small > 201*perElement {
			t.Errorf("%s takes %d for 200 and %d for 2000: %d for each, want %d", expr, small, large, got, perElement)
		}
		if within := costOf(t, expr, 2000, large-1); within != 0 {
			t.Errorf("%s takes %d where it may not take as much", expr, within)
		}
	}
}

// costOf is what an expression takes over a row whose list has n elements, or 0 when that is over the limit.
func costOf(t *testing.T, expr string, n int, limit uint64) uint64 {
	t.Helper()
	library, matches := Matching(limit)
	env, err := cel.NewCustomEnv(cel.StdLib(cel.StdLibSubset(library)), matches, ext.Strings(), cel.Variable("row", cel.MapType(cel.StringType, cel.DynType)))
	if err != nil {
		t.Fatal(err)
	}
	functions, err := New(env, limit)
	if err != nil {
		t.Fatal(err)
	}
	checked, issues := functions.Compile(expr)
	if issues.Err() != nil {
		t.Fatal(issues.Err())
	}
	p, err := functions.Plan(functions.Env, checked, interpreter.Optimize())
	if err != nil {
		t.Fatal(err)
	}
	list := make([]any, n)
	for i := range list {
		list[i] = int64(1)
	}
	vars, err := cel.NewActivation(map[string]any{"row": map[string]any{"list": list, "text": strings.Repeat("a", 1000)}})
	if err != nil {
		t.Fatal(err)
	}
	_, seen, err := p.Eval(vars)
	if errors.Is(err, ErrCost) {
		return 0
	}
	return seen.spent
}
