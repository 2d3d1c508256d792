package embedded

import (
	"log/slog"
	"os"
	"testing"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/serving/onnx/onnxtest"
)

// TestThreads: a model has the threads that its target says, from the time that it is loaded.
func TestThreads(t *testing.T) {
	load := func(threads int) (grown int) {
		asked := target
		asked.Threads = threads
		before := threadsOf(t)
		model, err := load(t.Context(), asked, "", onnxtest.Folder(t, onnxtest.MLP), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		grown = threadsOf(t) - before
		if err := model.Close(); err != nil {
			t.Error(err)
		}
		return grown
	}
	load(1) // the library and Go's runtime have threads of their own, which stay
	const threads = 16
	if grown := load(1); grown >= threads/2 {
		t.Errorf("one thread: the process has %d more threads", grown)
	}
	if grown := load(threads); grown < threads-1 { // the one that asks computes, too
		t.Errorf("%d threads: the process has only %d more", threads, grown)
	}
}

// threadsOf is how many threads this process has.
func threadsOf(t *testing.T) int {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	return len(tasks)
}

// TestInstances: unless the target says how many inferences run at once, their threads are as many as there are processors.
func TestInstances(t *testing.T) {
	for _, tc := range []struct{ instances, threads, processors, want int }{
		{0, 0, 8, 8},
		{0, 1, 8, 8},
		{0, 4, 8, 2},
		{0, 16, 8, 1},
		{3, 4, 8, 3},
	} {
		asked := spec.EmbeddedTarget{Instances: tc.instances, Threads: tc.threads}
		if got := instances(asked, tc.processors); got != tc.want {
			t.Errorf("%+v: %d at once, want %d", tc, got, tc.want)
		}
	}
}
