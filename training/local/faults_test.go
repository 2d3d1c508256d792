package local

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/gpu"
	"github.com/sluiceml/sluice/training/gpu/gputest"
	"github.com/sluiceml/sluice/training/protocol"
)

// gpuPool is a pool on the machine of gputest, which this test's own executable plays.
func gpuPool(t *testing.T, nodes int) *Pool {
	t.Helper()
	t.Setenv(gputest.Variable, t.TempDir())
	p := newPool(t, nodes, nil)
	p.opts.Faults = filepath.Join(t.TempDir(), "gpu-faults.jsonl")
	p.opts.Agent.GPUHelper = os.Args[0]
	p.opts.Machine = func() Machine { return Inspect(t.Context(), os.Args[0]) }
	return p
}

// acquireGPUs acquires a gang of a step's next generation, and returns the GPUs of each node.
func acquireGPUs(t *testing.T, p *Pool, step string, generation, nodes, each int) [][]string {
	t.Helper()
	key := training.Key{Run: "r", Step: step, Generation: generation}
	_, err := p.Acquire(t.Context(), training.Request{Key: key, MinNodes: nodes, MaxNodes: nodes, Resources: spec.Resources{GPU: each}})
	if err != nil {
		t.Fatal(err)
	}
	var uuids [][]string
	for _, node := range p.gangs[key].gpus {
		var one []string
		for _, u := range node {
			one = append(one, u.UUID)
		}
		uuids = append(uuids, one)
	}
	return uuids
}

