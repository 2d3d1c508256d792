package expr

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/dsl/expr/meter"
	"github.com/sluiceml/sluice/dsl/spec"
)

// A hostile row ends the evaluation over it before a call is made that would take minutes, or all memory.
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
	env, err := envWithin(limit, false)
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
		if v, err := p.Eval(row); !errors.Is(err, meter.ErrCost) {
			t.Errorf("%s: got %.40v, %v", expr, v, err)
		}
	}
}

// Lists that hold the same list many times over are not compared, which would take hours for elements that nobody made.
func TestComparisonCost(t *testing.T) {
	env, err := envWithin(100_000, false)
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
		if got, err := p.Eval(map[string]any{"list": list}); got != want || errors.Is(err, meter.ErrCost) != (want == nil) {
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
		if _, err := p.Eval(row); costs != errors.Is(err, meter.ErrCost) || !costs && err != nil {
			t.Errorf("%s: got %v", expr, err)
		}
	}
}

// A row ends what would take minutes for the objects in it; what looks at each field once it does not.
func TestLargeObjects(t *testing.T) {
	const n = 10_000
	env, err := envWithin(2_000_000, false)
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
		if got, err := p.Eval(row); got != want || errors.Is(err, meter.ErrCost) != (want == nil) {
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
		if got != want || errors.Is(err, meter.ErrCost) != (want == nil) {
			t.Errorf("%s: got %v, %v", expr, got, err)
		}
		if made := (after.TotalAlloc - before.TotalAlloc) >> 20; made > 2000 {
			t.Errorf("%s: %d MiB were allocated", expr, made)
		}
	}
}
