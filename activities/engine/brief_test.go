package engine

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/dsl/spec"
)

// What a gate saw is one line that people read: of instances how many there are, of anything long its beginning.
func TestValuesAreBrief(t *testing.T) {
	for name, tt := range map[string]struct {
		value any
		want  string
	}{
		"a number":    {0.12345678, "x = 0.123457"},
		"a count":     {float64(1392), "x = 1,392"},
		"in between":  {312467.3, "x = 312,467.3"},
		"just missed": {1234.6, "x = 1234.6"},
		"a text":      {"eu", "x = eu"},
		"a list":      {[]any{1.0, "a"}, `x = [1,"a"]`},
		"a mapping":   {map[string]any{"b": 1.0, "a": []any{}}, `x = {"a":[],"b":1}`},
		"instances":   {[]any{map[string]any{"f1": 1.0}, map[string]any{"f1": 2.0}}, "x = a list of 2"},
		"long":        {[]any{strings.Repeat("ä", 100)}, `x = ["` + strings.Repeat("ä", 57) + "…"},
	} {
		if got := values(spec.Check{Values: map[string]any{"x": tt.value}}); !slices.Equal(got, []string{tt.want}) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// Several conditions of a gate read the same values, which are said once.
func TestSummaryNamesAValueOnce(t *testing.T) {
	got := summary([]spec.Check{
		{Values: map[string]any{"f1": 0.98, "params.min_f1": 0.95}}, {Values: map[string]any{"f1": 0.98, "accuracy": 0.99}}, {},
	})
	if want := "f1 = 0.98, params.min_f1 = 0.95, accuracy = 0.99"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