// Nodes get GPUs that are near each other, by what sluice-gpu says of the topology.
func TestPoolPlacesByTopology(t *testing.T) {
	p := gpuPool(t, 9)
	if diff := cmp.Diff([][]string{gputest.UUIDs(0, 1)}, acquireGPUs(t, p, "pair", 1, 1, 2)); diff != "" {
		t.Errorf("a node of two (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([][]string{gputest.UUIDs(4, 5), gputest.UUIDs(6, 7)}, acquireGPUs(t, p, "pairs", 1, 2, 2)); diff != "" {
		t.Errorf("two nodes of two are on one CPU (-want +got):\n%s", diff)
	}
}

// breakGPU has the agent of a gang's first node say that its GPU is broken.
func breakGPU(t *testing.T, p *Pool, key training.Key, event gpu.Event) {
	t.Helper()
	raw, err := json.Marshal(event)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.gangs[key].nodeDir(0), protocol.FaultFile), raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A GPU that is broken is in no gang any more, of any pool of the machine, until it has been reset.
func TestBrokenGPU(t *testing.T) {
	p := gpuPool(t, 2)
	key := training.Key{Run: "r", Step: "fit", Generation: 1}
	if got := acquireGPUs(t, p, "fit", 1, 1, 1); got[0][0] != "GPU-0" {
		t.Fatalf("generation 1 has %v", got)
	}
	breakGPU(t, p, key, gpu.Event{XID: 79, UUID: "GPU-0", Index: 0})
	if _, err := p.Release(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if got := acquireGPUs(t, p, "fit", 2, 1, 1); got[0][0] == "GPU-0" {
		t.Errorf("the broken GPU is in generation 2: %v", got)
	}
	other := gpuPool(t, 2)
	other.opts.Faults = p.opts.Faults
	all := training.Request{Key: training.Key{Run: "r2", Step: "big", Generation: 1}, MinNodes: 1, MaxNodes: 1, Resources: spec.Resources{GPU: 8}}
	_, err := other.Acquire(t.Context(), all)
	if !errors.Is(err, training.ErrNoCapacity) || !strings.Contains(err.Error(), "GPU 0 (GPU-0): XID 79, GPU has fallen off the bus: the machine needs a restart") {
		t.Errorf("a gang of all GPUs: %v, want no capacity, and why", err)
	}
	if err := os.Remove(p.opts.Faults); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Acquire(t.Context(), all); err != nil {
		t.Errorf("after the fault was removed: %v", err)
	}
}

func TestFaultsEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "faults")
	inv := gpu.Inventory{GPUs: []gpu.GPU{
		{Index: 0, UUID: "a", Recovery: gpu.RecoveryNone},
		{Index: 1, UUID: "b", Recovery: gpu.RecoveryReset},
		{Index: 3, UUID: "c"},
		{Index: 4, UUID: "d", Recovery: gpu.RecoveryNone},
		{Index: 5, UUID: "e", MIG: true, Instances: []gpu.Instance{{UUID: "e1"}}},
	}}
	taken := time.Now()
	for _, f := range []fault{
		{Event: gpu.Event{XID: 95, UUID: "a", Recovery: gpu.RecoveryReset}, Boot: bootID()}, // has been reset since
		{Event: gpu.Event{XID: 64, UUID: "c", Index: 2}, Boot: bootID()},                    // had another index then
		{Event: gpu.Event{XID: 79, UUID: "c"}, Boot: "before"},
		{Event: gpu.Event{XID: 79, UUID: "gone", Index: 0}, Boot: bootID()},                                             // is not on the bus
		{Event: gpu.Event{XID: 95, UUID: "d", Recovery: gpu.RecoveryReset}, Boot: bootID(), At: taken.Add(time.Second)}, // since it was looked at
		{Event: gpu.Event{XID: 95, UUID: "e1"}, Boot: bootID()},                                                         // in an instance
	} {
		if err := appendFault(path, f); err != nil {
			t.Fatal(err)
		}
	}
	found, err := readFaults(path, inv, taken)
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	for _, f := range found {
		got = append(got, f.Index, f.XID)
	}
	if diff := cmp.Diff([]int{1, 154, 3, 64, 4, 95, 5, 95}, got); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

// What is known of the machine is relied on for a while, and longer while its GPUs cannot be listed.
func TestMachineCache(t *testing.T) {
	looks := 0
	next := Machine{GPUs: l4s}
	inspect := func() Machine { looks++; return next }
	var c machineCache
	began := time.Now()
	c.get(inspect, began)
	if _, at := c.get(inspect, began.Add(time.Second)); looks != 1 || !at.Equal(began) {
		t.Errorf("looked %d times within a second, as of %v", looks, at)
	}
	next = Machine{Unlisted: errors.New("sluice-gpu hangs")}
	if m, _ := c.get(inspect, began.Add(time.Minute)); looks != 2 || m.Unlisted != nil || len(m.GPUs.GPUs) != 3 {
		t.Errorf("looked %d times, %+v: want the GPUs that there were", looks, m)
	}
	next = Machine{}
	if m, _ := c.get(inspect, began.Add(2*time.Minute)); looks != 3 || len(m.GPUs.GPUs) != 0 {
		t.Errorf("looked %d times, %+v: want no GPU", looks, m)
	}
}

// A step waits for a GPU that is lost, and one whose GPUs cannot be listed fails of that, to be tried again. Neither is larger than the pool.
func TestLostGPU(t *testing.T) {
	p := newPool(t, 2, nil)
	r := training.Request{Key: training.Key{Run: "r", Step: "fit", Generation: 1}, MinNodes: 1, MaxNodes: 1, Resources: spec.Resources{GPU: 3, GPUType: []string{"L4"}}}
	lost := l4s
	lost.Lost = []gpu.Lost{{Index: 3, Reason: "open it: GPU is lost"}}
	p.opts.Machine = func() Machine { return Machine{GPUs: lost} }
	_, err := p.Acquire(t.Context(), r)
	if !errors.Is(err, training.ErrNoCapacity) || !strings.Contains(err.Error(), "out of use: GPU 3 does not answer (open it: GPU is lost)") {
		t.Errorf("%v, want no capacity, and why", err)
	}
	p = newPool(t, 2, nil)
	p.opts.Machine = func() Machine { return Machine{Unlisted: errors.New("sluice-gpu hangs")} }
	if _, err := p.Acquire(t.Context(), r); !errors.Is(err, training.ErrNoCapacity) || !strings.Contains(err.Error(), "cannot be listed: sluice-gpu hangs") {
		t.Errorf("%v, want no capacity until the GPUs can be listed", err)
	}
	r.Resources.GPU = 0
	if _, err := p.Acquire(t.Context(), r); err != nil {
		t.Errorf("a step without GPUs: %v", err)
	}
}

// A machine without GPUs says why.
func TestNoGPU(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := Inspect(t.Context(), "").holds(spec.Resources{GPU: 1}, 1, 1)
	if err == nil || !strings.Contains(err.Error(), "the pool has no GPU: neither sluice-gpu nor nvidia-smi is installed") {
		t.Errorf("%v", err)
	}
}
