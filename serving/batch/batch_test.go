package batch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/sluiceml/sluice/serving/oip"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// doubler is a model that doubles x [-1,-1]. A row with a 13 fails the inference it is in.
type doubler struct {
	outputs  []oip.TensorMetadata
	inputs   []oip.TensorMetadata
	perCall  time.Duration
	perRow   time.Duration
	mixes    bool // the answer to a row depends on the others
	mu       sync.Mutex
	sizes    []int64
	unloaded bool
}

func newDoubler() *doubler {
	return &doubler{
		inputs:  []oip.TensorMetadata{{Name: "x", Datatype: oip.FP32, Shape: []int64{-1, -1}}},
		outputs: []oip.TensorMetadata{{Name: "y", Datatype: oip.FP32, Shape: []int64{-1, -1}}},
	}
}

var errThirteen = errors.New("a 13")

func (d *doubler) Inputs() []oip.TensorMetadata  { return d.inputs }
func (d *doubler) Outputs() []oip.TensorMetadata { return d.outputs }

func (d *doubler) Check(inputs []oip.Tensor) ([]oip.Tensor, error) {
	return oip.Match(d.inputs, inputs)
}

func (d *doubler) Run(ctx context.Context, inputs []oip.Tensor) ([]oip.Tensor, error) {
	x := inputs[0]
	d.mu.Lock()
	d.sizes = append(d.sizes, x.Shape[0])
	d.mu.Unlock()
	select {
	case <-time.After(d.perCall + time.Duration(x.Shape[0])*d.perRow):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	var sum float32
	y := slices.Clone(x.Data.([]float32))
	for i := range y {
		if y[i] == 13 {
			return nil, errThirteen
		}
		sum += y[i]
		y[i] *= 2
	}
	if d.mixes {
		y[0] = sum
	}
	return []oip.Tensor{{Name: "y", Shape: x.Shape, Data: y}}, nil
}

func (d *doubler) Close() error {
	d.unloaded = true
	return nil
}

// since returns the sizes of the inferences since the last call.
func (d *doubler) since() []int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	sizes := d.sizes
	d.sizes = nil
	return sizes
}

// ready is a warm Batcher of a model.
func ready(t *testing.T, d *doubler, opts Options) *Batcher {
	t.Helper()
	opts.Logger = slog.New(slog.DiscardHandler)
	b := New(d, opts)
	if err := b.WarmUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.since()
	return b
}

func closed(t *testing.T, b *Batcher) {
	t.Helper()
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if !b.model.(*doubler).unloaded {
		t.Error("the model is still loaded")
	}
}

// rows is a request of rows of one number.
func rows(values ...float32) []oip.Tensor { return wide(1, values...) }

func wide(columns int, values ...float32) []oip.Tensor {
	return []oip.Tensor{{Name: "x", Shape: []int64{int64(len(values) / columns), int64(columns)}, Data: values}}
}

// ask makes a request and checks its answer.
func ask(t *testing.T, b *Batcher, inputs []oip.Tensor) {
	t.Helper()
	want := oip.Tensor{Name: "y", Shape: inputs[0].Shape, Data: slices.Clone(inputs[0].Data.([]float32))}
	for i := range want.Data.([]float32) {
		want.Data.([]float32)[i] *= 2
	}
	got, err := b.Infer(t.Context(), inputs)
	if err != nil {
		t.Error(err)
		return
	}
	if diff := cmp.Diff([]oip.Tensor{want}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// together makes requests at the same time, in their order, and waits for the answers.
func together(t *testing.T, b *Batcher, requests ...[]oip.Tensor) {
	t.Helper()
	var group sync.WaitGroup
	for _, r := range requests {
		group.Go(func() { ask(t, b, r) })
		synctest.Wait()
	}
	group.Wait()
}

func TestRequestsThatWaitRunTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoubler()
		d.perCall = 100 * time.Millisecond
		b := ready(t, d, Options{MaxBatch: 8, MaxDelay: time.Millisecond})
		defer closed(t, b)
		// The first finds the model free. Those of another width are not joined with the rest, nor is what exceeds 8 rows.
		together(t, b, rows(1), rows(2, 3), wide(2, 4, 5), rows(6), rows(7, 8, 9, 10), wide(2, 11, 12), rows(14, 15))
		if diff := cmp.Diff([]int64{1, 7, 2, 2}, d.since()); diff != "" {
			t.Errorf("inferences (-want +got):\n%s", diff)
		}
	})
}

func TestAClientAloneNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoubler()
		d.perCall = 100 * time.Millisecond
		b := ready(t, d, Options{MaxBatch: 8, MaxDelay: time.Second})
		defer closed(t, b)
		for i := range 10 {
			began := time.Now()
			ask(t, b, rows(float32(i)))
			if took := time.Since(began); took != d.perCall {
				t.Errorf("request %d took %v", i, took)
			}
		}
	})
}

// Clients that ask again when they are answered stay together, even though one of them comes back first.
func TestClientsAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoubler()
		d.perCall = 100 * time.Millisecond
		b := ready(t, d, Options{MaxBatch: 32, MaxDelay: 20 * time.Millisecond})
		defer closed(t, b)
		var group sync.WaitGroup
		for i := range 16 {
			group.Go(func() {
				for range 10 {
					ask(t, b, rows(float32(100+i)))
					time.Sleep(time.Duration(i) * time.Millisecond)
				}
			})
		}
		group.Wait()
		sizes := d.since()
		if full := slices.DeleteFunc(slices.Clone(sizes), func(n int64) bool { return n != 16 }); len(full) < 9 {
			t.Errorf("inferences %v, want at least 9 of 16 rows", sizes)
		}
		time.Sleep(time.Second) // they have gone, and who asks next does not wait for them
		began := time.Now()
		ask(t, b, rows(1))
		if took := time.Since(began); took != d.perCall {
			t.Errorf("a request took %v", took)
		}
	})
}

func TestPreferredSizes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoubler()
		d.perCall = 100 * time.Millisecond
		b := ready(t, d, Options{MaxBatch: 16, Preferred: []int{4, 8}})
		defer closed(t, b)
		var requests [][]oip.Tensor
		for i := range 1 + 8 + 4 + 2 {
			requests = append(requests, rows(float32(20+i)))
		}
		together(t, b, requests...)
		if diff := cmp.Diff([]int64{1, 8, 4, 2}, d.since()); diff != "" {
			t.Errorf("inferences (-want +got):\n%s", diff)
		}
	})
}

func TestWhoHasGoneIsNotServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoubler()
		d.perCall = 100 * time.Millisecond
		b := ready(t, d, Options{MaxBatch: 8, MaxQueue: 2})
		defer closed(t, b)
		var group sync.WaitGroup
		group.Go(func() { ask(t, b, rows(1)) })
		synctest.Wait()
		gone, leave := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer leave()
		group.Go(func() {
			began := time.Now()
			_, err := b.Infer(gone, rows(2))
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 10*time.Millisecond {
				t.Errorf("%v after %v", err, time.Since(began))
			}
		})
		synctest.Wait()
		group.Go(func() { ask(t, b, rows(3)) })
		synctest.Wait()

		_, err := b.Infer(t.Context(), rows(4)) // the queue is full
		if status := oip.ErrorStatus(err); status != http.StatusTooManyRequests {
			t.Errorf("%d %v", status, err)
		}
		if again, ok := errors.AsType[*oip.Error](err); !ok || again.RetryAfter == 0 {
			t.Errorf("%v does not say when to ask again", err)
		}
		<-gone.Done()
		synctest.Wait()
		group.Go(func() { ask(t, b, rows(5)) }) // and has room when somebody has gone
		group.Wait()
		if diff := cmp.Diff([]int64{1, 2}, d.since()); diff != "" {
			t.Errorf("inferences (-want +got):\n%s", diff)
		}
	})
}

func TestABadRequestHarmsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoubler()
		d.perCall = 100 * time.Millisecond
		b := ready(t, d, Options{MaxBatch: 8})
		defer closed(t, b)
		var group sync.WaitGroup
		for i, r := range [][]oip.Tensor{rows(1), rows(2), rows(3, 13), rows(4)} {
			group.Go(func() {
				if i != 2 {
					ask(t, b, r)
				} else if _, err := b.Infer(t.Context(), r); !errors.Is(err, errThirteen) {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		for name, r := range map[string][]oip.Tensor{
			"unknown": {{Name: "z", Shape: []int64{1, 1}, Data: []float32{1}}}, "type": {{Name: "x", Shape: []int64{1, 1}, Data: []string{"1"}}},
			"empty": wide(1), "rank": {{Name: "x", Shape: []int64{1}, Data: []float32{1}}},
		} {
			if _, err := b.Infer(t.Context(), r); oip.ErrorStatus(err) != http.StatusBadRequest {
				t.Errorf("%s: %v", name, err)
			}
		}
		group.Wait()
		if diff := cmp.Diff([]int64{1, 4, 1, 2, 1}, d.since()); diff != "" {
			t.Errorf("inferences (-want +got):\n%s", diff)
		}
		s := b.Stats()
		if s.Succeeded != 3 || s.Failed != 1 || s.Pending != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestStats: the time of an inference counts for each request in it, and once for its size.
func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoubler()
		d.perCall = 100 * time.Millisecond
		b := ready(t, d, Options{MaxBatch: 8})
		defer closed(t, b)
		together(t, b, rows(1), rows(2), rows(3))
		last := time.Now()
		if _, err := b.Infer(t.Context(), rows(13)); !errors.Is(err, errThirteen) {
			t.Fatal(err)
		}
		want := Stats{
			Succeeded: 3, Failed: 1, Rows: 3, Inferences: 2, Requests: 6 * d.perCall, Queued: 2 * d.perCall, FailedAfter: d.perCall,
			Sizes:    map[int64]Size{1: {Inferences: 1, Parts: Parts{Ran: d.perCall}}, 2: {Inferences: 1, Parts: Parts{Ran: d.perCall}}},
			Computed: 3 * d.perCall, Last: last, Limit: 8,
		}
		want.Answered.Queued, want.Answered.Ran = 2*d.perCall, 3*d.perCall
		if diff := cmp.Diff(want, b.Stats()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestInstancesRunAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoubler()
		d.perCall = 100 * time.Millisecond
		b := ready(t, d, Options{MaxBatch: 1, Instances: 2})
		defer closed(t, b)
		began := time.Now()
		together(t, b, rows(1), rows(2), rows(3), rows(4), rows(5))
		if took := time.Since(began); took != 3*d.perCall {
			t.Errorf("5 requests took %v", took)
		}
	})
}

func TestCloseWhileRequestsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoubler()
		d.perCall = 100 * time.Millisecond
		b := ready(t, d, Options{MaxBatch: 8})
		var group sync.WaitGroup
		group.Go(func() { ask(t, b, rows(1)) })
		synctest.Wait()
		group.Go(func() {
			if _, err := b.Infer(t.Context(), rows(2)); !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		})
		synctest.Wait()
		closed(t, b)
		group.Wait()
		if _, err := b.Infer(t.Context(), rows(3)); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
}

func TestModelsThatAreNotBatched(t *testing.T) {
	shaped := func(shape ...int64) func(*doubler) {
		return func(d *doubler) { d.inputs[0].Shape = shape }
	}
	for _, tc := range []struct {
		name   string
		change func(*doubler)
		reason string
	}{
		{"fixed", shaped(1, -1), `"x" has shape [1 -1], whose first dimension is not open`},
		{"scalar", shaped(), `"x" has shape [], whose first dimension is not open`},
		{"output", func(d *doubler) { d.outputs[0].Shape = []int64{3} }, `"y" has shape [3], whose first dimension is not open`},
		{"mixes", func(d *doubler) { d.mixes = true }, `the answer to a row depends on the other rows`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDoubler()
				d.perCall = 100 * time.Millisecond
				tc.change(d)
				b := New(d, Options{MaxBatch: 8, MaxDelay: time.Second, Logger: slog.New(slog.DiscardHandler)})
				defer closed(t, b)
				if err := b.WarmUp(t.Context()); err == nil || !strings.Contains(err.Error(), tc.reason) {
					t.Errorf("%v, want %q", err, tc.reason)
				}
				if tc.name == "scalar" {
					return
				}
				d.since()
				d.mixes = false
				together(t, b, rows(1), rows(2), rows(3))
				if diff := cmp.Diff([]int64{1, 1, 1}, d.since()); diff != "" {
					t.Errorf("inferences (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// quantised answers with the numbers of its inputs, in steps of the largest in all rows.
type quantised struct{ *doubler }

func (q quantised) Run(_ context.Context, inputs []oip.Tensor) ([]oip.Tensor, error) {
	var largest float64
	for _, v := range inputs[0].Data.([]float32) {
		largest = max(largest, math.Abs(float64(v)))
	}
	step := largest / 127
	out := make([]float32, len(inputs[0].Data.([]float32)))
	for i, v := range inputs[0].Data.([]float32) {
		out[i] = float32(math.Round(float64(v)/step) * step)
	}
	return []oip.Tensor{{Name: "y", Shape: inputs[0].Shape, Data: out}}, nil
}

// TestRowsOfOtherSizes: a model that takes the scale of its inputs from all rows is not batched, unless the caller trusts it.
func TestRowsOfOtherSizes(t *testing.T) {
	for _, trusted := range []bool{false, true} {
		d := quantised{newDoubler()}
		d.inputs[0].Shape = []int64{-1, 16}
		b := New(d, Options{MaxBatch: 8, Trusted: trusted})
		if err := b.WarmUp(t.Context()); (err == nil) != trusted {
			t.Errorf("trusted %v: %v", trusted, err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestMadeUpRowsDiffer(t *testing.T) {
	type half uint16
	chance := rand.New(rand.NewPCG(1, 1))
	for _, data := range []any{make([]float32, 8), make([]int64, 8), make([]uint16, 8), make([]half, 8), make([]bool, 8), make([]string, 8)} {
		v := reflect.ValueOf(data)
		fill(v, chance)
		different := map[any]bool{}
		for i := range v.Len() {
			different[v.Index(i).Interface()] = true
		}
		if len(different) < 2 {
			t.Errorf("%T: %v", data, data)
		}
		if halves, ok := data.([]half); ok && slices.Min(halves) < 0x3c00 {
			t.Errorf("%v are next to 0", halves)
		}
	}
}

func TestWarmUp(t *testing.T) {
	for name, tc := range map[string]struct {
		opts Options
		want []int64
	}{
		"powers":    {Options{MaxBatch: 12}, []int64{1, 2, 4, 8, 12}},
		"preferred": {Options{MaxBatch: 12, Preferred: []int{6, 3}}, []int64{1, 3, 6}},
		"none":      {Options{MaxBatch: 1}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDoubler()
			b := New(d, tc.opts)
			defer closed(t, b)
			if err := b.WarmUp(t.Context()); err != nil {
				t.Fatal(err)
			}
			got := d.since()
			if len(got) > 0 {
				got = got[2*probed:] // rows alone and among others
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("inferences (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTargetP99(t *testing.T) {
	for _, tc := range []struct {
		target time.Duration
		want   int // the time is 50 ms for each row
	}{{650 * time.Millisecond, 12}, {260 * time.Millisecond, 5}, {time.Hour, 32}, {time.Microsecond, 1}} {
		t.Run(tc.target.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDoubler()
				d.perRow = 50 * time.Millisecond
				b := ready(t, d, Options{MaxBatch: 32, TargetP99: tc.target})
				ctx, stop := context.WithCancel(t.Context())
				var group sync.WaitGroup
				for i := range 64 {
					group.Go(func() {
						for ctx.Err() == nil {
							ask(t, b, rows(float32(100+i)))
						}
					})
				}
				time.Sleep(5 * time.Minute)
				var after []int
				for range 12 {
					time.Sleep(window)
					after = append(after, b.Stats().Limit)
				}
				stop()
				group.Wait()
				closed(t, b)
				if want := slices.Repeat([]int{tc.want}, len(after)); !slices.Equal(after, want) {
					t.Errorf("the limit was %v, want %d", after, tc.want)
				}
			})
		})
	}
}

func TestLimitIsRaisedAgain(t *testing.T) {
	l := newLimit(32, 10*time.Millisecond)
	now := time.Now()
	var got []int
	for _, took := range []time.Duration{20, 11, 9, 9, 7, 7, 7, 7} {
		l.adjust(now)
		l.add(3, took*time.Millisecond)
		now = now.Add(window)
		l.adjust(now)
		got = append(got, l.rows)
	}
	if diff := cmp.Diff([]int{28, 24, 24, 24, 28, 32, 32, 32}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSteps(t *testing.T) {
	for largest, want := range map[int]string{1: "[1]", 3: "[1 2 3]", 32: "[1 2 3 4 5 6 7 8 10 12 14 16 20 24 28 32]", 9: "[1 2 3 4 5 6 7 8 9]"} {
		if got := fmt.Sprint(stepsTo(largest)); got != want {
			t.Errorf("%d: %s, want %s", largest, got, want)
		}
	}
}
