package runner_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/sluiceml/sluice/pipelines/runner"
)

func TestMain(m *testing.M) {
	register.DoFn2x0[string, func(string, int)](&splitFn{})
	register.DoFn3x0[string, func(*int) bool, func(string, int)](&sumFn{})
	register.DoFn4x1[context.Context, string, func(*int) bool, func(string, int), error](&callFn{})
	register.DoFn2x1[context.Context, string, error](&countFn{})
	register.Function3x0(gather)
	register.Function2x0(first)
	register.Emitter2[string, int]()
	register.Emitter1[string]()
	register.Iter1[int]()
	beam.Init()
	goleak.VerifyTestMain(m)
}

// splitFn makes key and value of a letter and a digit.
type splitFn struct{ Only string }

func (f *splitFn) ProcessElement(text string, emit func(string, int)) {
	if strings.HasPrefix(text, f.Only) {
		emit(text[:1], int(text[1]-'0'))
	}
}

// sumFn sums up the values of each key, and emits the sums when it has seen all.
type sumFn struct{ sums map[string]int }

func (f *sumFn) StartBundle(func(string, int)) { f.sums = map[string]int{} }

func (f *sumFn) ProcessElement(key string, values func(*int) bool, _ func(string, int)) {
	var v int
	for values(&v) {
		f.sums[key] += v
	}
}

func (f *sumFn) FinishBundle(emit func(string, int)) {
	for key, sum := range f.sums {
		emit(key, sum)
	}
}

// callFn calls one of calls, which a test sets, for each group.
type callFn struct{ Name string }

var calls map[string]func(ctx context.Context, key string, values []int) error

func (f *callFn) ProcessElement(ctx context.Context, key string, next func(*int) bool, emit func(string, int)) error {
	var values []int
	var v int
	for next(&v) {
		values = append(values, v)
	}
	slices.Sort(values)
	emit(key, len(values))
	return calls[f.Name](ctx, key, values)
}

func (f *callFn) StartBundle(func(string, int))  {}
func (f *callFn) FinishBundle(func(string, int)) {}

// countFn counts elements by what they are.
type countFn struct{}

func (countFn) ProcessElement(ctx context.Context, text string) error {
	beam.NewCounter("seen", text).Inc(ctx, 1)
	return nil
}

func first(text string, emit func(string)) { emit(text[:1]) }

func gather(_ []byte, _ func(*string) bool, _ func(string)) {}

// pairs are the pairs that a list of texts stands for.
func pairs(s beam.Scope, texts ...string) beam.PCollection {
	return beam.ParDo(s, &splitFn{}, beam.CreateList(s, texts))
}

// call has a function of the test's called with the groups of a collection.
func call(s beam.Scope, name string, in beam.PCollection) beam.PCollection {
	return beam.ParDo(s, &callFn{Name: name}, beam.GroupByKey(s, in))
}

// execute runs a graph, and fails when that takes too long.
func execute(ctx context.Context, t *testing.T, build func(s beam.Scope)) (beam.PipelineResult, error) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("the test takes too long"))
	defer cancel()
	p, s := beam.NewPipelineWithRoot()
	build(s)
	return runner.ExecuteInProcess(ctx, p)
}

