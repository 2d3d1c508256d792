package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// life is how long a process was seen.
type life struct{ began, ended time.Time }

// watchAgents notes the lives of all agents of the bench, as /proc shows them, until the returned function is called. A node's name here is
// its folder, <run>-<step>-g<generation>/node<i>.
func (b *trainBench) watchAgents() (lives func() map[string]life) {
	b.t.Helper()
	seen := map[string]life{}
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range poll.Every(b.t.Context(), 20*time.Millisecond) {
			now := time.Now()
			for node := range b.agentsNow() {
				l, known := seen[node]
				if !known {
					l.began = now
				}
				l.ended = now
				seen[node] = l
			}
			select {
			case <-done:
				return
			default:
			}
		}
	}()
	return func() map[string]life {
		close(done)
		<-ended
		return seen
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

// checkNodes checks the ledger of each node against the lives of the agents.
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
	seconds, total, usd := map[string]float64{}, 0.0, 0.0
	for _, n := range nodes {
		var i int
		if _, err := fmt.Sscanf(n.Node, "local-%d", &i); err != nil {
			b.t.Fatal(err)
		}
		seconds[fmt.Sprintf("r1-fit-g%d/node%d", n.Generation, i)] += n.Seconds
		total += n.Seconds
		usd += *n.CostUSD
	}
	for node, l := range lives {
		if wall := l.ended.Sub(l.began).Seconds(); seconds[node] < wall-0.5 || seconds[node] > wall+0.5 {
			b.t.Errorf("the ledger has %.2f s of %s, whose agent lived for %.2f s", seconds[node], node, wall)
		}
		b.t.Logf("%s: %.2f s in the ledger, %.2f s by /proc", node, seconds[node], l.ended.Sub(l.began).Seconds())
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
//
// promise: docs/training.md#p-node-time
func TestTrainLedgerIsTheNodesWallTime(t *testing.T) {
	b := newTrainBench(t, ", interruptions: {mean_up: 2s, notice: 2s, without_notice: 50%, gap: 1s}}, capacity: [spot, on_demand], usd_per_hour: {spot: 1, on_demand: 3", engineConfig{})
	b.env["STEPS"], b.env["STEP_SECONDS"] = "400", "0.03"
	b.change(func(sp *spec.Train) { sp.Capacity = spec.CapacitySpot })
	lives := b.watchAgents()
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
//
// promise: docs/training.md#p-never-started
func TestTrainLedgerHasNodesThatNeverStarted(t *testing.T) {
	b := newTrainBench(t, "}, usd_per_hour: {on_demand: 3600", engineConfig{})
	lives := b.watchAgents()
	b.execute()
	b.await("the first agent", func() bool {
		pid := b.agentsNow()["r1-fit-g1/node0"]
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
