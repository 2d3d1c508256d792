package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/script"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/checkpoint"
	"github.com/sluiceml/sluice/training/protocol"
)

// hanging makes steps until it is told to hang: then it hears no SIGTERM, and a process of its own has left for another session.
const hanging = `
trap '' TERM
step=0
until [ -e "$SLUICE_OUTPUT_DIR/hang" ]; do
  step=$((step + 1))
  echo "{\"step\":$step,\"loss\":1}" >> "$SLUICE_METRICS"
  sleep 0.02
done
setsid sleep 600 &
echo "$$ $!" > "$SLUICE_OUTPUT_DIR/processes"
echo "waiting after step $step"
wait
`

// TestHang: a rank that stops making steps is killed, with all it started, and said to have hung.
func TestHang(t *testing.T) {
	s, err := store.Open(t.Context(), "mem://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	n := &node{config: protocol.AgentConfig{Dir: dir, LogDir: filepath.Join(dir, "logs"), Host: "127.0.0.1"}, store: s, log: slog.Default(), stallFloor: time.Second}
	p := &prepared{key: training.Key{Run: "r", Step: "s", Generation: 1}, seal: checkpoint.Seal{Generation: 1}}
	if err := p.makeDirs(n.config); err != nil {
		t.Fatal(err)
	}
	p.folder = &script.Folder{
		Argv: []string{"sh", "-c", hanging}, Work: dir, Output: dir,
		Env: []string{"PATH=" + os.Getenv("PATH"), "SLUICE_METRICS=" + p.dirs.metrics, "SLUICE_OUTPUT_DIR=" + dir},
	}
	n.prepared = p
	r, err := n.launch(protocol.RunRanksInput{Protocol: protocol.AgentProtocol, Generation: 1, Nodes: 1, MasterAddress: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	limit := time.After(time.Minute)
	for tick := time.NewTicker(lookEvery); !paced(r.metrics); {
		select {
		case <-tick.C:
		case <-limit:
			r.kill()
			<-r.done
			t.Fatalf("the rank makes no steps; it said:\n%s", r.said.tail)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "hang"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	select {
	case <-r.done:
	case <-limit:
		r.kill()
		<-r.done
		t.Fatalf("a rank without steps is not killed; it said:\n%s", r.said.tail)
	}
	if r.err != nil || !r.ended.Hung || r.ended.Stopped || syscall.Signal(r.ended.Signal) != syscall.SIGKILL {
		t.Errorf("ended %+v, %v, want a hang and SIGKILL", r.ended, r.err)
	}
	if want := fmt.Sprintf("waiting after step %d", r.ended.Step); !strings.Contains(r.ended.Tail, want) {
		t.Errorf("its last words are %q, want %q", r.ended.Tail, want)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "processes"))
	if err != nil {
		t.Fatal(err)
	}
	for field := range strings.FieldsSeq(string(raw)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d is left: %v", pid, err)
		}
	}
}

// paced reports whether enough steps have been seen to tell a stall.
func paced(m *follower) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.spacing) >= stallAfter
}

// stuck is Python of which each rank waits for ever, in two threads, once all have come so far; rank 0 makes a step then.
const stuck = `exec python3 -u -c '
import os, threading, time
def read_batches():
    while True: time.sleep(600)
def all_reduce():
    threading.Event().wait()
threading.Thread(target=read_batches, daemon=True).start()
rank, ranks, folder = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), os.environ["SLUICE_OUTPUT_DIR"]
print("rank", rank, "waits")
open(folder + "/here-%d" % rank, "w").close()
while not all(os.path.exists(folder + "/here-%d" % n) for n in range(ranks)): time.sleep(0.01)
if rank == 0: open(os.environ["SLUICE_METRICS"], "a").write("{\"step\":3}\n")
all_reduce()
'`

// hangsSoon is a second without a step, after the first one.
var hangsSoon = &spec.Hang{After: spec.Duration(time.Second), Startup: spec.Duration(time.Minute)}

// The stacks of a rank that hangs are in its log and in its error before it is killed: by py-spy where there is one, which need not kill it,
// else by Python's own fault handler.
func TestHangStacks(t *testing.T) {
	for name, tt := range map[string]struct {
		pySpy  string
		want   []string
		signal syscall.Signal
	}{
		"the fault handler": {"", []string{"all_reduce", "read_batches"}, syscall.SIGABRT},
		"py-spy":            {"#!/bin/sh\necho \"seen by $0 $1 $2\"\n", []string{"py-spy dump --pid"}, syscall.SIGKILL},
		"py-spy may not":    {"#!/bin/sh\necho Permission Denied >&2; exit 1\n", []string{"all_reduce", "read_batches"}, syscall.SIGABRT},
		"too much":          {"#!/bin/sh\nexec yes a very deep stack\n", []string{"a very deep stack"}, syscall.SIGKILL},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.pySpy != "" {
				bin := t.TempDir()
				if err := os.WriteFile(filepath.Join(bin, "py-spy"), []byte(tt.pySpy), 0o700); err != nil {
					t.Fatal(err)
				}
				t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
			}
			g := startGang(t, 1, spec.Train{Hang: hangsSoon}, stuck)
			end := g.end(t, 0)
			if !end.Hung || syscall.Signal(end.Signal) != tt.signal || !strings.Contains(end.HungWhy, "after step 3") {
				t.Errorf("ended %+v, want a hang after step 3 and %v", end, tt.signal)
			}
			log := storedLog(t, g.nodes[0].store, 0)
			for _, want := range append(tt.want, "rank 0 waits") {
				if inLog := strings.Contains(log, want); !inLog || tt.pySpy == "" && !strings.Contains(end.Tail, want) {
					t.Errorf("%q is missing; in the log: %v; the error ends with:\n%s", want, inLog, end.Tail)
				}
			}
			if most := stackBytes + 4<<10; len(log) > most {
				t.Errorf("the log has %d bytes, want at most %d", len(log), most)
			}
		})
	}
}

