package agent

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/proc"
	"github.com/sluiceml/sluice/internal/script"
	"github.com/sluiceml/sluice/internal/testing/rig"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/checkpoint"
	"github.com/sluiceml/sluice/training/protocol"
)

// gang is nodes that this test's process plays the agents of.
type gang struct {
	nodes []*node
	ranks []*ranks
}

// startGang starts a shell script by a launcher on some nodes.
func startGang(t *testing.T, nodes int, spec spec.Train, text string) gang {
	t.Helper()
	return startGangOn(t, openMem(t), nodes, spec, text)
}

func openMem(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), "mem://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// startGangOn starts one that commits to a given store.
func startGangOn(t *testing.T, s *store.Store, nodes int, spec spec.Train, text string) gang {
	t.Helper()
	port, err := proc.FreePort(t.Context(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	var g gang
	for i := range nodes {
		dir := t.TempDir()
		n := &node{config: protocol.AgentConfig{Dir: dir, LogDir: filepath.Join(dir, "logs"), Host: "127.0.0.1", CPUs: 2}, store: s, log: slog.Default(), stallFloor: time.Minute}
		p := &prepared{key: training.Key{Run: "r", Step: "s", Generation: 1}, index: i, spec: spec, seal: checkpoint.Seal{Generation: 1}}
		if err := p.makeDirs(n.config); err != nil {
			t.Fatal(err)
		}
		p.folder = &script.Folder{
			Argv: []string{"sh", "-c", text}, Work: dir, Output: dir, Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir},
		}
		n.prepared = p
		r, err := n.launch(protocol.RunRanksInput{
			Protocol: protocol.AgentProtocol, Generation: 1, Node: i, Nodes: nodes, MasterAddress: "127.0.0.1", MasterPort: port,
		})
		if err != nil {
			t.Fatal(err)
		}
		g.nodes, g.ranks = append(g.nodes, n), append(g.ranks, r)
		t.Cleanup(func() { r.kill(); <-r.done })
	}
	return g
}

// await waits until a file has appeared on a node.
func (g gang) await(t *testing.T, node int, path string) {
	t.Helper()
	tick := time.NewTicker(lookEvery / 4)
	defer tick.Stop()
	for limit := time.After(time.Minute); ; {
		if _, err := os.Stat(filepath.Join(g.ranks[node].p.dirs.root, path)); err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-g.ranks[node].done:
			t.Fatalf("node %d ended before %s was there: %+v, %v; it said:\n%s", node, path, g.ranks[node].ended, g.ranks[node].err, g.ranks[node].started.tail)
		case <-limit:
			t.Fatalf("%s does not appear on node %d, which said:\n%s", path, node, g.ranks[node].started.tail)
		}
	}
}

func (g gang) end(t *testing.T, node int) protocol.RanksEnded {
	t.Helper()
	select {
	case <-g.ranks[node].done:
	case <-time.After(time.Minute):
		t.Fatalf("node %d does not end; it said:\n%s", node, g.ranks[node].started.tail)
	}
	if err := g.ranks[node].err; err != nil {
		t.Fatalf("node %d: %v", node, err)
	}
	return g.ranks[node].ended
}

// needsTorch puts the project's Python first.
func needsTorch(t *testing.T) {
	t.Helper()
	bin, err := filepath.Abs("../../.venv/bin")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	if out, err := exec.Command("../../.venv/bin/python3", "-c", "import torch").CombinedOutput(); err != nil {
		rig.Skip(t, fmt.Sprintf("torch is not in .venv, which make setup makes: %v: %s", err, out))
	}
}

// stopping ranks: those but rank 0 go at once when they are told to stop, rank 0 takes its time to write the checkpoint.
const stopping = `
stop() {
  if [ "$RANK" != 0 ]; then exit 143; fi
  sleep 1
  mkdir "$SLUICE_CHECKPOINT_DIR/.new" && echo w > "$SLUICE_CHECKPOINT_DIR/.new/weights"
  mv "$SLUICE_CHECKPOINT_DIR/.new" "$SLUICE_CHECKPOINT_DIR/step-7"
  exit 143
}
trap stop TERM
if [ "$RANK" = 0 ]; then echo '{"step":7,"loss":1}' >> "$SLUICE_METRICS"; fi
echo "I am $RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE here"
while true; do sleep 0.05; done
`

