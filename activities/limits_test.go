package activities

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/dsl/spec"
)

// TestLimitsAdmitInOrder: a step for which there is no room waits, is not overtaken by a smaller one, and says what it waits for.
func TestLimitsAdmitInOrder(t *testing.T) {
	t.Parallel()
	limits := spec.WorkerLimits{Steps: 3, CPU: 4, Memory: 8 << 30, GPU: 2}
	for _, test := range []struct {
		name                  string
		running, large, small share
		waits                 string
	}{
		{"steps", share{steps: 3}, share{steps: 1}, share{steps: 1}, "steps: 3"},
		{"cores", share{steps: 1, cpu: 3}, share{steps: 1, cpu: 2}, share{steps: 1, cpu: 1}, "cpu: 4"},
		{"memory", share{steps: 1, memory: 6 << 30}, share{steps: 1, memory: 4 << 30}, share{steps: 1}, "memory: 8GiB"},
		{"GPUs", share{steps: 1, gpu: 1}, share{steps: 1, gpu: 2}, share{steps: 1, gpu: 1}, "gpu: 2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := new(Limits)
			running, large, small := l.join(test.running, limits), l.join(test.large, limits), l.join(test.small, limits)
			if len(l.queue) != 2 || l.queue[0] != large {
				t.Fatalf("%d steps wait, want the large one and the small one", len(l.queue))
			}
			if says := l.waiting(large); !strings.Contains(says, "{"+test.waits+"}") {
				t.Errorf("it says %q, want that it waits for %s", says, test.waits)
			}
			l.leave(test.running, <-running.admitted)
			l.leave(test.large, <-large.admitted)
			<-small.admitted
		})
	}
}

// TestLimitsOfOneStep: a step alone is admitted though it takes more than a limit, one that is canceled gives up its place, and GPUs are
// assigned to one step at a time.
func TestLimitsOfOneStep(t *testing.T) {
	t.Parallel()
	l := new(Limits)
	half, core := spec.WorkerLimits{CPU: 0.5}, share{steps: 1, cpu: 1}
	first := l.join(core, half)
	canceled, cancel := context.WithCancel(t.Context())
	second := l.join(core, half)
	third := l.join(core, spec.WorkerLimits{Steps: 2})
	cancel()
	if _, err := l.await(canceled, second); err == nil {
		t.Error("a step that was canceled was admitted")
	}
	for _, w := range []*waiter{first, third} {
		gpus, err := l.await(t.Context(), w)
		if err != nil {
			t.Error(err)
		}
		l.leave(core, gpus)
	}

	gpus := spec.WorkerLimits{GPU: 3}
	two, one := <-l.join(share{steps: 1, gpu: 2}, gpus).admitted, <-l.join(share{steps: 1, gpu: 1}, gpus).admitted
	if diff := cmp.Diff([]int{0, 1, 2}, append(slices.Clone(two), one...)); diff != "" {
		t.Errorf("GPUs (-want +got):\n%s", diff)
	}
	l.leave(share{steps: 1, gpu: 2}, two)
	if again := <-l.join(share{steps: 1, gpu: 2}, gpus).admitted; !slices.Equal(again, two) {
		t.Errorf("GPUs that were given back: %v, want %v", again, two)
	}
}

// TestLimitsHold: whatever comes and goes, no limit is exceeded but by a step alone, everything is admitted in the end, and nothing is left.
func TestLimitsHold(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limits := spec.WorkerLimits{
			Steps: rapid.IntRange(0, 3).Draw(t, "steps"), CPU: float64(rapid.IntRange(0, 4).Draw(t, "cpu")),
			Memory: spec.Size(rapid.IntRange(0, 4).Draw(t, "memory")), GPU: rapid.IntRange(0, 3).Draw(t, "gpu"),
		}
		l := new(Limits)
		var all sync.WaitGroup
		for range rapid.IntRange(1, 12).Draw(t, "count") {
			needs := share{
				steps: 1, cpu: float64(rapid.IntRange(0, 4).Draw(t, "needs cpu")), memory: int64(rapid.IntRange(0, 4).Draw(t, "needs memory")),
				gpu: rapid.IntRange(0, 3).Draw(t, "needs gpu"),
			}
			all.Go(func() {
				gpus, err := l.await(context.Background(), l.join(needs, limits))
				if err != nil {
					t.Error(err)
				}
				l.mu.Lock()
				used, assigned := l.used, len(l.gpus)
				l.mu.Unlock()
				over := limits.Steps > 0 && used.steps > limits.Steps || limits.CPU > 0 && used.cpu > limits.CPU ||
					limits.Memory > 0 && used.memory > int64(limits.Memory) || limits.GPU > 0 && used.gpu > limits.GPU
				if over && used.steps > 1 {
					t.Errorf("%+v run within %+v", used, limits)
				}
				if limits.GPU > 0 && assigned != min(used.gpu, limits.GPU) {
					t.Errorf("%d GPUs are assigned, and %d in use", assigned, used.gpu)
				}
				l.leave(needs, gpus)
			})
		}
		all.Wait()
		if l.used != (share{}) || len(l.queue) > 0 || len(l.gpus) > 0 {
			t.Errorf("left: %+v, %d waiting, GPUs %v", l.used, len(l.queue), l.gpus)
		}
	})
}
