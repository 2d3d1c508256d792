package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/dsl/spec"
)

// compileStory puts the variants of a model side by side.
type compileStory struct {
	Variants   []variant
	HasEngines bool
}

type variant struct {
	Name     string
	Source   bool
	Selected bool
	spec.VariantOutput
	// Bars relative to the largest of all variants, in percent.
	P50, P99, Rows, Size float64
}

func (s *section) tellCompile(Data) bool {
	s.Compile = newCompileStory(decode[spec.CompileOutput](s.Outputs))
	return true
}

func newCompileStory(out spec.CompileOutput) *compileStory {
	all := []variant{{Name: "source", Source: true, VariantOutput: out.Source}}
	for _, name := range slices.Sorted(maps.Keys(out.Variants)) {
		all = append(all, variant{Name: name, Selected: name == out.Selected.Name, VariantOutput: out.Variants[name]})
	}
	var p99, rows, size float64
	for _, v := range all {
		p99 = max(p99, v.Latency.P99MS, v.Latency.P50MS)
		rows, size = max(rows, v.Throughput), max(size, float64(v.Bytes))
	}
	for i := range all {
		v := &all[i]
		v.P50, v.P99 = percentOf(v.Latency.P50MS, p99), percentOf(v.Latency.P99MS, p99)
		v.Rows, v.Size = percentOf(v.Throughput, rows), percentOf(float64(v.Bytes), size)
	}
	return &compileStory{Variants: all, HasEngines: slices.ContainsFunc(all, func(v variant) bool { return v.TensorRT != nil })}
}

func percentOf(v, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return 100 * v / whole
}

// layers says how many layers of an engine put out what: "12 FP16, 3 FP32".
func layers(counts map[string]int) string {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%d %s", counts[name], name)
	}
	return strings.Join(names, ", ")
}