// TestTorchrunStopsOnNotice: torchrun takes the first rank that exits for a failure and kills the others, and its own exit code is 1.
func TestTorchrunStopsOnNotice(t *testing.T) {
	needsTorch(t)
	g := startGang(t, 2, spec.Train{Launcher: spec.LauncherTorchrun, Placement: spec.Placement{Resources: spec.Resources{GPU: 2}}}, stopping)
	for node := range 2 {
		for _, local := range []string{"0", "1"} {
			g.await(t, node, "ranks/"+startedFiles+local)
		}
	}
	for i, n := range g.nodes {
		if err := n.Stop(t.Context(), protocol.StopInput{Generation: 1, Grace: 20 * time.Second}); err != nil {
			t.Fatal(err)
		}
		end := g.end(t, i)
		if end.Code != exitStopped || end.Signal != 0 || !end.Stopped || end.Ranks != 2 {
			t.Errorf("node %d ended %+v, want 143", i, end)
		}
		log := storedLog(t, n.store, i)
		if want := fmt.Sprintf("I am %d of 4, 1 of 2 here", 2*i+1); !strings.Contains(log, want) {
			t.Errorf("the log of node %d lacks %q:\n%s", i, want, log)
		}
	}
	if step := g.ranks[0].ended.CommittedStep; step != 7 {
		t.Errorf("committed step %d, want 7", step)
	}
}

// TestTorchrunTellsWhoFailed: of four ranks one fails by itself; torchrun ends the other on its node.
func TestTorchrunTellsWhoFailed(t *testing.T) {
	needsTorch(t)
	g := startGang(t, 1, spec.Train{Launcher: spec.LauncherTorchrun, Placement: spec.Placement{Resources: spec.Resources{GPU: 2}}}, `
if [ "$RANK" = 1 ]; then echo "the real reason"; exit 7; fi
while true; do sleep 0.05; done`)
	end := g.end(t, 0)
	if end.Code != 7 || end.Local != 1 || end.Stopped || end.Tail != "the real reason" {
		t.Errorf("ended %+v, want rank 1 with exit code 7 and its own words", end)
	}
}

// TestTorchrunInScript: a torchrun that the command starts makes one world of all nodes.
func TestTorchrunInScript(t *testing.T) {
	needsTorch(t)
	g := startGang(t, 2, spec.Train{}, `exec python3 -m torch.distributed.run --redirects=1 --tee=1 --no_python sh -c 'echo "I am $RANK of $WORLD_SIZE"'`)
	for i := range g.nodes {
		if end := g.end(t, i); end.Code != 0 || end.Signal != 0 {
			t.Errorf("node %d ended %+v, want 0", i, end)
		}
		log := storedLog(t, g.nodes[i].store, i)
		if want := fmt.Sprintf("I am %d of 2", i); !strings.Contains(log, want) {
			t.Errorf("the log of node %d lacks %q:\n%s", i, want, log)
		}
	}
}

