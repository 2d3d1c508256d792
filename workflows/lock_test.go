package workflows

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/workflows/durable"
)

// street plays the runs that a lock talks to. They live until they are told to die.
type street struct {
	*testsuite.TestWorkflowEnvironment
	dead map[string]*atomic.Bool

	mu       sync.Mutex // the test's environment calls back from goroutines of its own
	turns    []string
	canceled map[string]bool
}

// newStreet says in which order runs are to be told that it is their turn, and which are to be cancelled; those that are gone
// cannot be told.
func newStreet(t *testing.T, turns, gone, canceled []string) *street {
	t.Helper()
	s := &street{TestWorkflowEnvironment: (&world{}).environment(t), dead: map[string]*atomic.Bool{}, canceled: map[string]bool{}}
	for _, run := range []string{"a", "b", "c", "d"} {
		s.dead[run] = &atomic.Bool{}
	}
	s.RegisterActivityWithOptions(func(_ context.Context, run string) (bool, error) {
		return !s.dead[run].Load(), nil
	}, activity.RegisterOptions{Name: contract.AliveActivity})
	for _, run := range turns {
		s.OnSignalExternalWorkflow("default-test-namespace", contract.RunWorkflowID(run), "", contract.TurnSignal, nil).
			Return(func(string, string, string, string, any) error {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.turns = append(s.turns, run)
				return nil
			})
	}
	for _, run := range gone {
		s.OnSignalExternalWorkflow("default-test-namespace", contract.RunWorkflowID(run), "", contract.TurnSignal, nil).Return(errors.New("not found"))
	}
	for _, run := range canceled {
		told := false
		for by := range s.dead {
			s.OnSignalExternalWorkflow("default-test-namespace", contract.RunWorkflowID(run), "", contract.EvictedSignal, by).
				Return(func(string, string, string, string, any) error {
					told = true
					return nil
				})
		}
		s.OnRequestCancelExternalWorkflow("default-test-namespace", contract.RunWorkflowID(run), "").Return(func(string, string, string) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.canceled[run] = told // before it is canceled
			return nil
		})
	}
	return s
}

// after calls back after so many seconds.
func (s *street) after(seconds int, f func()) {
	s.RegisterDelayedCallback(f, time.Duration(seconds)*time.Second)
}

func (s *street) want(seconds int, run string, evict bool) {
	s.after(seconds, func() { s.SignalWorkflow(contract.WantSignal, contract.LockRequest{Run: run, Evict: evict}) })
}

func (s *street) free(seconds int, run string) {
	s.after(seconds, func() { s.SignalWorkflow(contract.FreeSignal, run) })
}

// hold starts the lock for run a and returns how long it was there.
func (s *street) hold(t *testing.T) time.Duration {
	t.Helper()
	began := s.Now()
	s.ExecuteWorkflow(contract.LockWorkflow, contract.LockInput{Group: "g", Run: "a"})
	if err := s.GetWorkflowError(); err != nil || !s.IsWorkflowCompleted() {
		t.Fatalf("the lock ended with %v", err)
	}
	return s.Now().Sub(began)
}

func (s *street) check(t *testing.T, turns ...string) {
	t.Helper()
	if diff := cmp.Diff(turns, s.turns); diff != "" {
		t.Errorf("turns (-want +got):\n%s", diff)
	}
}

func TestLockIsGivenInOrder(t *testing.T) {
	s := newStreet(t, []string{"b", "c", "d"}, nil, nil)
	s.want(1, "b", false)
	s.want(2, "c", false)
	s.want(3, "b", false) // asks again, and keeps its place
	s.free(20, "a")
	s.want(22, "d", false)
	s.free(40, "b")
	s.free(41, "c")
	s.free(50, "a") // heard late
	s.free(60, "d")
	if took := s.hold(t).Round(time.Second); took != time.Minute {
		t.Errorf("the lock was there for %v, want a minute", took)
	}
	s.check(t, "b", "c", "d")
}

func TestLockOfATerminatedRunIsFree(t *testing.T) {
	s := newStreet(t, []string{"b", "d"}, []string{"c"}, nil)
	s.want(1, "b", false)
	s.want(2, "c", false) // will be gone when its turn comes
	s.want(3, "d", false)
	s.after(100, func() { s.dead["a"].Store(true) })
	s.after(200, func() { s.dead["b"].Store(true) })
	s.free(300, "d")
	if took := s.hold(t).Round(time.Second); took != 300*time.Second {
		t.Errorf("the lock was there for %v, want 5 minutes", took)
	}
	s.check(t, "b", "d")
}

