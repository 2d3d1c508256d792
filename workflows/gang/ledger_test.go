package gang

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/checkpoint"
	"github.com/sluiceml/sluice/training/ledger"
	"github.com/sluiceml/sluice/training/protocol"
)

// books is what a worker enters of gangs of one node: a letter each, in the order in which they are acquired.
type books struct{ entries []ledger.Entry }

// open enters a gang that has begun.
func (b *books) open(key training.Key, o contract.Offer, now time.Time) contract.Acquired {
	before := b.paid(key)
	name := string(rune('a' + len(b.entries)))
	gang := training.Gang{
		Nodes:    []training.Node{{Name: name, Queue: key.Queue(0, name), Address: name, BeganAt: now}},
		Capacity: o.Capacity, USDPerHour: 1,
	}
	b.entries = append(b.entries, ledger.Entry{Generation: key.Generation, Pool: o.Pool, Gang: gang, Whole: true})
	return contract.Acquired{At: now, Gang: gang, Offer: o, Before: before}
}

// close enters that the pools have nothing of a key any more.
func (b *books) close(key training.Key, now time.Time) contract.Released {
	for _, e := range b.entries {
		if n := &e.Gang.Nodes[0]; e.Generation == key.Generation && n.EndedAt.IsZero() {
			n.EndedAt = now
		}
	}
	return contract.Released{Paid: b.paid(key)}
}

// paid is what has been paid for what a key had.
func (b *books) paid(key training.Key) fault.Costs {
	var sum fault.Costs
	for _, e := range b.entries {
		if n := e.Gang.Nodes[0]; e.Generation == key.Generation && !n.EndedAt.IsZero() {
			sum.USD += n.EndedAt.Sub(n.BeganAt).Hours() * e.Gang.USDPerHour
		}
	}
	return sum
}

// keep has the books kept of what the stage acquires and releases, and its ranks take ranksTake to fail or finish. Spot fails to start.
func (b *books) keep(s *stage, env *testsuite.TestWorkflowEnvironment) {
	again := func(name string, f any) {
		env.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name, DisableAlreadyRegisteredCheck: true})
	}
	again(protocol.RunRanksActivity, func(ctx context.Context, in protocol.RunRanksInput) (protocol.RanksEnded, error) {
		return protocol.RanksEnded{}, later(ctx, env, ranksTake, func() (any, error) { return s.ranks(in.Generation) })
	})
	again(protocol.StopActivity, func(context.Context, protocol.StopInput) error { return nil })
	again(contract.AcquireActivity, func(_ context.Context, in contract.AcquireInput) (contract.Acquired, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		key, now := in.Request.Key, s.now()
		if o := in.Offers[0]; o.Capacity != spec.CapacitySpot {
			return b.open(key, o, now), nil
		}
		b.open(key, in.Offers[0], now.Add(-bootTakes))
		b.close(key, now)
		b.entries[len(b.entries)-1].Whole = false
		return contract.Acquired{}, fault.New(fault.Invalid, "the node cannot pull its image", nil)
	})
	again(contract.ReleaseActivity, func(_ context.Context, in contract.ReleaseInput) (contract.Released, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return b.close(in.Key, s.now()), nil
	})
}

const (
	ranksTake = 12 * time.Second
	bootTakes = 3 * time.Second
)