// Under a launcher the stacks are those of the ranks.
func TestHangStacksUnderTorchrun(t *testing.T) {
	needsTorch(t)
	g := startGang(t, 1, spec.Train{Launcher: spec.LauncherTorchrun, Placement: spec.Placement{Resources: spec.Resources{GPU: 2}}, Hang: hangsSoon}, stuck)
	end := g.end(t, 0)
	log := storedLog(t, g.nodes[0].store, 0)
	if n := strings.Count(log, "in all_reduce"); !end.Hung || n != 2 {
		t.Errorf("ended %+v with %d stacks of ranks in its log, want 2:\n%s", end, n, log)
	}
	if strings.Contains(log, "elastic") {
		t.Errorf("the launcher's own stack is in the log:\n%s", log)
	}
}

// How long ranks may be without progress depends on what they have done, and what is declared.
func TestHangLimit(t *testing.T) {
	declared := func(after, startup time.Duration, action string) *spec.Hang {
		return &spec.Hang{After: spec.Duration(after), Startup: spec.Duration(startup), Action: action}
	}
	reports := spec.Train{TotalSteps: 10}
	trainer := spec.Train{TotalSteps: 10, Checkpoint: spec.CheckpointSpec{Layout: spec.LayoutHuggingFace}}
	for _, tt := range []struct {
		name    string
		spec    spec.Train
		hang    *spec.Hang
		started bool
		steps   int
		spacing time.Duration
		want    time.Duration
	}{
		{"a script that is not known to report steps", spec.Train{}, nil, false, 0, 0, 0},
		{"one that says which metrics it reports", spec.Train{Metrics: []string{"f1"}}, nil, false, 0, 0, startupLimit},
		{"one that has made its first step", spec.Train{}, nil, true, 1, time.Second, startupLimit},
		{"a framework, before its first checkpoint", trainer, nil, false, 0, 0, 0},
		{"a framework, with its own metrics", trainer, nil, true, 1, time.Second, startupLimit},
		{"fast steps have the floor", spec.Train{}, nil, true, 10, time.Second, stallFloor},
		{"slow steps have their factor", spec.Train{}, nil, true, 10, time.Minute, stallFactor * time.Minute},
		{"after, with steps", reports, declared(time.Minute, 0, ""), true, 10, time.Minute, time.Minute},
		{"after, with the first step", reports, declared(time.Minute, time.Hour, ""), true, 0, 0, time.Minute},
		{"after, before the first step", reports, declared(time.Minute, 0, ""), false, 0, 0, startupLimit},
		{"a long after, before the first step", reports, declared(3*time.Hour, 0, ""), false, 0, 0, 3 * time.Hour},
		{"after, without steps at all", spec.Train{}, declared(time.Minute, 0, ""), false, 0, 0, time.Minute},
		{"startup", spec.Train{}, declared(0, time.Minute, spec.HangWarn), false, 0, 0, time.Minute},
		{"startup, with steps", spec.Train{}, declared(0, time.Minute, ""), true, 10, time.Second, stallFloor},
		{"off", reports, declared(time.Minute, time.Minute, spec.HangIgnore), true, 10, time.Second, 0},
	} {
		m := &follower{started: tt.started}
		for range tt.steps {
			m.spacing = append(m.spacing, spacing{tt.spacing, 1})
		}
		tt.spec.Hang = tt.hang
		r := &ranks{node: &node{stallFloor: stallFloor}, p: &prepared{spec: tt.spec}, metrics: m}
		if got := r.hangLimit(); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	r := &ranks{node: &node{stallFloor: stallFloor}, p: &prepared{spec: trainer}, metrics: &follower{started: true, fed: true}}
	if got := r.hangLimit(); got != 0 {
		t.Errorf("a framework, after its first checkpoint: %v, want none", got)
	}
}

// An evaluation that prints, and an export that writes a file, go on without steps, and are no hang.
func TestProgressWithoutSteps(t *testing.T) {
	now := time.Now()
	for name, does := range map[string]func(r *ranks, dir string) error{
		"nothing": func(*ranks, string) error { return nil },
		"prints":  func(r *ranks, _ string) error { r.said.last.Store(now.UnixNano()); return nil },
		"writes a checkpoint": func(r *ranks, _ string) error {
			return os.WriteFile(filepath.Join(r.p.dirs.checkpoints, "part"), []byte("w"), 0o600)
		},
		"writes an output": func(_ *ranks, dir string) error {
			return os.WriteFile(filepath.Join(dir, "model.onnx"), []byte("w"), 0o600)
		},
	} {
		dir := t.TempDir()
		r := &ranks{
			node: &node{log: slog.Default()}, startedAt: now.Add(-time.Hour), metrics: &follower{}, said: &output{}, started: &output{},
			p: &prepared{
				spec: spec.Train{Hang: &spec.Hang{After: spec.Duration(30 * time.Minute), Action: spec.HangWarn}},
				dirs: dirs{checkpoints: t.TempDir()}, folder: &script.Folder{Output: dir},
			},
		}
		if err := does(r, dir); err != nil {
			t.Fatal(err)
		}
		r.checkHang(now)
		if hangs := r.silent != ""; hangs != (name == "nothing") || r.hung {
			t.Errorf("%s: hangs %v (%s), to be killed %v; want a warning where nothing is done", name, hangs, r.silent, r.hung)
		}
	}
}