// TestTerminatedHolderIsMissedAtOnce: a run that comes does not wait for the time to look.
func TestTerminatedHolderIsMissedAtOnce(t *testing.T) {
	s := newStreet(t, []string{"b"}, nil, nil)
	s.dead["a"].Store(true)
	s.want(2, "b", false)
	s.free(5, "b")
	if took := s.hold(t).Round(time.Second); took != 5*time.Second {
		t.Errorf("the lock was there for %v, want 5 s", took)
	}
	s.check(t, "b")
}

// TestLockTurnsAway runs that do not wait, and a child of the run that holds the lock. Neither gets a place, nor evicts anybody.
func TestLockTurnsAway(t *testing.T) {
	s := newStreet(t, []string{"b"}, nil, nil)
	taken := map[string]string{}
	want := func(seconds int, want contract.LockRequest, by string) {
		s.OnSignalExternalWorkflow("default-test-namespace", contract.RunWorkflowID(want.Run), "", contract.TakenSignal, by).
			Return(func(string, string, string, string, any) error {
				s.mu.Lock()
				defer s.mu.Unlock()
				taken[want.Run] = by
				return nil
			})
		s.after(seconds, func() { s.SignalWorkflow(contract.WantSignal, want) })
	}
	want(2, contract.LockRequest{Run: "a.step.0", Child: true, Evict: true}, "a")
	want(3, contract.LockRequest{Run: "c", Skip: true}, "a")
	s.want(4, "b", false)
	s.after(5, func() { s.dead["a"].Store(true) })
	want(6, contract.LockRequest{Run: "skips", Skip: true}, "b") // a is gone, and b was there before
	s.free(8, "b")
	s.hold(t)
	s.check(t, "b")
	if diff := cmp.Diff(map[string]string{"a.step.0": "a", "c": "a", "skips": "b"}, taken); diff != "" {
		t.Errorf("turned away by (-want +got):\n%s", diff)
	}
}

func TestWhoWaitsNoLongerGetsNoTurn(t *testing.T) {
	s := newStreet(t, []string{"c"}, nil, nil)
	s.want(1, "b", false)
	s.want(2, "c", false)
	s.free(3, "b")
	s.free(10, "a")
	s.free(20, "c")
	s.hold(t)
	s.check(t, "c")
}

func TestLockCancelsTheOthers(t *testing.T) {
	s := newStreet(t, []string{"c"}, nil, []string{"a", "b"})
	s.want(1, "b", false)
	s.want(2, "c", true)
	s.free(3, "b")
	s.free(4, "a")
	s.free(10, "c")
	s.hold(t)
	s.check(t, "c")
	if diff := cmp.Diff(map[string]bool{"a": true, "b": true}, s.canceled); diff != "" {
		t.Errorf("cancelled (-want +got):\n%s", diff)
	}
}

// TestHolderIsToldAgain: it asked before, and did not hear the answer.
func TestHolderIsToldAgain(t *testing.T) {
	s := newStreet(t, []string{"a"}, nil, nil)
	s.want(1, "a", false)
	s.free(2, "a")
	s.hold(t)
	s.check(t, "a")
}

// TestLockContinuesAsNew: who waits is not forgotten.
func TestLockContinuesAsNew(t *testing.T) {
	s := newStreet(t, nil, nil, nil)
	s.want(1, "b", false)
	s.after(20, func() {
		s.SetCurrentHistoryLength(durable.LongHistory)
		s.SignalWorkflow(contract.WantSignal, contract.LockRequest{Run: "c"})
	})
	s.ExecuteWorkflow(contract.LockWorkflow, contract.LockInput{Group: "g", Run: "a"})
	var again *workflow.ContinueAsNewError
	if err := s.GetWorkflowError(); !errors.As(err, &again) {
		t.Fatalf("it ended with %v", err)
	}
	want := contract.LockInput{Group: "g", Run: "a", Waiting: []string{"b", "c"}}
	if diff := cmp.Diff(want, nextInput[contract.LockInput](t, again)); diff != "" {
		t.Errorf("the next (-want +got):\n%s", diff)
	}
}
