package transform

import (
	"testing"

	"github.com/sluiceml/sluice/dsl/transform"
)

// TestParity: the transforms of rows here and in the language are the same. What reads, writes, divides, gathers or compares rows is part of the
// plan of a cleaning.
func TestParity(t *testing.T) {
	for _, typ := range transform.Types() {
		planned := transform.IsReader(typ) || transform.IsWriter(typ) || transform.Is[transform.Flatten](typ) || transform.Is[transform.Split](typ) ||
			transform.Is[transform.Combine](typ) || transform.Is[transform.Deduplicate](typ)
		if _, done := compilers[typ]; done == planned {
			t.Errorf("%s: compiled as a transform of rows: %v; part of the plan: %v", typ, done, planned)
		}
	}
	for typ := range compilers {
		if transform.Config(typ) == nil {
			t.Errorf("the language has no %s", typ)
		}
	}
}