// Each node is paid for once, from when it was acquired until it was released, whatever came of it: though several generations ran on it, and
// though two gangs were paid for at a time. The generations' costs add up to that.
func TestTrainPaysForEachNodeOnce(t *testing.T) {
	const pause, noticeAt = time.Minute, 8 * time.Second
	crash := protocol.RanksEnded{Code: -1, Signal: 9, Step: 4}
	notice := protocol.Notice{Generation: 1}
	type times map[string]time.Duration // by node, generation and outcome
	for _, tt := range []struct {
		name     string
		ranks    protocol.RanksEnded // of the first generation, whose checkpoint is of step 2
		notice   protocol.Notice
		noticeAt time.Duration // 0: there is none
		spot     func(int) bool
		want     times
	}{
		{
			name: "a restart on the same nodes", ranks: crash,
			want: times{
				"a 1 useful": ranksTake / 2, "a 1 lost": ranksTake / 2,
				"a 2 useful": ranksTake, "a 2 overhead": pause,
			},
		},
		{
			name: "nodes that were kept for a restart, and let go", ranks: crash, notice: notice, noticeAt: pause,
			want: times{
				"a 1 useful": ranksTake / 2, "a 1 lost": ranksTake / 2, "a 1 overhead": pause,
				"b 2 useful": ranksTake,
			},
		},
		{
			name: "a restart on the same nodes, while others failed to start", ranks: crash, spot: func(int) bool { return true },
			want: times{
				"a 1 useful": ranksTake / 2, "a 1 lost": ranksTake / 2,
				"b 2 never_started": bootTakes,
				"a 2 useful":        ranksTake, "a 2 overhead": pause,
				"c 3 never_started": bootTakes,
			},
		},
		{
			name: "a gang acquired at a notice", ranks: protocol.RanksEnded{Code: 143, Stopped: true, Step: 4}, notice: notice, noticeAt: noticeAt,
			want: times{
				"a 1 useful": noticeAt / 2, "a 1 lost": noticeAt / 2, "a 1 overhead": ranksTake - noticeAt,
				"b 2 useful": ranksTake, "b 2 overhead": ranksTake - noticeAt,
			},
		},
		{
			name: "a gang acquired at a notice, and given back", ranks: protocol.RanksEnded{Code: 1, Step: 4}, notice: notice, noticeAt: noticeAt,
			want: times{
				"a 1 useful": noticeAt / 2, "a 1 lost": noticeAt / 2, "a 1 overhead": ranksTake - noticeAt,
				"b 2 never_started": ranksTake - noticeAt,
				"c 2 useful":        ranksTake,
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &stage{ranks: first(tt.ranks, nil), price: 1, unwatched: true, spot: tt.spot}
			s.from = func(generation int) int64 { return int64(min(2*(generation-1), 2)) }
			env := s.environment(t)
			var b books
			b.keep(s, env)
			if tt.noticeAt > 0 {
				env.RegisterDelayedCallback(func() {
					tt.notice.Until = env.Now().Add(time.Minute)
					env.SignalWorkflow(protocol.NoticeSignal, tt.notice)
				}, tt.noticeAt)
			}
			retry := spec.Retry{Backoff: spec.Duration(pause), Errors: []string{fault.User, fault.Infrastructure}}
			if err := s.train(t, env, retry); err != nil {
				t.Fatal(err)
			}
			g := s.collected.Generations
			got, of, usd := times{}, map[string]time.Duration{}, 0.0
			for _, c := range ledger.Account(b.entries, g, make([]checkpoint.Progress, len(g)), env.Now()) {
				took := time.Duration(c.Seconds * float64(time.Second))
				got[fmt.Sprintf("%s %d %s", c.Node, c.Generation, c.Outcome)] += took
				of[c.Node] += took
				if c.Generation <= len(g) {
					usd += *c.CostUSD
				}
			}
			for _, e := range b.entries {
				n := e.Gang.Nodes[0]
				if wall := n.EndedAt.Sub(n.BeganAt); n.EndedAt.IsZero() || (wall-of[n.Name]).Abs() > time.Millisecond {
					t.Errorf("node %s was paid for from %v to %v, and the ledger has %v", n.Name, n.BeganAt, n.EndedAt, of[n.Name])
				}
			}
			few := cmpopts.IgnoreMapEntries(func(_ string, took time.Duration) bool { return took < time.Second })
			if diff := cmp.Diff(tt.want, got, few, cmp.Comparer(func(a, b time.Duration) bool { return (a - b).Abs() < time.Second })); diff != "" {
				t.Errorf("the time of nodes (-want +got):\n%s", diff)
			}
			for _, one := range g {
				usd -= one.CostUSD
			}
			if math.Abs(usd) > 1e-9 {
				t.Errorf("the nodes cost $%g more than the generations", usd)
			}
		})
	}
}
