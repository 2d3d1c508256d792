package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluiceml/sluice/internal/testing/flowtest"
	"github.com/sluiceml/sluice/store/record"
)

// program stands for what a step does: it says that it has begun, and ends when it is let go or its context ends.
type program struct {
	begun atomic.Int32
	began chan struct{}
	letGo chan error
}

func newProgram() *program { return &program{began: make(chan struct{}, 10), letGo: make(chan error)} }

func (p *program) do(ctx context.Context, in record.StepInput) (record.StepOutput, error) {
	p.begun.Add(1)
	p.began <- struct{}{}
	select {
	case err := <-p.letGo:
		return record.StepOutput{Outputs: in.Spec}, err
	case <-ctx.Done():
		return record.StepOutput{}, context.Cause(ctx)
	}
}

// attempt is what an attempt at a step returns.
type attempt struct {
	out record.StepOutput
	err error
}

// TestAttach: attempts at a step that do the same wait for one execution of it, and one that comes when it has succeeded gets the result. One
// that is to do something else ends it first, and after a failure there is another try.
func TestAttach(t *testing.T) {
	t.Parallel()
	flowtest.InActivity(t, func(ctx context.Context) {
		var e Executions
		p := newProgram()
		do := e.Attachable(p.do)
		try := func(ctx context.Context, spec string) <-chan attempt {
			ended := make(chan attempt, 1)
			go func() {
				out, err := do(ctx, record.StepInput{Run: "r", Step: "fit", Spec: json.RawMessage(spec)})
				ended <- attempt{out, err}
			}()
			return ended
		}
		wants := func(what string, a attempt, out, err string) {
			t.Helper()
			if string(a.out.Outputs) != out || (a.err == nil) != (err == "") || a.err != nil && !strings.Contains(a.err.Error(), err) {
				t.Errorf("%s: %s, %v; want %s, %q", what, a.out.Outputs, a.err, out, err)
			}
		}

		failed := try(ctx, `1`)
		<-p.began
		p.letGo <- errors.New("exit code 1")
		wants("a failure", <-failed, `1`, "exit code 1")

		first := try(ctx, `1`) // which is not attached to what failed
		<-p.began
		second := try(ctx, `1`)
		p.letGo <- nil
		wants("the first attempt", <-first, `1`, "")
		wants("the second", <-second, `1`, "")
		wants("one that comes late", <-try(ctx, `1`), `1`, "")
		if n := p.begun.Load(); n != 2 {
			t.Errorf("it began %d times, want once for the failure and once for three attempts", n)
		}

		old := try(ctx, `2`)
		<-p.began
		other := try(ctx, `3`)
		wants("what is to do something else now", <-old, ``, "a different spec")
		<-p.began
		p.letGo <- nil
		wants("that", <-other, `3`, "")

		canceled, cancel := context.WithCancel(ctx)
		gone := try(canceled, `4`)
		<-p.began
		cancel()
		wants("a canceled one", <-gone, ``, context.Canceled.Error())

		closing := try(ctx, `5`)
		<-p.began
		e.Close()
		wants("one of a worker that ends", <-closing, ``, "the worker is stopping")
	})
}

// TestAttachAfterTheEnd: an attempt that comes while the execution of the one before is ending starts its own, and does not get its error.
func TestAttachAfterTheEnd(t *testing.T) {
	t.Parallel()
	flowtest.InActivity(t, func(ctx context.Context) {
		var e Executions
		p := newProgram()
		in := record.StepInput{Run: "r", Step: "fit"}
		old, err := e.join(ctx, in, p.do)
		if err != nil {
			t.Fatal(err)
		}
		<-p.began
		old.end(errors.New("canceled"))
		<-old.done // before its own attempt has left
		next, err := e.join(ctx, in, p.do)
		if err != nil || next == old {
			t.Fatalf("it waits for what has ended with %v: %v", old.err, err)
		}
		<-p.began
		p.letGo <- nil
		<-next.done
		e.leave(old)
		if again, err := e.join(ctx, in, p.do); err != nil || again != next {
			t.Errorf("the result of the second is forgotten: %v", err)
		}
	})
}

// TestAttachForgets: of the results of steps that have ended only the newest are kept.
func TestAttachForgets(t *testing.T) {
	t.Parallel()
	flowtest.InActivity(t, func(ctx context.Context) {
		var e Executions
		do := e.Attachable(func(_ context.Context, in record.StepInput) (record.StepOutput, error) {
			if in.Step == "bad" {
				panic("of a step")
			}
			return record.StepOutput{}, nil
		})
		if _, err := do(ctx, record.StepInput{Step: "bad"}); err == nil || !strings.Contains(err.Error(), "panic: of a step") {
			t.Errorf("a panic is %v", err)
		}
		for n := range 2 {
			for i := range keptResults {
				if _, err := do(ctx, record.StepInput{Run: fmt.Sprint(n, i), Step: "fit"}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if len(e.byStep) > keptResults || len(e.kept) > keptResults {
			t.Errorf("%d executions and %d results are kept, want no more than %d", len(e.byStep), len(e.kept), keptResults)
		}
	})
}
