package gang

import (
	"slices"
	"testing"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
)

// TestFruitful: generations that come no further than those before them end the training, also if they go back in between.
func TestFruitful(t *testing.T) {
	lost := func(from int64) spec.Generation { return spec.Generation{FromStep: from, End: spec.EndNodeLost} }
	noticed := func(from int64) spec.Generation { return spec.Generation{FromStep: from, End: spec.EndNotice} }
	damaged := spec.Generation{FromStep: 20, End: spec.EndDamaged}
	for name, tt := range map[string]struct {
		ended []spec.Generation
		from  int64
		ok    bool
	}{
		"first":                     {nil, 0, true},
		"9 lost":                    {slices.Repeat([]spec.Generation{lost(0)}, 9), 0, true},
		"10 lost":                   {slices.Repeat([]spec.Generation{lost(0)}, 10), 0, false},
		"10 lost, and one came far": {slices.Repeat([]spec.Generation{lost(0)}, 10), 20, true},
		"back and forth":            {slices.Repeat([]spec.Generation{lost(10), damaged}, 6), 10, false},
		"a crash in between":        {append(slices.Repeat([]spec.Generation{lost(0)}, 9), spec.Generation{End: spec.EndCrashed}, lost(0)), 0, false},
		"29 noticed":                {slices.Repeat([]spec.Generation{noticed(0)}, 29), 0, true},
		"30 noticed":                {slices.Repeat([]spec.Generation{noticed(0)}, 30), 0, false},
		"mixed":                     {slices.Repeat([]spec.Generation{noticed(0), noticed(0), lost(0)}, 9), 0, true},
	} {
		tr := &train{current: spec.Generation{FromStep: tt.from}}
		tr.carried.Generations = tt.ended
		if err := tr.fruitful(); (err == nil) != tt.ok || err != nil && fault.TypeOf(err) != fault.Preempted {
			t.Errorf("%s: %v", name, err)
		}
	}
}
