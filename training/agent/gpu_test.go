package agent

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/client"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/script"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/checkpoint"
	"github.com/sluiceml/sluice/training/gpu"
	"github.com/sluiceml/sluice/training/gpu/gputest"
	"github.com/sluiceml/sluice/training/protocol"
)

// notices is a Temporal that takes signals to train workflows.
type notices struct {
	client.Client
	sent chan protocol.Notice
}

func (s notices) SignalWorkflow(_ context.Context, _, _, _ string, arg any) error {
	s.sent <- arg.(protocol.Notice)
	return nil
}

// warnings keeps what an agent logs.
type warnings struct {
	mu   sync.Mutex
	said strings.Builder
}

func (w *warnings) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.said.Write(p)
}

func (w *warnings) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.said.String()
}

// gpuNode is a node with the GPUs 2 and 3 of gputest's machine, or with no helper, that runs a program.
func gpuNode(t *testing.T, program, helperPath string, idle *spec.Idle) (*ranks, chan protocol.Notice, *warnings) {
	t.Helper()
	s, err := store.Open(t.Context(), "mem://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir, log, sent := t.TempDir(), &warnings{}, make(chan protocol.Notice, 10)
	n := &node{
		config: protocol.AgentConfig{Dir: dir, LogDir: filepath.Join(dir, "logs"), Host: "127.0.0.1", GPUs: gputest.UUIDs(2, 3), GPUHelper: helperPath}, store: s,
		client: notices{sent: sent}, log: slog.New(slog.NewTextHandler(log, nil)), stallFloor: time.Minute,
	}
	p := &prepared{key: training.Key{Run: "r", Step: "s", Generation: 1}, seal: checkpoint.Seal{Generation: 1}, workflow: "train"}
	p.spec.Resources = spec.Resources{GPU: 2, Idle: idle}
	if err := p.makeDirs(n.config); err != nil {
		t.Fatal(err)
	}
	p.folder = &script.Folder{Argv: []string{"sh", "-c", program}, Work: dir, Output: dir, Env: []string{"PATH=" + os.Getenv("PATH")}}
	n.prepared = p
	r, err := n.launch(protocol.RunRanksInput{Protocol: protocol.AgentProtocol, Generation: 1, Nodes: 1, MasterAddress: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.kill(); <-r.done })
	return r, sent, log
}

// awaitNotice is the next that the workflow is sent.
func awaitNotice(t *testing.T, sent chan protocol.Notice) protocol.Notice {
	t.Helper()
	select {
	case n := <-sent:
		return n
	case <-time.After(time.Minute):
		t.Fatal("the workflow was told nothing")
		return protocol.Notice{}
	}
}

const broken = "GPU 3 (GPU-3): XID 119, GSP RPC timeout: the GPU needs a reset"

// A GPU that needs a reset: the workflow is told, the pool is told, and how the ranks ended says so. Errors that ask for less, and those of other
// nodes' GPUs, end nothing.
func TestGPUFault(t *testing.T) {
	machine := t.TempDir()
	t.Setenv(gputest.Variable, machine)
	r, sent, _ := gpuNode(t, "sleep 600", os.Args[0], nil)
	gputest.Raise(t, machine, 5, 79)
	gputest.Raise(t, machine, 2, 31)
	gputest.Raise(t, machine, 3, 119)
	want := protocol.Notice{Generation: 1, Cause: protocol.CauseFault, Reason: broken}
	if diff := cmp.Diff(want, awaitNotice(t, sent)); diff != "" {
		t.Errorf("notice (-want +got):\n%s", diff)
	}
	raw, err := os.ReadFile(filepath.Join(r.node.config.Dir, protocol.FaultFile))
	var event gpu.Event
	if err == nil {
		err = json.Unmarshal(raw, &event)
	}
	if err != nil || event.UUID != "GPU-3" || event.XID != 119 {
		t.Errorf("the pool is told %s, %v", raw, err)
	}
	r.kill()
	if <-r.done; r.ended.Fault != broken || r.ended.GPUs == nil {
		t.Fatalf("the end of the ranks says fault %q, GPUs %v", r.ended.Fault, r.ended.GPUs)
	}
	events := r.ended.GPUs.Events
	if len(events) != 2 || !strings.Contains(strings.Join(events, "\n"), "XID 31, GPU memory page fault") {
		t.Errorf("events %q, want those of the node's own GPUs", events)
	}
}

// A program notices that its GPU is broken before the driver has said so: its failure is explained by that.
func TestGPUFaultAfterFailure(t *testing.T) {
	machine := t.TempDir()
	t.Setenv(gputest.Variable, machine)
	r, _, _ := gpuNode(t, `until [ -e "$SLUICE_OUTPUT_DIR/go" ]; do sleep 0.02; done; exit 1`, os.Args[0], nil)
	again, limit := time.NewTicker(10*time.Millisecond), time.After(time.Minute)
	defer again.Stop()
	for r.progress().GPUs == nil {
		select {
		case <-again.C:
		case <-limit:
			t.Fatal("the GPUs were never read")
		}
	}
	if err := os.WriteFile(filepath.Join(r.node.config.Dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	<-r.proc.Done()
	gputest.Raise(t, machine, 3, 119)
	if <-r.done; r.ended.Code != 1 || r.ended.Fault != broken {
		t.Errorf("exit code %d, fault %q", r.ended.Code, r.ended.Fault)
	}
}

func TestGPUReadings(t *testing.T) {
	machine := t.TempDir()
	t.Setenv(gputest.Variable, machine)
	r, sent, _ := gpuNode(t, "sleep 600", os.Args[0], &spec.Idle{Below: 0.3, For: spec.Duration(300 * time.Millisecond), Action: spec.IdleRelease})
	limit := time.After(time.Minute)
	for r.progress().GPUs == nil {
		select {
		case <-limit:
			t.Fatal("heartbeats say nothing of the GPUs")
		case <-time.After(10 * time.Millisecond):
		}
	}
	if p := r.progress(); len(p.GPUs) != 2 || p.GPUs[1].UUID != "GPU-3" || *p.GPUs[1].Utilization != 0.9 || p.Idle != "" {
		t.Errorf("heartbeats say %+v", p)
	}
	gputest.SetUtilization(t, machine, 4)
	if n := awaitNotice(t, sent); n.Cause != protocol.CauseIdle || !strings.Contains(n.Reason, "of the last 300ms, less than 30%") {
		t.Errorf("notice %+v", n)
	}
	r.kill()
	<-r.done
	use := r.ended.GPUs
	if use == nil || use.Count != 2 || use.MemoryPeak != 30<<30 || use.TemperatureMax != 61 || use.PowerMean != 350 || use.Utilization >= 0.9 || use.IdleSeconds < 0.3 {
		t.Errorf("the end of the ranks says %+v", use)
	}
	if len(sent) > 0 {
		t.Errorf("the workflow was told again: %+v", <-sent)
	}
}

// What is kept of the readings: averages over all, peaks, and the errors of memory that came since the watch began.
func TestGPUUse(t *testing.T) {
	busy, rest := 1.0, 0.5
	var u gpuUse
	u.add([]gpu.Reading{
		{UUID: "a", Model: "NVIDIA A100", Memory: 40, MemoryUsed: 30, Temperature: 61, Utilization: &busy, Power: 300, Uncorrected: 3},
		{UUID: "b", Model: "NVIDIA A100", Memory: 40, MemoryUsed: 10, Temperature: 70, Utilization: &rest, Power: 100, Throttled: []string{gpu.ThrottleThermal}},
	})
	u.add([]gpu.Reading{
		{UUID: "a", Model: "NVIDIA A100", Memory: 40, MemoryUsed: 20, Temperature: 60, Utilization: &busy, Power: 300, Uncorrected: 5},
		{UUID: "b", Model: "NVIDIA A100", Memory: 40, MemoryUsed: 10, Temperature: 60, Utilization: &rest, Power: 100},
	})
	u.addEvent(gpu.Event{XID: 63, UUID: "a"})
	u.addEvent(gpu.Event{XID: 63, UUID: "a"})
	want := &spec.GPUUse{
		Count: 2, Model: "NVIDIA A100", Utilization: 0.75, Memory: 40, MemoryPeak: 30, TemperatureMax: 70, PowerMean: 200, Throttled: 0.25, ECCUncorrected: 2,
		Events: []string{"GPU 0 (a): XID 63, GPU memory remapping event"},
	}
	if diff := cmp.Diff(want, u.sum()); diff != "" {
		t.Errorf("use (-want +got):\n%s", diff)
	}
}

// Without a driver the ranks run, and that nothing is known of the GPUs is said once.
func TestNoGPUHelper(t *testing.T) {
	t.Setenv("PATH", "/bin")
	r, _, log := gpuNode(t, "sleep 0.3", "", nil)
	<-r.done
	if r.err != nil || r.ended.Code != 0 || r.ended.GPUs != nil || r.ended.Fault != "" {
		t.Errorf("%+v, %v", r.ended, r.err)
	}
	if n := strings.Count(log.String(), "neither sluice-gpu nor nvidia-smi is installed"); n != 1 {
		t.Errorf("said %d times:\n%s", n, log)
	}
}

// GPUs are idle when the mean over the whole window is below the limit: neither a moment of rest makes them, nor does a moment of work end it.
func TestIdleWindow(t *testing.T) {
	for _, tt := range []struct {
		name   string
		shares []float64 // one each second
		idle   bool
		total  time.Duration
	}{
		{"too early to say", []float64{0, 0, 0, 0}, false, 0},
		{"idle", []float64{0, 0, 0, 0, 0, 0}, true, 5 * time.Second},
		{"idle for longer", []float64{0, 0, 0, 0, 0, 0, 0, 0}, true, 7 * time.Second},
		{"a peak does not end it", []float64{0, 0, 0, 0.9, 0, 0}, true, 5 * time.Second},
		{"busy", []float64{0.5, 0.5, 0.5, 0.5, 0.5, 0.5}, false, 0},
		{"a rest is not idle", []float64{1, 1, 1, 1, 0, 0}, false, 0},
		{"idle no more", []float64{0, 0, 0, 0, 0, 0, 1, 1, 1, 1}, false, 7 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := idleWindow{limit: spec.Idle{Below: 0.3, For: spec.Duration(5 * time.Second)}}
			for i, share := range tt.shares {
				w.add(time.Unix(int64(i), 0), share)
			}
			if idle := w.why() != ""; idle != tt.idle || w.total != tt.total {
				t.Errorf("idle %t for %v, want %t for %v", idle, w.total, tt.idle, tt.total)
			}
		})
	}
}
