package gang

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/training/protocol"
)

// first is how the ranks of the first generation end; those of the others finish.
func first(r protocol.RanksEnded, err error) func(int) (protocol.RanksEnded, error) {
	return func(generation int) (protocol.RanksEnded, error) {
		if generation == 1 {
			return r, err
		}
		return protocol.RanksEnded{}, nil
	}
}

// Ranks that failed on nodes that are well start again on these, and each second of the nodes is in the account once. Else, and where the
// pause is long, there is a new gang.
func TestTrainStartsAgainOnTheSameNodes(t *testing.T) {
	crash := protocol.RanksEnded{Code: -1, Signal: 9}
	retried := spec.Retry{Backoff: spec.Duration(time.Millisecond), Errors: []string{fault.User, fault.Infrastructure}}
	for _, tt := range []struct {
		name  string
		ranks protocol.RanksEnded
		err   error
		retry spec.Retry
		same  bool
	}{
		{"a crash", crash, nil, retried, true},
		{"an error of the program", protocol.RanksEnded{Code: 1}, nil, retried, true},
		{"no such program", protocol.RanksEnded{}, fault.New(fault.User, "command: not found", nil), retried, true},
		{"a hang", protocol.RanksEnded{Code: -1, Signal: 9, Hung: true}, nil, retried, true},
		{"a node that cannot do its part", protocol.RanksEnded{}, fault.New(fault.Infrastructure, "the disk is full", nil), retried, false},
		{"a broken GPU", protocol.RanksEnded{Code: -1, Signal: 9, Fault: "XID 79"}, nil, retried, false},
		{"a node that was stopped", protocol.RanksEnded{Code: 143, Stopped: true, NodeStopped: true}, nil, retried, false},
		{"a long pause", crash, nil, spec.Retry{Backoff: spec.Duration(maxHold + time.Second)}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &stage{ranks: first(tt.ranks, tt.err), price: 1, unwatched: true}
			if err := s.train(t, s.environment(t), tt.retry); err != nil {
				t.Fatal(err)
			}
			g := s.collected.Generations
			if len(g) != 2 {
				t.Fatalf("%d generations, want 2: %+v", len(g), g)
			}
			if same := s.acquired == 1; same != tt.same {
				t.Errorf("%d gangs were acquired", s.acquired)
			}
			want := []int{1, 2}
			if tt.same {
				want = []int{1}
				if !g[1].StartedAt.Equal(g[0].EndedAt) || g[1].Pool != g[0].Pool || g[1].USDPerHour != 1 || g[1].Nodes != 1 {
					t.Errorf("generation 2 is accounted for as %+v after %+v", g[1], g[0])
				}
				if slices.ContainsFunc(s.watched, func(gang int) bool { return gang != 1 }) {
					t.Errorf("watched are the gangs of generations %v, want that of generation 1", s.watched)
				}
			}
			if !slices.Equal(s.released, want) {
				t.Errorf("released are the gangs of generations %v, want %v", s.released, want)
			}
		})
	}
}

// A node that is lost, or cannot be used again, after its ranks failed costs a generation that is charged to nobody.
func TestTrainLosesTheNodeBetweenTwoGenerations(t *testing.T) {
	for _, tt := range []struct {
		name    string
		lost    bool
		prepare error
		reason  string
	}{
		{"lost", true, nil, "node 0 fell over"},
		{"its agent is of an earlier release", false, fault.New(fault.Invalid, "the worker speaks protocol 5", nil), "node 0 cannot be used again: the worker speaks"},
		{"its disk is full", false, fault.New(fault.Infrastructure, "the disk is full", nil), "node 0 cannot be used again: the disk is full"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &stage{ranks: first(protocol.RanksEnded{Code: -1, Signal: 9}, nil)}
			s.lost = func(generation int) bool { return tt.lost && generation == 2 }
			s.prepare = func(generation int) error {
				if generation == 2 {
					return tt.prepare
				}
				return nil
			}
			if err := s.train(t, s.environment(t), spec.Retry{Attempts: 2, Backoff: spec.Duration(time.Millisecond)}); err != nil {
				t.Fatal(err)
			}
			g := s.collected.Generations
			if len(g) != 3 || g[1].End != spec.EndNodeLost || !strings.Contains(g[1].Reason, tt.reason) {
				t.Fatalf("generations %+v, want the second lost: %s", g, tt.reason)
			}
			if !slices.Equal(s.released, []int{1, 3}) {
				t.Errorf("released are the gangs of generations %v, want 1 and 3", s.released)
			}
		})
	}
}

// What is said of the nodes while the next attempt is waited for counts: a notice releases them, as do a cancel and a budget that ends before.
// The time that they were kept for nothing is in the account.
func TestTrainLetsGoOfTheNodesItKept(t *testing.T) {
	const pause = time.Minute
	for _, tt := range []struct {
		name     string
		notice   *protocol.Notice
		cancel   bool
		budget   float64
		errors   bool
		released []int
		kept     time.Duration // how long they were kept for nothing, at least
	}{
		{"a notice", &protocol.Notice{Generation: 1, Until: time.Unix(1, 0)}, false, 0, false, []int{1, 2}, pause},
		{"a broken GPU", &protocol.Notice{Generation: 1, Cause: protocol.CauseFault}, false, 0, false, []int{1, 2}, pause},
		{"a notice for another gang", &protocol.Notice{Generation: 7}, false, 0, false, []int{1}, 0},
		{"a cancel", nil, true, 0, true, []int{1}, pause / 2},
		{"a budget that ends before", nil, false, 0.01, false, []int{1, 2}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &stage{ranks: first(protocol.RanksEnded{Code: -1, Signal: 9}, nil), price: 1, budget: tt.budget, unwatched: true}
			env := s.environment(t)
			env.RegisterDelayedCallback(func() {
				if tt.notice != nil {
					env.SignalWorkflow(protocol.NoticeSignal, *tt.notice)
				}
				if tt.cancel {
					env.CancelWorkflow()
				}
			}, pause/2)
			err := s.train(t, env, spec.Retry{Backoff: spec.Duration(pause)})
			if (err != nil) != tt.errors {
				t.Fatalf("ended with %v", err)
			}
			if !slices.Equal(s.released, tt.released) {
				t.Errorf("released are the gangs of generations %v, want %v", s.released, tt.released)
			}
			g := s.collected.Generations
			if tt.errors {
				g = s.accounted
			}
			if len(g) == 0 {
				t.Fatal("there is no account")
			}
			took := g[0].EndedAt.Sub(g[0].StartedAt)
			if took < tt.kept || tt.kept == 0 && took > pause/4 || math.Abs(g[0].CostUSD-took.Hours()) > 1e-9 {
				t.Errorf("generation 1 took %v and cost %v, want the pause in it: %v", took, g[0].CostUSD, tt.kept > 0)
			}
		})
	}
}
