package ledger

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/checkpoint"
)

var start = time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC)

// at is so many seconds after the start.
func at(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }

// node is one that costs from one time to another; 0 for the end: it is still there.
func node(name string, began, ended float64) training.Node {
	n := training.Node{Name: name, Queue: "queue of " + name, Type: "g5", Zone: "a", BeganAt: at(began)}
	if ended > 0 {
		n.EndedAt = at(ended)
	}
	return n
}

func gang(generation int, pool string, nodes ...training.Node) Entry {
	return Entry{Generation: generation, Pool: pool, Gang: training.Gang{Capacity: spec.CapacitySpot, USDPerHour: 3600, Nodes: nodes}}
}

func whole(e Entry) Entry {
	e.Whole = true
	return e
}

func opened(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), "file://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// What is entered of gangs: each once, whatever is entered again, with the earliest end that was seen.
func TestEntries(t *testing.T) {
	k := training.Key{Run: "r", Step: "fit", Generation: 2}
	open := func(e Entry) func(*store.Store) (fault.Costs, error) {
		return func(s *store.Store) (fault.Costs, error) { return Open(t.Context(), s, k, e) }
	}
	closed := func(pool string, lost Lost, now float64, ended ...Entry) func(*store.Store) (fault.Costs, error) {
		return func(s *store.Store) (fault.Costs, error) { return Close(t.Context(), s, k, pool, ended, lost, at(now)) }
	}
	replaced := gang(2, "gpu", node("c", 20, 0))
	replaced.Gang.Ended = []training.Gang{gang(2, "gpu", node("a", 0, 7)).Gang}
	for _, tt := range []struct {
		name string
		do   []func(*store.Store) (fault.Costs, error)
		want []Entry
		paid float64 // at the end
	}{
		{
			"released as the pool says",
			[]func(*store.Store) (fault.Costs, error){
				open(gang(2, "gpu", node("a", 0, 0), node("b", 1, 0))),
				closed("gpu", Lost{}, 99, gang(2, "gpu", node("a", 0, 8), node("b", 1, 9))),
			},
			[]Entry{whole(gang(2, "gpu", node("a", 0, 8), node("b", 1, 9)))},
			16,
		},
		{
			"the pool knows nothing of it any more",
			[]func(*store.Store) (fault.Costs, error){open(gang(2, "gpu", node("a", 0, 0))), closed("gpu", Lost{}, 10)},
			[]Entry{whole(gang(2, "gpu", node("a", 0, 10)))},
			10,
		},
		{
			"lost before it was released",
			[]func(*store.Store) (fault.Costs, error){
				open(gang(2, "gpu", node("a", 0, 0), node("b", 0, 0))),
				closed("gpu", Lost{Queues: []string{"queue of b"}, At: at(5)}, 10, gang(2, "gpu", node("a", 0, 9), node("b", 0, 0))),
			},
			[]Entry{whole(gang(2, "gpu", node("a", 0, 9), node("b", 0, 5)))},
			14,
		},
		{
			"entered and released again",
			[]func(*store.Store) (fault.Costs, error){
				open(gang(2, "gpu", node("a", 0, 0))), open(gang(2, "gpu", node("a", 0, 0))),
				closed("gpu", Lost{}, 10, gang(2, "gpu", node("a", 0, 8))), closed("gpu", Lost{}, 20),
			},
			[]Entry{whole(gang(2, "gpu", node("a", 0, 8)))},
			8,
		},
		{
			"failed to start, and then another",
			[]func(*store.Store) (fault.Costs, error){closed("gpu", Lost{}, 10, gang(2, "gpu", node("a", 0, 7))), open(gang(2, "gpu", node("b", 12, 0)))},
			[]Entry{gang(2, "gpu", node("a", 0, 7)), whole(gang(2, "gpu", node("b", 12, 0)))},
			7,
		},
		{
			"replaced before anybody knew of it",
			[]func(*store.Store) (fault.Costs, error){open(replaced)},
			[]Entry{gang(2, "gpu", node("a", 0, 7)), whole(gang(2, "gpu", node("c", 20, 0)))},
			7,
		},
		{
			"another pool is asked in vain",
			[]func(*store.Store) (fault.Costs, error){open(gang(2, "gpu", node("a", 0, 0))), closed("burst", Lost{}, 10)},
			[]Entry{whole(gang(2, "gpu", node("a", 0, 0)))},
			0,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := opened(t)
			var paid fault.Costs
			for _, do := range tt.do {
				var err error
				if paid, err = do(s); err != nil {
					t.Fatal(err)
				}
			}
			got, err := Load(t.Context(), s, "r", "fit")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateEmpty()); diff != "" || paid.USD != tt.paid {
				t.Errorf("paid $%v, want $%v; entries (-want +got):\n%s", paid.USD, tt.paid, diff)
			}
		})
	}
}

