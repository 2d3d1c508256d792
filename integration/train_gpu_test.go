package integration

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/training/gpu/gputest"
)

// newGPUBench is a bench whose machine has the GPUs of gputest, by the folder that is returned; each node of the training has one.
func newGPUBench(t *testing.T, idle *spec.Idle) (*trainBench, string) {
	t.Helper()
	machine := t.TempDir()
	b := newTrainBench(t, "", engineConfig{GPUs: machine})
	b.env["STEPS"] = "250"
	var sp spec.Train
	if err := json.Unmarshal(b.in.Spec, &sp); err != nil {
		t.Fatal(err)
	}
	sp.Resources = spec.Resources{GPU: 1, Idle: idle}
	raw, err := json.Marshal(sp)
	if err != nil {
		t.Fatal(err)
	}
	b.in.Spec = raw
	return b, machine
}

// gpuOf is the GPU that a rank of a generation was given.
func (b *trainBench) gpuOf(generation, rank int) string {
	b.t.Helper()
	_, said, _ := strings.Cut(b.said(generation)[rank], " has ")
	said, _, _ = strings.Cut(said, "\n")
	return said
}

// A GPU that needs a reset is left with a checkpoint, is not in the next gang, and is charged to nobody.
func TestTrainLeavesBrokenGPU(t *testing.T) {
	b, machine := newGPUBench(t, nil)
	b.execute()
	b.awaitSteps(35)
	gputest.Raise(t, machine, 1, 95)
	o := b.result()
	b.checkAccount(o)
	b.wantEnds(o, spec.EndNodeLost, spec.EndFinished)
	first, second := o.Generations[0], o.Generations[1]
	if want := "node 1: GPU 1 (GPU-1): XID 95, uncontained memory error: the GPU needs a reset"; first.Reason != want || o.StepsLost != 0 {
		t.Errorf("generation 1 ended by %q with %d steps lost, want %q with none", first.Reason, o.StepsLost, want)
	}
	if got := b.gpuOf(1, 1); got != "GPU-1" {
		t.Errorf("rank 1 of generation 1 had %q", got)
	}
	for rank := range 2 {
		if got := b.gpuOf(2, rank); got == "GPU-1" || !strings.HasPrefix(got, "GPU-") {
			t.Errorf("rank %d of generation 2 had %q", rank, got)
		}
	}
	if use := second.GPUs; use.Count != 2 || use.Utilization < 0.89 || use.MemoryPeak != 30<<30 || len(first.GPUs.Events) != 1 {
		t.Errorf("the account of the GPUs says %+v, and events %q of generation 1", use, first.GPUs.Events)
	}
	b.record("gpu-fault")
}

// GPUs that are hardly used are given back, where the step says so, after a checkpoint.
func TestTrainReleasesIdleGPUs(t *testing.T) {
	b, machine := newGPUBench(t, &spec.Idle{Below: 0.3, For: spec.Duration(2 * time.Second), Action: spec.IdleRelease})
	b.env["STEPS"] = "100000"
	gputest.SetUtilization(t, machine, 4)
	b.execute()
	err := b.wait()
	if got := fault.TypeOf(err); got != fault.User || !strings.Contains(fault.Message(err), "the GPUs were busy") {
		t.Errorf("error of type %q: %v", got, err)
	}
	ended := b.state().Ended
	if len(ended) != 1 || ended[0].End != spec.EndIdle || ended[0].CommittedStep == 0 || ended[0].GPUs.IdleSeconds < 2 {
		t.Errorf("generations %+v, want one, ended for idle GPUs with a checkpoint", ended)
	}
	if left := b.processes(agentPath); len(left) > 0 {
		t.Errorf("agents are left: %v", left)
	}
	b.record("gpu-idle")
}
