package agent

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/proc"
	"github.com/sluiceml/sluice/internal/script"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/checkpoint"
	"github.com/sluiceml/sluice/training/gpu/gputest"
	"github.com/sluiceml/sluice/training/gpu/nvml"
	"github.com/sluiceml/sluice/training/protocol"
)

// TestMain lets this test's own executable watch ranks, as the agent's does.
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == RankCommand {
		os.Exit(Rank(os.Args[2], os.Args[3:]))
	}
	if gputest.Plays() {
		os.Exit(gputest.Main(nvml.Main))
	}
	goleak.VerifyTestMain(m)
}

func TestRankEnvironment(t *testing.T) {
	p := &prepared{
		key: training.Key{Run: "r", Step: "s", Generation: 2}, index: 1,
		spec:   spec.Train{Checkpoint: spec.CheckpointSpec{Every: spec.Duration(90 * time.Second)}},
		seal:   checkpoint.Seal{Generation: 2, Resume: &checkpoint.Manifest{Step: 7}},
		folder: &script.Folder{Argv: []string{"/bin/fit"}, Output: "/n/output", Env: []string{"RANK=9", "MINE=1", "SLUICE_STORE=file:///s", "SLUICE_TEMPORAL_TOKEN=secret"}},
		dirs:   dirs{checkpoints: "/n/checkpoints", resume: "/n/resume", metrics: "/l/m"}, resumeFrom: "/n/resume",
	}
	in := protocol.RunRanksInput{Nodes: 2, MasterAddress: "127.0.0.1", MasterPort: 20001}
	want := []string{
		"GLOO_SOCKET_IFNAME=lo", "GROUP_RANK=1", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=20001",
		"MINE=1", "NODE_RANK=1", "OMP_NUM_THREADS=4", "PET_MASTER_ADDR=127.0.0.1", "PET_MASTER_PORT=20001", "PET_NNODES=2",
		"PET_NODE_RANK=1", "PET_NPROC_PER_NODE=1", "PYTHONFAULTHANDLER=1", "RANK=1", "SLUICE_CHECKPOINT_DIR=/n/checkpoints", "SLUICE_CHECKPOINT_EVERY=1m30s",
		"SLUICE_METRICS=/l/m", "SLUICE_OUTPUT_DIR=/n/output", "SLUICE_RESUME_DIR=/n/resume", "WORLD_SIZE=2",
	}
	l, err := launchOf(p, in, "/bin/agent")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, rankEnv(protocol.AgentConfig{Host: "127.0.0.1", CPUs: 4}, p, l)); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	p.step.Kind = spec.KindClean
	if diff := cmp.Diff([]string{"MINE=1", "RANK=9", "SLUICE_METRICS=/l/m", "SLUICE_OUTPUT_DIR=/n/output"}, rankEnv(protocol.AgentConfig{Host: "127.0.0.1", CPUs: 4}, p, l)); diff != "" {
		t.Errorf("environment of a cleaning, whose programs are no ranks (-want +got):\n%s", diff)
	}
	p.step.Kind = spec.KindTrain
	p.seal.Resume = nil
	p.folder.Env = []string{"OMP_NUM_THREADS=1", "PYTHONFAULTHANDLER=", "PET_NNODES=1:4"}
	env := rankEnv(protocol.AgentConfig{Host: "10.0.0.7", CPUs: 4, GPUs: []string{"GPU-a", "GPU-b"}}, p, l)
	for _, kv := range env {
		if strings.HasPrefix(kv, "SLUICE_RESUME_DIR=") || strings.HasPrefix(kv, "GLOO_SOCKET_IFNAME=") {
			t.Errorf("%s is set for a first generation on another machine", kv)
		}
	}
	if !slices.Contains(env, "CUDA_VISIBLE_DEVICES=GPU-a,GPU-b") {
		t.Errorf("the ranks see other GPUs than the node's: %v", env)
	}
	for _, own := range p.folder.Env {
		if !slices.Contains(env, own) {
			t.Errorf("the step's own %s is lost: %v", own, env)
		}
	}
}

func TestLinkTree(t *testing.T) {
	from := filepath.Join(t.TempDir(), "step-1")
	if err := os.MkdirAll(filepath.Join(from, "deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(from, "deep", "weights"), []byte("w"), 0o600); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(filepath.Dir(from), "own")
	if err := linkTree(from, to); err != nil {
		t.Fatal(err)
	}
	// The script rotates its checkpoint away.
	if err := os.RemoveAll(from); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(to, "deep", "weights")); err != nil || string(got) != "w" {
		t.Errorf("the linked file holds %q, %v", got, err)
	}
	if err := linkTree(from, filepath.Join(filepath.Dir(from), "again")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a checkpoint that is gone: %v, want ErrNotExist", err)
	}
	if err := syscall.Mkfifo(filepath.Join(to, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := linkTree(to, filepath.Join(filepath.Dir(from), "third")); err == nil || !strings.Contains(err.Error(), "pipe") {
		t.Errorf("a pipe in a checkpoint: %v, want an error that names it", err)
	}
}

func TestProtocolMismatchIsRefused(t *testing.T) {
	err := checkProtocol(protocol.AgentProtocol + 1)
	if fault.TypeOf(err) != fault.Invalid || !strings.Contains(err.Error(), "same release") {
		t.Errorf("another protocol: %v, want a refusal that says what to do", err)
	}
	if err := checkProtocol(protocol.AgentProtocol); err != nil {
		t.Error(err)
	}
}

func TestStopMayOvertakeTheStart(t *testing.T) {
	n := &node{prepared: &prepared{key: training.Key{Generation: 2}}}
	if err := n.Stop(t.Context(), protocol.StopInput{Generation: 2}); err != nil {
		t.Fatal(err)
	}
	ended, err := n.RunRanks(t.Context(), protocol.RunRanksInput{Protocol: protocol.AgentProtocol, Generation: 2})
	if err != nil || !ended.Stopped || ended.Code != exitStopped {
		t.Errorf("ranks that were stopped before their start: %+v, %v", ended, err)
	}
}

func TestFreePortLiesOutsideTheEphemeralRange(t *testing.T) {
	for range 20 {
		port, err := proc.FreePort(t.Context(), "127.0.0.1")
		if err != nil || port < 20000 || port >= 32000 {
			t.Errorf("port %d, %v", port, err)
		}
	}
}
