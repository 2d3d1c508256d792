package expr

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/cel-go/interpreter"

	"github.com/sluiceml/sluice/dsl/spec"
)

// A comprehension takes time by the number of elements, so that a row of megabytes is nothing to wait for. By its square, each of these
// would take an hour.
func TestLongLists(t *testing.T) {
	const n = 200_000
	numbers, byName := make([]any, n), make(map[string]any, n)
	for i := range numbers {
		numbers[i], byName[fmt.Sprint(i)] = int64(i), int64(i)
	}
	row := map[string]any{"numbers": numbers, "by_name": byName, "text": strings.Repeat("ab ", n), "one": "x"}
	for expr, want := range map[spec.Expr]any{
		`row.numbers.all(x, x >= 0)`:                        true,
		`row.text.split(" ").exists(w, w == "x")`:           false,
		`row.by_name.exists(k, k == row.one)`:               false,
		`row.numbers.filter(x, x % 2 == 0).size()`:          int64(n / 2),
		`row.numbers.map(x, x > 5 ? x : 0).size()`:          int64(n),
		`row.numbers.exists_one(x, x == 7 || x == -1)`:      true,
		`row.text.split(" ").all(w, w in ["ab", "cd", ""])`: true,
	} {
		p, err := CompileRow(expr, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := p.Eval(row); err != nil || got != want {
			t.Errorf("%s: got %v, %v; want %v", expr, got, err, want)
		}
	}
}

// What an evaluation costs grows as the list does, with all that is done for an element; over the limit it ends.
func TestMeteredOperations(t *testing.T) {
	for expr, perElement := range map[spec.Expr]uint64{
		`row.list.all(x, x >= 0)`:                       6,
		`row.list.exists(x, x == row.absent)`:           10, // what fails for an element ends nothing
		`row.list.all(x, row.text.matches("a$"))`:       209,
		`row.list.all(x, !(row.text in ["b", "c"]))`:    110,
		`row.list.all(x, row.text.split("")[0] == "a")`: 111,
	} {
		small, large := costOf(t, expr, 200, maxRowCost), costOf(t, expr, 2000, maxRowCost)
		if got := (large - small) / 1800; got != perElement || small > 201*perElement {
			t.Errorf("%s takes %d for 200 and %d for 2000: %d for each, want %d", expr, small, large, got, perElement)
		}
		if within := costOf(t, expr, 2000, large-1); within != 0 {
			t.Errorf("%s takes %d where it may not take as much", expr, within)
		}
	}
}

// costOf is what an expression takes over a row whose list has n elements, or 0 when that is over the limit.
func costOf(t *testing.T, expr spec.Expr, n int, limit uint64) uint64 {
	t.Helper()
	base, err := envWithin(limit)
	if err != nil {
		t.Fatal(err)
	}
	env, err := Extend(base.Env, rowNames)
	if err != nil {
		t.Fatal(err)
	}
	checked, issues := env.Compile(string(expr))
	if issues.Err() != nil {
		t.Fatal(issues.Err())
	}
	p, err := base.meter(env, checked, interpreter.Optimize())
	if err != nil {
		t.Fatal(err)
	}
	list := make([]any, n)
	for i := range list {
		list[i] = int64(1)
	}
	_, seen, err := p.eval(rowVariables{row: map[string]any{"list": list, "text": strings.Repeat("a", 1000)}})
	if errors.Is(err, ErrCost) {
		return 0
	}
	return seen.spent
}

// A row of the largest size ends what walks through it for each of its elements, and nothing that walks through it once.
func TestLargestRow(t *testing.T) {
	row := map[string]any{"text": strings.Repeat("some words\n", 16<<20/11)}
	for expr, costs := range map[spec.Expr]bool{
		`row.text.size() > 1000 && row.text.contains("absent")`:                   false,
		`row.text.matches("^[a-z]+ [a-z]+")`:                                      false,
		`row.text.lowerAscii().replace("words", "word").trim() + row.text != "x"`: false,
		`row.text.split("\n").filter(l, l.size() > 3).size() > 2`:                 false,
		`row.text.split("\n").all(l, row.text.contains(l))`:                       true,
	} {
		p, err := CompileRow(expr, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Eval(row); costs != errors.Is(err, ErrCost) || !costs && err != nil {
			t.Errorf("%s: got %v", expr, err)
		}
	}
}

// A row ends what would take minutes for the objects in it; what looks at each field once it does not.
//
// promise: docs/operations.md#p-limit-cost
func TestLargeObjects(t *testing.T) {
	const n = 10_000
	env, err := envWithin(2_000_000)
	if err != nil {
		t.Fatal(err)
	}
	object, copied, numbers, names := make(map[string]any, n), make(map[string]any, n), make([]any, n), make([]any, n)
	for i := range n {
		name := fmt.Sprint("name ", i)
		object[name], copied[name], numbers[i], names[i] = int64(i), int64(i), int64(i), name
	}
	row := map[string]any{"o": object, "p": copied, "l": numbers, "names": names}
	for expr, want := range map[spec.Expr]any{
		`row.o.exists(k, row.o != row.p)`:                 nil,
		`row.l.exists(x, row.o.exists(k, true) && false)`: nil, // its fields are put in order each time
		`row.o.map(k, row.o).distinct().size() > 0`:       nil,
		`row.names.all(k, k in row.o)`:                    true,
		`row.o == row.p && row.o.all(k, row.p[k] >= 0)`:   true,
	} {
		p, err := compileRow(env, expr, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := p.Eval(row); got != want || errors.Is(err, ErrCost) != (want == nil) {
			t.Errorf("%s: got %v, %v", expr, got, err)
		}
	}
}

// A row ends what would take gigabytes for the lists that are made of it.
func TestListsThatAreMade(t *testing.T) {
	const n = 100_000
	row := map[string]any{"l": make([]any, n)}
	for expr, want := range map[spec.Expr]any{
		`row.l.map(x, row.l.map(y, [y])).size() > 0`:                            nil,
		`lists.range(1000000).map(x, lists.range(1000000)).size() > 0`:          nil,
		`row.l.map(x, row.l.reverse()).size() > 0`:                              nil,
		`row.l.map(x, "a,b".split(",")).map(x, x.size() + row.l.size()).size()`: int64(n),
	} {
		p, err := CompileRow(expr, nil)
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, err := p.Eval(row)
		runtime.ReadMemStats(&after)
		if got != want || errors.Is(err, ErrCost) != (want == nil) {
			t.Errorf("%s: got %v, %v", expr, got, err)
		}
		if made := (after.TotalAlloc - before.TotalAlloc) >> 20; made > 2000 {
			t.Errorf("%s: %d MiB were allocated", expr, made)
		}
	}
}
