package gateway

import (
	"testing"

	"github.com/sluiceml/sluice/serving/oip"
)

func TestLabels(t *testing.T) {
	spam := []oip.Tensor{{Shape: []int64{1, 2}, Data: []float32{0.1, 0.9}}}
	for _, tc := range []struct {
		label any
		wrong bool
	}{{true, false}, {false, true}, {1.0, false}, {0.0, true}, {2.0, true}, {nil, false}} {
		e, err := expected(map[string]any{"label": tc.label})
		if err != nil || e.wrong(spam) != tc.wrong {
			t.Errorf("label %v: wrong %v, %v", tc.label, e.wrong(spam), err)
		}
	}
	for _, label := range []any{0.5, []any{true}, map[string]any{}} {
		if _, err := expected(map[string]any{"label": label}); err == nil {
			t.Errorf("label %v was taken", label)
		}
	}
}
