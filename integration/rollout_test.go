package integration

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/sluiceml/sluice/connect/state"
)

// TestStatelessWorkersRollOut: where a target's gateways are replicas of `sluice serve`, workers that keep nothing in their processes roll
// out, the first release as all later ones.
//
// promise: docs/operations.md#p-rollout-anywhere
func TestStatelessWorkersRollOut(t *testing.T) {
	t.Parallel()
	s := newRelease(t)
	s.edit("environment.yaml", fmt.Sprintf("{port: %d}", s.port), fmt.Sprintf("{port: %d, url: 'http://127.0.0.1:%[1]d/'}", s.port))
	s.edit("pipeline.yaml", "{weight: 100%}", "{weight: 50%, min_samples: 3}, {weight: 100%, min_samples: 3}")
	s.env = append(s.env, state.StoreVariable+"=file://"+filepath.Join(s.state, "store"))
	s.serve()
	for _, name := range []string{"one", "two"} {
		s.start("worker", "--stateless", "--state", filepath.Join(s.dir, name)).awaits("Ctrl-C stops")
	}
	s.start("serve", "-e", "environment.yaml", "--state", filepath.Join(s.dir, "gateway")).awaits("words at ")
	for _, version := range []string{"1", "2"} {
		run := s.run()
		run.await("the end", func() bool {
			_, _ = s.infer()
			select {
			case <-run.done:
				return true
			default:
				return false
			}
		})
		run.expect(0)
		if got, err := s.infer(); err != nil || got != version {
			t.Errorf("version %s answers (%v), want %s", got, err, version)
		}
	}
}
