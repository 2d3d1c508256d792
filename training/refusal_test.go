package training

import (
	"errors"
	"fmt"
	"testing"
)

// A kind is found through whatever wraps it, and a particular refusal is one of its kind.
func TestRefusalOf(t *testing.T) {
	answered := errors.New("HTTP 403")
	for name, tt := range map[string]struct {
		err  error
		want Refusal
	}{
		"none":              {nil, ""},
		"on the way":        {answered, ""},
		"wrapped":           {fmt.Errorf("buy a node: %w: %w", answered, ErrQuota), ErrQuota},
		"after nodes began": {FailedStart(fmt.Errorf("node 0: %w", ErrNotStarted), Gang{Nodes: []Node{{}}}), ErrNotStarted},
		"not cleaned up":    {errors.Join(fmt.Errorf("node 0: %w", ErrPermission), answered), ErrPermission},
		"queued":            {ErrQueued, ErrNoCapacity},
		"too large":         {fmt.Errorf("3 nodes: %w", ErrTooLarge), ErrInvalid},
		"no agent":          {ErrNoAgent, ErrInvalid},
	} {
		if got := RefusalOf(tt.err); got != tt.want {
			t.Errorf("%s: %v is %q, want %q", name, tt.err, got, tt.want)
		}
	}
}