// What several stages emit comes together by key, and goes on to all that take it.
func TestGroups(t *testing.T) {
	var mu sync.Mutex
	got := map[string][]int{}
	note := func(name string) func(context.Context, string, []int) error {
		return func(_ context.Context, key string, values []int) error {
			mu.Lock()
			defer mu.Unlock()
			got[name+"/"+key] = values
			return nil
		}
	}
	calls = map[string]func(context.Context, string, []int) error{"sums": note("sums"), "all": note("all"), "sizes": note("sizes")}
	_, err := execute(t.Context(), t, func(s beam.Scope) {
		a, b, none := pairs(s, "x1", "y2", "x3"), pairs(s, "y4", "z5"), pairs(s)
		sums := beam.ParDo(s, &sumFn{}, beam.GroupByKey(s, beam.Flatten(s, a, b, none)))
		call(s, "sums", beam.Flatten(s, sums, b))
		sizes := call(s, "all", beam.Flatten(s, a, a))
		call(s, "sizes", sizes)
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]int{
		"sums/x": {4}, "sums/y": {4, 6}, "sums/z": {5, 5},
		"all/x": {1, 1, 3, 3}, "all/y": {2, 2},
		"sizes/x": {4}, "sizes/y": {2},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
}

// Stages that wait for nothing run side by side: here each waits for the other.
func TestSideBySide(t *testing.T) {
	if n := runtime.GOMAXPROCS(0); n < 2 {
		runtime.GOMAXPROCS(2)
		t.Cleanup(func() { runtime.GOMAXPROCS(n) })
	}
	var here sync.WaitGroup
	here.Add(2)
	meet := func(ctx context.Context, _ string, _ []int) error {
		met := make(chan struct{})
		here.Done()
		go func() { here.Wait(); close(met) }()
		select {
		case <-met:
			return nil
		case <-ctx.Done():
			here.Add(-1) // so that nothing waits for ever
			return context.Cause(ctx)
		}
	}
	calls = map[string]func(context.Context, string, []int) error{"one": meet, "other": meet}
	_, err := execute(t.Context(), t, func(s beam.Scope) {
		call(s, "one", pairs(s, "x1"))
		call(s, "other", pairs(s, "x1"))
	})
	if err != nil {
		t.Error(err)
	}
}

// What goes wrong in a DoFn ends the pipeline with its words, and the other DoFns' context.
func TestFailures(t *testing.T) {
	tests := []struct {
		name, want string
		fail       func() error
	}{
		{"error", "the disk is on fire", func() error { return fmt.Errorf("write: %w", errors.New("the disk is on fire")) }},
		{"panic", "panic: index out of order", func() error { panic("index out of order") }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			began := make(chan struct{})
			after := false
			calls = map[string]func(context.Context, string, []int) error{
				"waits": func(ctx context.Context, _ string, _ []int) error {
					close(began)
					<-ctx.Done()
					return ctx.Err()
				},
				"fails": func(context.Context, string, []int) error { <-began; return test.fail() },
				"after": func(context.Context, string, []int) error { after = true; return nil },
			}
			_, err := execute(t.Context(), t, func(s beam.Scope) {
				call(s, "waits", pairs(s, "x1"))
				call(s, "after", call(s, "fails", pairs(s, "x1")))
			})
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "callFn") && test.name == "error" {
				t.Errorf("got %v, want %q of callFn", err, test.want)
			}
			if strings.Contains(fmt.Sprint(err), "Plan[") {
				t.Errorf("the error shows Beam's plan: %v", err)
			}
			if after {
				t.Error("what comes after the failure was done")
			}
		})
	}
}

// The failure of a DoFn is told, and not how the stages end that it ends: of those that end at the same moment either may be first.
func TestFirstFailure(t *testing.T) {
	calls = map[string]func(context.Context, string, []int) error{
		"waits": func(ctx context.Context, _ string, _ []int) error { <-ctx.Done(); return ctx.Err() },
		"fails": func(context.Context, string, []int) error { return errors.New("the disk is on fire") },
	}
	for range 5_000 {
		_, err := execute(t.Context(), t, func(s beam.Scope) {
			call(s, "waits", pairs(s, "x1"))
			call(s, "fails", pairs(s, "x1"))
		})
		if err == nil || !strings.Contains(err.Error(), "the disk is on fire") {
			t.Fatalf("got %v, want the failure", err)
		}
	}
}

// A pipeline whose context ends, ends with the cause.
func TestCanceled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("nobody waits any more")
	calls = map[string]func(context.Context, string, []int) error{
		"slow": func(ctx context.Context, _ string, _ []int) error {
			cancel(cause)
			<-ctx.Done()
			return ctx.Err()
		},
	}
	_, err := execute(ctx, t, func(s beam.Scope) { call(s, "slow", pairs(s, "x1", "y1")) })
	if !errors.Is(err, cause) {
		t.Errorf("got %v, want the cause", err)
	}
}

// What the DoFns of all stages count is in the result.
func TestMetrics(t *testing.T) {
	res, err := execute(t.Context(), t, func(s beam.Scope) {
		beam.ParDo0(s, &countFn{}, beam.CreateList(s, []string{"a", "b", "a"}))
		beam.ParDo0(s, &countFn{}, beam.CreateList(s, []string{"a"}))
	})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, c := range res.Metrics().AllMetrics().Counters() {
		got[c.Name()] += c.Result()
	}
	if diff := cmp.Diff(map[string]int64{"a": 3, "b": 1}, got); diff != "" {
		t.Errorf("counters (-want +got):\n%s", diff)
	}
}

// A graph that the runner would get wrong is refused.
func TestRefuses(t *testing.T) {
	tests := []struct {
		name, want string
		build      func(s beam.Scope)
	}{
		{"side input", "no side inputs", func(s beam.Scope) {
			beam.ParDo(s, gather, beam.Impulse(s), beam.SideInput{Input: beam.CreateList(s, []string{"a"})})
		}},
		{"join", "joins 2", func(s beam.Scope) { beam.CoGroupByKey(s, pairs(s, "x1"), pairs(s, "x2")) }},
		{"flatten", "joins collections where they are grouped", func(s beam.Scope) {
			texts := beam.Flatten(s, beam.CreateList(s, []string{"a1"}), beam.CreateList(s, []string{"b1"}))
			beam.ParDo(s, first, texts)
		}},
		{"reshuffle", "cannot do", func(s beam.Scope) { beam.Reshuffle(s, beam.CreateList(s, []string{"a"})) }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, err := execute(t.Context(), t, test.build); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}
