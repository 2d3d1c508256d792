package expr

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
)

func TestRow(t *testing.T) {
	row := map[string]any{"text": "Hi", "n": 3.0, "none": nil, "tags": []any{"a", "b"}, "source": map[string]any{"folder": "spam-1"}}
	tests := []struct {
		expr spec.Expr
		want any
		bad  bool
	}{
		{`row.source.folder.startsWith("spam")`, true, false},
		{`row.text + "!"`, "Hi!", false},
		{`row.n * 2.0`, 6.0, false},
		{`row.n == 3`, true, false},
		{`size(row.text) == 2.0`, true, false},
		{`row.tags.map(t, t + t)`, []any{"aa", "bb"}, false},
		{`row.none`, nil, false},
		{`{"n": row.n > params.min}`, map[string]any{"n": true}, false},
		{`row.?missing.orValue("x")`, "x", false},
		{`row.missing == "x"`, nil, true},
		{`row.n + "x"`, nil, true},
		{`1.0 / 0.0`, math.Inf(1), false},
	}
	for _, tt := range tests {
		t.Run(string(tt.expr), func(t *testing.T) {
			p, err := CompileRow(tt.expr, map[string]any{"min": 2})
			if err != nil {
				t.Fatal(err)
			}
			got, err := p.Eval(row)
			if diff := cmp.Diff(tt.want, got); diff != "" || (err != nil) != tt.bad {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
	if _, err := CompileRow("row.x +", nil); err == nil {
		t.Error("half an expression compiled")
	}
}

// The objects of a row come in the order of their keys: the same rows make the same dataset.
func TestObjectsAreInOrder(t *testing.T) {
	row := map[string]any{"counts": map[string]any{"e": "5", "a": "1", "d": "4", "b": "2", "c": "3"}}
	row["list"] = []any{row["counts"]}
	for _, expr := range []spec.Expr{`row.counts.map(k, row.counts[k]).join()`, `row.list[0].map(k, row.list[0][k]).join()`, `row.list.map(m, m.map(k, m[k]).join())[0]`} {
		p, err := CompileRow(expr, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			if got, err := p.Eval(row); err != nil || got != "12345" {
				t.Fatalf("%s: got %v, %v", expr, got, err)
			}
		}
	}
}

// TestRowParams: a parameter that travelled as JSON has the type it had when its expression was checked.
func TestRowParams(t *testing.T) {
	text := `{"n": {"type": "int", "value": 4}, "ns": {"type": "int", "value": 1770000000000000001}, "window": {"type": "duration", "value": "90m"},
		"sizes": {"type": "list", "items": "int", "value": [1, 2]}, "since": {"type": "timestamp", "value": "2026-01-31T12:00:00Z"}, "other": {"type": "string"}}`
	var given map[string]spec.RowParam
	if err := json.Unmarshal([]byte(text), &given); err != nil {
		t.Fatal(err)
	}
	params, err := RowParams(given)
	if err != nil {
		t.Fatal(err)
	}
	for expr, want := range map[spec.Expr]any{
		`params.n + 1`: int64(5), `params.window > duration("1h")`: true, `params.sizes[1] * 3`: int64(6), `params.since.getFullYear()`: int64(2026),
		`params.ns - 1770000000000000000`: int64(1), `params.?other.orValue("none")`: "none",
	} {
		p, err := CompileRow(expr, params)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := p.Eval(map[string]any{}); err != nil || got != want {
			t.Errorf("%s: %v, %v", expr, got, err)
		}
	}
	if _, err := RowParams(map[string]spec.RowParam{"x": {Type: "integer", Value: json.RawMessage("1")}}); err == nil {
		t.Error("a parameter of an unknown type is taken")
	}
}

func BenchmarkRow(b *testing.B) {
	tags := make([]any, 50)
	for i := range tags {
		tags[i] = fmt.Sprint("tag", i)
	}
	row := map[string]any{"text": strings.Repeat("some words ", 100), "n": 3.0, "tags": tags}
	for name, expr := range map[string]spec.Expr{
		"compare": `row.n > 2 && row.text.size() > 100`, "replace": `row.text.replace("words", "w")`, "exists": `row.tags.exists(t, t == "tag49")`,
		"matches": `row.tags.filter(t, t.matches("^tag[0-4]$") || t in ["tag7", "tag8"]).size()`, "split": `row.text.split(" ").map(w, w.upperAscii()).join(" ")`,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			p, err := CompileRow(expr, nil)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := p.Eval(row); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