// TestTorchrunMissing: what the launcher says counts where no rank said anything.
func TestTorchrunMissing(t *testing.T) {
	p := t.TempDir()
	if err := os.WriteFile(filepath.Join(p, "python3"), []byte("#!/bin/sh\necho No module named torch; exit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", p+":"+os.Getenv("PATH"))
	g := startGang(t, 1, spec.Train{Launcher: spec.LauncherTorchrun}, "true")
	if end := g.end(t, 0); end.Code != 1 || !strings.Contains(end.Tail, "torch") || end.Last != "No module named torch" {
		t.Errorf("ended %+v, want what python said", end)
	}
}

// TestRankKilledUnderItsShell: the shell is what is watched of a rank, with a launcher and without.
func TestRankKilledUnderItsShell(t *testing.T) {
	const text = `echo "it works"; bash -c 'kill -9 $$'; exit $?`
	specs := map[string]spec.Train{"no launcher": {}}
	if _, err := exec.LookPath("mpirun"); err == nil {
		specs["mpirun"] = spec.Train{Launcher: spec.LauncherMPI, Placement: spec.Placement{Resources: spec.Resources{CPU: 1}}}
	}
	for name, sp := range specs {
		t.Run(name, func(t *testing.T) {
			g := startGang(t, 1, sp, text)
			if end := g.end(t, 0); syscall.Signal(end.Signal) != syscall.SIGKILL || end.Code != -1 {
				t.Errorf("ended %+v, want it killed", end)
			}
		})
	}
}

func TestMPI(t *testing.T) {
	if _, err := exec.LookPath("mpirun"); err != nil {
		rig.Skip(t, "mpirun is not installed")
	}
	g := startGang(t, 1, spec.Train{Launcher: spec.LauncherMPI, Placement: spec.Placement{Resources: spec.Resources{CPU: 3}}}, stopping)
	for _, local := range []string{"0", "1", "2"} {
		g.await(t, 0, "ranks/"+startedFiles+local)
	}
	if err := g.nodes[0].Stop(t.Context(), protocol.StopInput{Generation: 1, Grace: 20 * time.Second}); err != nil {
		t.Fatal(err)
	}
	if end := g.end(t, 0); end.Code != exitStopped || !end.Stopped || end.Ranks != 3 || end.CommittedStep != 7 {
		t.Errorf("ended %+v, want 143 and step 7 committed", end)
	}
	g = startGang(t, 1, spec.Train{Launcher: spec.LauncherMPI, Placement: spec.Placement{Resources: spec.Resources{CPU: 3}}}, `
if [ "$RANK" = 2 ]; then echo "the real reason"; kill -9 $$; fi
while true; do sleep 0.05; done`)
	if end := g.end(t, 0); syscall.Signal(end.Signal) != syscall.SIGKILL || end.Local != 2 || end.Tail != "the real reason" {
		t.Errorf("ended %+v, want rank 2 killed", end)
	}
	g = startGang(t, 1, spec.Train{Launcher: spec.LauncherMPI, Placement: spec.Placement{Resources: spec.Resources{CPU: 2}}}, `echo "$RANK of $WORLD_SIZE done"`)
	if end := g.end(t, 0); end.Code != 0 || end.Signal != 0 {
		t.Errorf("ended %+v, want the end of all", end)
	}
}

func TestOutcome(t *testing.T) {
	at := func(n int) time.Time { return time.Unix(int64(n), 0) }
	var (
		ok         = rankEnd{Local: 0, EndedAt: at(9)}
		stopped    = rankEnd{Local: 1, Code: exitStopped, EndedAt: at(8)}
		failed     = rankEnd{Local: 1, Code: 7, EndedAt: at(2)}
		later      = rankEnd{Local: 2, Code: 1, EndedAt: at(3)}
		killed     = rankEnd{Local: 2, Code: -1, Signal: 9, EndedAt: at(4)}
		terminated = rankEnd{Local: 0, Code: -1, Signal: 15, EndedAt: at(1)}
		launcher   = rankEnd{Code: 1, EndedAt: at(10)}
	)
	for _, tt := range []struct {
		name     string
		ends     []rankEnd
		launcher rankEnd
		want     rankEnd
	}{
		{"none was started", nil, launcher, launcher},
		{"all finished", []rankEnd{ok}, rankEnd{}, ok},
		{"all finished, and the launcher failed", []rankEnd{ok}, launcher, ok},
		{"one stopped and one finished", []rankEnd{ok, stopped}, launcher, stopped},
		{"the first to fail", []rankEnd{terminated, later, failed}, launcher, failed},
		{"a kill explains the failures", []rankEnd{failed, killed}, launcher, killed},
		{"terminated by the launcher alone", []rankEnd{terminated, stopped}, launcher, terminated},
	} {
		n := 1 + slices.MaxFunc(append(tt.ends, rankEnd{}), func(a, b rankEnd) int { return a.Local - b.Local }).Local
		ends := tt.ends
		for local := range n {
			if len(tt.ends) > 0 && !slices.ContainsFunc(ends, func(e rankEnd) bool { return e.Local == local }) {
				ends = append(ends, rankEnd{Local: local, EndedAt: at(20)})
			}
		}
		if diff := cmp.Diff(tt.want, outcome(ends, n, tt.launcher)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	gone := outcome([]rankEnd{ok, stopped}, 3, launcher)
	if gone.Local != 2 || gone.Signal != 9 {
		t.Errorf("a rank that was killed with its watcher: %+v", gone)
	}
}

// What is left on a node does not live on for long when it is over there.
func TestPatience(t *testing.T) {
	const failedLimit = 5 * time.Second // whatever that of the agent is
	at := time.Unix(100, 0)
	stopped, failed := rankEnd{Code: exitStopped, EndedAt: at}, rankEnd{Code: 1, EndedAt: at}
	for _, tt := range []struct {
		name string
		ends []rankEnd
		want time.Time
	}{
		{"all run", nil, time.Time{}},
		{"one has finished", []rankEnd{{EndedAt: at}}, time.Time{}},
		{"all have finished", []rankEnd{{EndedAt: at}, {EndedAt: at}}, time.Time{}},
		{"one has stopped, the other writes its checkpoint", []rankEnd{stopped}, time.Time{}},
		{"all have stopped", []rankEnd{stopped, stopped}, at.Add(launcherLimit)},
		{"one has failed", []rankEnd{failed}, at.Add(failedLimit)},
		{"all have ended, one by failing", []rankEnd{failed, {EndedAt: at.Add(time.Minute)}}, at.Add(time.Minute + launcherLimit)},
	} {
		if got := patience(tt.ends, 2, false); !got.Equal(tt.want) {
			t.Errorf("%s: until %v, want %v", tt.name, got, tt.want)
		}
	}
	if got := patience([]rankEnd{{EndedAt: at}, {EndedAt: at}}, 2, true); !got.Equal(at.Add(launcherLimit)) {
		t.Errorf("all have finished, and were told to stop: until %v", got)
	}
}

func TestTensorFlowConfig(t *testing.T) {
	p := &prepared{index: 1, spec: spec.Train{Launcher: spec.LauncherTensorFlow}, folder: &script.Folder{Argv: []string{"/bin/fit"}}}
	l, err := launchOf(p, protocol.RunRanksInput{Nodes: 2, Peers: []string{"10.0.0.1:20001", "10.0.0.2:20002"}}, "/bin/agent")
	if err != nil {
		t.Fatal(err)
	}
	var got any
	if err := json.Unmarshal([]byte(l.vars["TF_CONFIG"]), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"cluster": map[string]any{"worker": []any{"10.0.0.1:20001", "10.0.0.2:20002"}},
		"task":    map[string]any{"type": "worker", "index": 1.0},
	}
	if diff := cmp.Diff(want, any(got)); diff != "" {
		t.Error(diff)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	spec := spec.Train{Placement: spec.Placement{Resources: spec.Resources{Memory: 100 << 20}}}
	g := startGang(t, 1, spec, `echo hungry; (python3 -c 'import time; x = b"x" * (200 << 20); time.sleep(60)' & wait)`)
	end := g.end(t, 0)
	if !strings.Contains(end.OverMemory, "more than `memory: 100MiB`") || syscall.Signal(end.Signal) != syscall.SIGKILL || end.Tail != "hungry" {
		t.Errorf("ended %+v, want it killed for its memory", end)
	}
}

// What processes share counts once.
func TestSharedMemoryCountsOnce(t *testing.T) {
	procfs := t.TempDir()
	for pid, parent := range map[int]int{10: 1, 11: 10, 12: 10, 13: 1} {
		dir := filepath.Join(procfs, strconv.Itoa(pid))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{
			"stat":         fmt.Sprintf("%d (a (b) c) S %d 1 1", pid, parent),
			"statm":        fmt.Sprintf("9 %d 0 0 0 0 0", (100<<20)/os.Getpagesize()),
			"smaps_rollup": "55d0-7ffd ---p 0 00:00 0 [rollup]\nRss:  102400 kB\nPss:   40960 kB\nPss_Anon: 0 kB\n",
		} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := treeMemory(procfs, 11, 150<<20); got != 80<<20 {
		t.Errorf("%s are used, want 80MiB: two processes of 40MiB each", got)
	}
	if got := treeMemory(procfs, 99, 1<<20); got != 0 {
		t.Errorf("a process that has ended uses %s", got)
	}
}

func TestKillsOfTheKernel(t *testing.T) {
	root := t.TempDir()
	for path, text := range map[string]string{
		"proc/self/cgroup":            "0::/pod\n",
		"sys/fs/cgroup/memory.events": "low 0\nhigh 0\nmax 12\noom 2\noom_kill 3\n",
	} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if n := oomKills(root); n != 3 {
		t.Errorf("%d, want 3", n)
	}
}
