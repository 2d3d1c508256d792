package integration

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// life is what is known of the life of a process that is looked for again and again, which takes long on a busy machine: it began after the
// look before it was first seen, and by the end of that one; it ended once it was last looked for and seen, and before it was seen no more.
type life struct {
	pid                         int
	after, began, ended, before time.Time
}

func (l life) shortest() float64 { return max(0, l.ended.Sub(l.began).Seconds()) }

func (l life) longest() float64 { return l.before.Sub(l.after).Seconds() }

// watchAgents notes the lives of all agents of the bench, as /proc shows them, until the returned function is called. A node's name here is
// its folder, <run>-<step>-g<generation>/node<i>. pid is the process of a node that has been seen, 0 of another.
func (b *trainBench) watchAgents() (lives func() map[string]life, pid func(node string) int) {
	b.t.Helper()
	var mu sync.Mutex
	seen := map[string]life{}
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		last := time.Now()
		for range poll.Every(b.t.Context(), 20*time.Millisecond) {
			over := isDone(done) // before the last look
			from := time.Now()
			running := b.agentsNow()
			to := time.Now()
			mu.Lock()
			for node, pid := range running {
				l, known := seen[node]
				if !known {
					l.after, l.began = last, to
				}
				l.pid, l.ended, l.before = pid, from, time.Time{}
				seen[node] = l
			}
			for node, l := range seen {
				if _, runs := running[node]; !runs && l.before.IsZero() {
					l.before = to
					seen[node] = l
				}
			}
			mu.Unlock()
			if last = from; over {
				return
			}
		}
	}()
	lives = func() map[string]life {
		close(done)
		<-ended
		return seen
	}
	return lives, func(node string) int {
		mu.Lock()
		defer mu.Unlock()
		return seen[node].pid
	}
}

func isDone(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// agentsNow lists the nodes whose agents run, by the variable that tells each its folder, with the agents' processes.
func (b *trainBench) agentsNow() map[string]int {
	nodes := map[string]int{}
	commands, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range commands {
		command, err := os.ReadFile(path)
		if err != nil || !strings.HasPrefix(string(command), agentPath+"\x00") {
			continue
		}
		environ, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "environ")) // it may have ended
		for _, v := range strings.Split(string(environ), "\x00") {
			if dir, ok := strings.CutPrefix(v, "SLUICE_NODE_DIR="); ok && strings.HasPrefix(dir, b.dir) {
				pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
				nodes[filepath.Base(filepath.Dir(dir))+"/"+filepath.Base(dir)] = pid
			}
		}
	}
	return nodes
}

// checkNodes checks the ledger of each node against the lives of the agents. A node that several generations ran on lived once.
func (b *trainBench) checkNodes(o outputs, lives map[string]life) []spec.NodeCost {
	b.t.Helper()
	s, err := store.Open(b.t.Context(), storeURL(b.dir))
	if err != nil {
		b.t.Fatal(err)
	}
	var nodes []spec.NodeCost
	if err := record.ReadBlob(b.t.Context(), s, o.Nodes, &nodes); err != nil {
		b.t.Fatal(err)
	}
	acquired := map[int]int{} // for which generation each one's gang was
	for _, g := range o.Generations {
		acquired[g.Index] = cmp.Or(g.Gang, g.Index)
	}
	seconds, total, usd := map[string]float64{}, 0.0, 0.0
	for _, n := range nodes {
		gang := acquired[n.Generation]
		if n.Outcome == spec.OutcomeNeverStarted {
			gang = n.Generation
		}
		var i int
		if _, err := fmt.Sscanf(n.Node, "local-%d", &i); err != nil {
			b.t.Fatal(err)
		}
		seconds[fmt.Sprintf("r1-fit-g%d/node%d", gang, i)] += n.Seconds
		total += n.Seconds
		usd += *n.CostUSD
	}
	for node, l := range lives {
		if l.before.IsZero() || seconds[node] < l.shortest()-0.5 || seconds[node] > l.longest()+0.5 {
			b.t.Errorf("the ledger has %.2f s of %s, whose agent lived for %.2f to %.2f s", seconds[node], node, l.shortest(), l.longest())
		}
		b.t.Logf("%s: %.2f s in the ledger, %.2f to %.2f s by /proc", node, seconds[node], l.shortest(), l.longest())
		delete(seconds, node)
	}
	if len(seconds) > 0 {
		b.t.Errorf("the ledger has nodes that nobody saw: %v", seconds)
	}
	if diff := total - o.NodeSeconds; diff < -1e-6 || diff > 1e-6 {
		b.t.Errorf("the nodes have %v s, and the outputs %v s", total, o.NodeSeconds)
	}
	if diff := usd - o.CostUSD; diff < -1e-9 || diff > 1e-9 {
		b.t.Errorf("the nodes cost $%v, and the outputs $%v", usd, o.CostUSD)
	}
	return nodes
}

