package transform

import (
	"maps"
	"slices"
	"testing"

	"github.com/sluiceml/sluice/dsl/transform"
)

// TestParity: the transforms here and in the language are the same. What reads, writes, divides or gathers rows is part of the plan of a
// cleaning.
func TestParity(t *testing.T) {
	for _, typ := range transform.Types() {
		planned := transform.IsReader(typ) || transform.IsWriter(typ) || transform.Is[transform.Flatten](typ) || transform.Is[transform.Split](typ)
		if _, done := compilers[typ]; (done || IsCut(typ)) == planned {
			t.Errorf("%s: compiled as a transform: %v; part of the plan: %v", typ, !planned, planned)
		}
	}
	for _, typ := range slices.Concat(slices.Collect(maps.Keys(compilers)), slices.Collect(maps.Keys(cuts))) {
		if transform.Config(typ) == nil {
			t.Errorf("the language has no %s", typ)
		}
	}
}