// ran is a generation of two steps a second on pool gpu.
func ran(index int, from, to int64, times ...float64) spec.Generation {
	return spec.Generation{
		Index: index, Pool: "gpu", Nodes: 1, FromStep: from, ToStep: to, End: spec.EndNodeLost,
		StartedAt: at(times[0]), RanAt: at(times[1]), StoppedAt: at(times[2]), EndedAt: at(times[3]),
	}
}

// on is a generation that went on with the gang of another.
func on(gang int, g spec.Generation) spec.Generation {
	g.Gang = gang
	return g
}

func finished(g spec.Generation) spec.Generation {
	g.End, g.CommittedStep = spec.EndFinished, g.ToStep
	return g
}

// What came of the time of nodes.
func TestAccount(t *testing.T) {
	type part struct {
		Node       string
		Generation int
		Outcome    spec.Outcome
		Seconds    float64
	}
	lostAgain := spec.Generation{Index: 2, Pool: "gpu", Nodes: 2, End: spec.EndNodeLost, FromStep: 20, ToStep: 20, CommittedStep: 20, StartedAt: at(13), EndedAt: at(20)}
	neverRan := spec.Generation{Index: 1, Pool: "gpu", Nodes: 1, End: spec.EndNodeLost, StartedAt: at(0), EndedAt: at(10)}
	stopped := ran(1, 0, 10, 0, 2, 12, 13)
	stopped.End, stopped.CommittedStep = spec.EndTimeout, 5
	silent := finished(ran(1, 0, 0, 0, 2, 12, 13))
	for _, tt := range []struct {
		name        string
		entries     []Entry
		generations []spec.Generation
		progress    map[int]checkpoint.Progress
		want        []part
	}{
		{
			"finished",
			[]Entry{whole(gang(1, "gpu", node("a", 0, 13)))},
			[]spec.Generation{finished(ran(1, 0, 20, 0, 2, 12, 13))},
			nil,
			[]part{{"a", 1, spec.OutcomeUseful, 10}, {"a", 1, spec.OutcomeOverhead, 3}},
		},
		{
			"steps lost",
			[]Entry{whole(gang(1, "gpu", node("a", 0, 13))), whole(gang(2, "gpu", node("b", 13, 26)))},
			[]spec.Generation{ran(1, 0, 20, 0, 2, 12, 13), finished(ran(2, 15, 35, 13, 15, 25, 26))},
			nil,
			[]part{
				{"a", 1, spec.OutcomeUseful, 7.5},
				{"a", 1, spec.OutcomeLost, 2.5},
				{"a", 1, spec.OutcomeOverhead, 3},
				{"b", 2, spec.OutcomeUseful, 10},
				{"b", 2, spec.OutcomeOverhead, 3},
			},
		},
		{
			"a checkpoint that could not be used",
			[]Entry{whole(gang(1, "gpu", node("a", 0, 12))), whole(gang(2, "gpu", node("b", 12, 22))), whole(gang(3, "gpu", node("c", 22, 32)))},
			[]spec.Generation{ran(1, 0, 20, 0, 2, 12, 12), ran(2, 20, 40, 12, 12, 22, 22), finished(ran(3, 10, 40, 22, 22, 32, 32))},
			nil,
			[]part{
				{"a", 1, spec.OutcomeUseful, 5},
				{"a", 1, spec.OutcomeLost, 5},
				{"a", 1, spec.OutcomeOverhead, 2},
				{"b", 2, spec.OutcomeLost, 10},
				{"c", 3, spec.OutcomeUseful, 10},
			},
		},
		{
			"a node that was lost before the rest",
			[]Entry{whole(gang(1, "gpu", node("a", 0, 13), node("b", 0, 7)))},
			[]spec.Generation{finished(ran(1, 0, 20, 0, 2, 12, 13))},
			nil,
			[]part{{"a", 1, spec.OutcomeUseful, 10}, {"a", 1, spec.OutcomeOverhead, 3}, {"b", 1, spec.OutcomeUseful, 5}, {"b", 1, spec.OutcomeOverhead, 2}},
		},
		{
			"restored before the first step",
			[]Entry{whole(gang(1, "gpu", node("a", 0, 13)))},
			[]spec.Generation{finished(ran(1, 0, 10, 0, 2, 12, 13))},
			map[int]checkpoint.Progress{1: {FirstStep: 2, FirstAt: at(6), Step: 8, At: at(12)}}, // a step a second, so that the first began at 4
			[]part{{"a", 1, spec.OutcomeUseful, 8}, {"a", 1, spec.OutcomeOverhead, 5}},
		},
		{
			"not finished",
			[]Entry{whole(gang(1, "gpu", node("a", 0, 13)))},
			[]spec.Generation{stopped},
			nil,
			[]part{{"a", 1, spec.OutcomeUseful, 5}, {"a", 1, spec.OutcomeLost, 5}, {"a", 1, spec.OutcomeOverhead, 3}},
		},
		{
			"no steps reported",
			[]Entry{whole(gang(1, "gpu", node("a", 0, 13)))},
			[]spec.Generation{silent},
			nil,
			[]part{{"a", 1, spec.OutcomeUseful, 10}, {"a", 1, spec.OutcomeOverhead, 3}},
		},
		{
			"failed to boot, and then another",
			[]Entry{gang(1, "gpu", node("a", 0, 5)), whole(gang(1, "gpu", node("b", 6, 19)))},
			[]spec.Generation{finished(ran(1, 0, 20, 6, 8, 18, 19))},
			nil,
			[]part{{"a", 1, spec.OutcomeNeverStarted, 5}, {"b", 1, spec.OutcomeUseful, 10}, {"b", 1, spec.OutcomeOverhead, 3}},
		},
		{
			"given back, because the gang before ended first",
			[]Entry{whole(gang(1, "gpu", node("a", 0, 13))), whole(gang(2, "gpu", node("b", 8, 12))), whole(gang(2, "gpu", node("c", 13, 26)))},
			[]spec.Generation{ran(1, 0, 20, 0, 2, 12, 13), finished(ran(2, 20, 40, 13, 15, 25, 26))},
			nil,
			[]part{
				{"a", 1, spec.OutcomeUseful, 10},
				{"a", 1, spec.OutcomeOverhead, 3},
				{"b", 2, spec.OutcomeNeverStarted, 4},
				{"c", 2, spec.OutcomeUseful, 10},
				{"c", 2, spec.OutcomeOverhead, 3},
			},
		},
		{
			"lost before it ran",
			[]Entry{whole(gang(1, "gpu", node("a", 0, 9)))},
			[]spec.Generation{neverRan},
			nil,
			[]part{{"a", 1, spec.OutcomeNeverStarted, 9}},
		},
		{
			"two generations on the same nodes, while others were given back",
			[]Entry{whole(gang(1, "gpu", node("a", 0, 26))), whole(gang(2, "gpu", node("b", 8, 14)))},
			[]spec.Generation{ran(1, 0, 20, 0, 2, 12, 13), on(1, finished(ran(2, 10, 30, 13, 15, 25, 26)))},
			nil,
			[]part{
				{"a", 1, spec.OutcomeUseful, 5},
				{"a", 1, spec.OutcomeLost, 5},
				{"a", 1, spec.OutcomeOverhead, 3},
				{"a", 2, spec.OutcomeUseful, 10},
				{"a", 2, spec.OutcomeOverhead, 3},
				{"b", 2, spec.OutcomeNeverStarted, 6},
			},
		},
		{
			"the same nodes, lost before they ran again",
			[]Entry{whole(gang(1, "gpu", node("a", 0, 12), node("b", 0, 20))), whole(gang(3, "gpu", node("c", 20, 30)))},
			[]spec.Generation{ran(1, 0, 20, 0, 2, 12, 13), on(1, lostAgain), finished(ran(3, 20, 40, 20, 20, 30, 30))},
			nil,
			[]part{
				{"a", 1, spec.OutcomeUseful, 10},
				{"a", 1, spec.OutcomeOverhead, 2},
				{"b", 1, spec.OutcomeUseful, 10},
				{"b", 1, spec.OutcomeOverhead, 3},
				{"b", 2, spec.OutcomeOverhead, 7},
				{"c", 3, spec.OutcomeUseful, 10},
			},
		},
		{
			"acquired while the gang before wrote its checkpoint",
			[]Entry{whole(gang(1, "gpu", node("a", 0, 13))), whole(gang(2, "gpu", node("b", 10, 25)))},
			[]spec.Generation{ran(1, 0, 20, 0, 2, 12, 13), finished(ran(2, 20, 40, 10, 15, 25, 25))},
			nil,
			[]part{
				{"a", 1, spec.OutcomeUseful, 10},
				{"a", 1, spec.OutcomeOverhead, 3},
				{"b", 2, spec.OutcomeUseful, 10},
				{"b", 2, spec.OutcomeOverhead, 5},
			},
		},
		{"nothing ran at all", []Entry{gang(1, "gpu", node("a", 0, 5))}, nil, nil, []part{{"a", 1, spec.OutcomeNeverStarted, 5}}},
		{"still there", []Entry{gang(1, "gpu", node("a", 0, 0))}, nil, nil, []part{{"a", 1, spec.OutcomeNeverStarted, 100}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			progress := make([]checkpoint.Progress, len(tt.generations))
			for i, g := range tt.generations {
				progress[i] = tt.progress[g.Index]
			}
			var got []part
			for _, c := range Account(tt.entries, tt.generations, progress, at(100)) {
				got = append(got, part{c.Node, c.Generation, c.Outcome, c.Seconds})
				if want := c.Seconds * c.USDPerHour / 3600; c.CostUSD == nil || *c.CostUSD != want {
					t.Errorf("%s cost %v, want %v", c.Node, c.CostUSD, want)
				}
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
				t.Errorf("the time of nodes (-want +got):\n%s", diff)
			}
		})
	}
}