// The ledger has the wall time of each node within half a second, whatever becomes of it.
func TestTrainLedgerIsTheNodesWallTime(t *testing.T) {
	b := newTrainBench(t, ", interruptions: {mean_up: 2s, notice: 2s, without_notice: 50%, gap: 1s}}, capacity: [spot, on_demand], usd_per_hour: {spot: 1, on_demand: 3", engineConfig{})
	b.env["STEPS"], b.env["STEP_SECONDS"] = "400", "0.03"
	b.change(func(sp *spec.Train) { sp.Capacity = spec.CapacitySpot })
	lives, _ := b.watchAgents()
	b.execute()
	o := b.result()
	b.checkAccount(o)
	b.checkNodes(o, lives())
	ends := map[spec.GenerationEnd]bool{}
	for _, g := range o.Generations {
		ends[g.End] = true
	}
	if !ends[spec.EndNotice] || !ends[spec.EndNodeLost] {
		t.Errorf("generations %+v, want interruptions with and without notice", o.Generations)
	}
	if o.Outcomes.Useful.NodeSeconds == 0 || o.Outcomes.Lost.NodeSeconds == 0 || o.Outcomes.Overhead.NodeSeconds == 0 {
		t.Errorf("outcomes %+v, want some of useful, lost and overhead", o.Outcomes)
	}
}

// Nodes that did not come to run are in the ledger, and in what the step cost.
func TestTrainLedgerHasNodesThatNeverStarted(t *testing.T) {
	b := newTrainBench(t, "}, usd_per_hour: {on_demand: 3600", engineConfig{})
	lives, pidOf := b.watchAgents()
	b.execute()
	b.await("the first agent", func() bool {
		pid := pidOf("r1-fit-g1/node0")
		return pid > 0 && syscall.Kill(pid, syscall.SIGKILL) == nil
	})
	o := b.result()
	for _, n := range b.checkNodes(o, lives()) {
		if never := n.Outcome == spec.OutcomeNeverStarted; never != (n.Generation == 1) {
			t.Errorf("of generation %d: %+v, want the first, and no other, never to have started", n.Generation, n)
		}
	}
	if cost := o.Outcomes.NeverStarted.CostUSD; cost == nil || *cost <= 0 || *cost != o.Generations[0].CostUSD {
		t.Errorf("the first generation cost $%v, and never started, which cost %+v", o.Generations[0].CostUSD, o.Outcomes.NeverStarted)
	}
}

// The time in which Sluice is dead is nobody's: it is neither in the ledger nor in the cost, and it does not use up a budget. The budget here
// is that of both nodes for as long as Sluice is dead.
func TestTrainDoesNotPayWhileSluiceIsDead(t *testing.T) {
	const dead, perHour = 45 * time.Second, 3600
	b := newTrainBench(t, fmt.Sprintf("}, usd_per_hour: {on_demand: %d", perHour), engineConfig{})
	b.in.BudgetUSD = 2 * perHour * dead.Hours()
	lives, _ := b.watchAgents()
	b.execute()
	b.awaitSteps(30)
	b.stop(syscall.SIGKILL)
	time.Sleep(dead)
	b.start()
	o := b.result()
	b.wantEnds(o, spec.EndNodeLost, spec.EndFinished)
	b.checkAccount(o)
	b.checkNodes(o, lives())
	if o.CostUSD >= b.in.BudgetUSD {
		t.Errorf("it cost $%.2f, of $%.2f", o.CostUSD, b.in.BudgetUSD)
	}
}