// The sum of what is unknown is unknown, and never 0.
func TestSum(t *testing.T) {
	two, three, five := 2.0, 3.0, 5.0
	costs := []spec.NodeCost{
		{Pool: "gpu", Outcome: spec.OutcomeUseful, Seconds: 20, CostUSD: &two},
		{Pool: "gpu", Outcome: spec.OutcomeUseful, Seconds: 30, CostUSD: &three},
		{Pool: "burst", Outcome: spec.OutcomeUseful, Seconds: 1, PriceUnknown: true},
		{Pool: "burst", Type: "g5", Outcome: spec.OutcomeLost, Seconds: 5, CostUSD: &five},
	}
	lines, outcomes := Sum(costs)
	want := []spec.CostLine{
		{Pool: "burst", Outcome: spec.OutcomeUseful, Spent: spec.Spent{NodeSeconds: 1}},
		{Pool: "burst", Type: "g5", Outcome: spec.OutcomeLost, Spent: spec.Spent{NodeSeconds: 5, CostUSD: &five}},
		{Pool: "gpu", Outcome: spec.OutcomeUseful, Spent: spec.Spent{NodeSeconds: 50, CostUSD: &five}},
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	none := 0.0
	all := spec.Outcomes{
		Useful: spec.Spent{NodeSeconds: 51}, Lost: spec.Spent{NodeSeconds: 5, CostUSD: &five},
		Overhead: spec.Spent{CostUSD: &none}, NeverStarted: spec.Spent{CostUSD: &none},
	}
	if diff := cmp.Diff(all, outcomes); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
}
