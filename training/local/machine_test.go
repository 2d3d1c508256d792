package local

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/gpu"
	"github.com/sluiceml/sluice/training/gpu/gputest"
	"github.com/sluiceml/sluice/training/gpu/nvml"
)

var l4s = gpu.Inventory{GPUs: []gpu.GPU{
	{Index: 0, UUID: "GPU-a", Model: "NVIDIA L4"}, {Index: 1, UUID: "GPU-b", Model: "NVIDIA L4"}, {Index: 2, UUID: "GPU-c", Model: "NVIDIA H100 80GB HBM3"},
}}

func TestMachineHolds(t *testing.T) {
	m := Machine{Memory: 24 << 30, SHM: 8 << 30, GPUs: l4s}
	for _, tt := range []struct {
		name        string
		r           spec.Resources
		least, most int
		want        int
		lacks       string
	}{
		{"nothing wanted", spec.Resources{CPU: 512}, 1, 9, 9, ""},
		{"memory for some", spec.Resources{Memory: 7 << 30}, 1, 9, 3, ""},
		{"memory for too few", spec.Resources{Memory: 16 << 30}, 2, 9, 0, "each of 2 nodes must have 16GiB of memory, but there are 24GiB"},
		{"shared memory", spec.Resources{SHM: 9 << 30}, 1, 1, 0, "9GiB in /dev/shm, but there are 8GiB"},
		{"any GPU", spec.Resources{GPU: 1}, 1, 9, 3, ""},
		{"GPUs of a type", spec.Resources{GPU: 1, GPUType: []string{"L4"}}, 1, 9, 2, ""},
		{"GPUs of either type", spec.Resources{GPU: 1, GPUType: []string{"A10G", "H100"}}, 1, 9, 1, ""},
		{"too few of a type", spec.Resources{GPU: 2, GPUType: []string{"L4"}}, 2, 2, 0, "each of 2 nodes must have 2 GPU of type L4, but there are 2"},
		{"a type that is the beginning of another", spec.Resources{GPU: 1, GPUType: []string{"H1"}}, 1, 1, 0, "of type H1, but there are 0"},
	} {
		n, err := m.holds(tt.r, tt.least, tt.most)
		if n != tt.want || (err == nil) != (tt.lacks == "") || err != nil && !strings.Contains(err.Error(), tt.lacks) {
			t.Errorf("%s: %d, %v, want %d, %q", tt.name, n, err, tt.want, tt.lacks)
		}
	}
	if _, err := (Machine{}).holds(spec.Resources{GPU: 1}, 1, 1); err == nil || !strings.Contains(err.Error(), "the pool has no GPU") {
		t.Errorf("a machine without any: %v", err)
	}
}

// Gangs that run side by side have GPUs of their own, and memory that is taken is not given out again.
func TestGangsShareTheMachine(t *testing.T) {
	p := newPool(t, 4, nil)
	p.opts.Machine = func() Machine { return Machine{Memory: 10 << 30, GPUs: l4s} }
	ask := func(step string, r spec.Resources) (training.Gang, error) {
		return p.Acquire(t.Context(), training.Request{
			Key: training.Key{Run: "r", Step: step, Generation: 1}, MinNodes: 1, MaxNodes: 2, Workflow: "w", Resources: r,
		})
	}
	first, err := ask("a", spec.Resources{GPU: 1, GPUType: []string{"L4"}, Memory: 4 << 30})
	if err != nil || len(first.Nodes) != 2 {
		t.Fatalf("%+v, %v, want both L4s", first, err)
	}
	if _, err := ask("b", spec.Resources{GPU: 1, GPUType: []string{"L4"}}); !errors.Is(err, training.ErrNoCapacity) {
		t.Errorf("a third L4: %v, want no capacity now", err)
	}
	if _, err := ask("b", spec.Resources{Memory: 4 << 30}); !errors.Is(err, training.ErrNoCapacity) {
		t.Errorf("memory that is taken: %v, want no capacity now", err)
	}
	if _, err := ask("b", spec.Resources{GPU: 4}); !errors.Is(err, training.ErrTooLarge) {
		t.Errorf("more GPUs than there are: %v, want too large", err)
	}
	if _, err := ask("b", spec.Resources{GPU: 1}); err != nil {
		t.Error(err)
	}
	got := map[string][]gpu.Unit{}
	for key, g := range p.gangs {
		got[key.Step] = slices.Concat(g.gpus...)
	}
	if diff := cmp.Diff(map[string][]gpu.Unit{"a": l4s.Units()[:2], "b": l4s.Units()[2:]}, got); diff != "" {
		t.Errorf("GPUs (-want +got):\n%s", diff)
	}
	environ, err := os.ReadFile(filepath.Join("/proc", processOf(t, p, "a", 1), "environ"))
	if err != nil || !strings.Contains(string(environ), "SLUICE_NODE_GPUS=GPU-b\x00") {
		t.Errorf("%v, node 1 is not told its GPU: %q", err, environ)
	}
}

// TestGangsGetVisibleGPUs: what the variable of the worker hides is somebody else's.
func TestGangsGetVisibleGPUs(t *testing.T) {
	p := newPool(t, 4, nil)
	p.opts.Machine = func() Machine { return Machine{GPUs: l4s}.seeing("1") }
	r := training.Request{Key: training.Key{Run: "r", Step: "a", Generation: 1}, MinNodes: 1, MaxNodes: 2, Workflow: "w", Resources: spec.Resources{GPU: 1}}
	if g, err := p.Acquire(t.Context(), r); err != nil || len(g.Nodes) != 1 || p.gangs[r.Key].gpus[0][0].UUID != "GPU-b" {
		t.Errorf("%+v, %v, want one node with GPU-b", g, err)
	}
	p = newPool(t, 4, nil)
	p.opts.Machine = func() Machine { return Machine{GPUs: l4s}.seeing("") }
	if _, err := p.Acquire(t.Context(), r); !errors.Is(err, training.ErrTooLarge) || !strings.Contains(err.Error(), "CUDA_VISIBLE_DEVICES of the worker names none") {
		t.Errorf("where all are hidden: %v, want too large", err)
	}
}

// An instance of a GPU in MIG mode is given to a node as a GPU is.
func TestNodesGetInstances(t *testing.T) {
	m := gputest.New()
	m.Divide(7, 3)
	d, err := nvml.Open(m)
	if err != nil {
		t.Fatal(err)
	}
	inv, err := d.Inventory()
	if err != nil {
		t.Fatal(err)
	}
	p := newPool(t, 4, nil)
	p.opts.Machine = func() Machine { return Machine{GPUs: inv} }
	r := training.Request{
		Key: training.Key{Run: "r", Step: "a", Generation: 1}, MinNodes: 2, MaxNodes: 2, Workflow: "w",
		Resources: spec.Resources{GPU: 1, GPUType: []string{"1g.5gb"}},
	}
	if _, err := p.Acquire(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	for node, want := range []string{"MIG-7-0", "MIG-7-2"} {
		environ, err := os.ReadFile(filepath.Join("/proc", processOf(t, p, "a", node), "environ"))
		if err != nil || !strings.Contains(string(environ), "SLUICE_NODE_GPUS="+want+"\x00") {
			t.Errorf("%v, node %d is not given %s: %q", err, node, want, environ)
		}
	}
}

// So do gangs of several pools: what one has, another cannot give out.
func TestPoolsShareTheMachine(t *testing.T) {
	gangs := &Gangs{}
	pools := []*Pool{newPool(t, 4, nil), newPool(t, 4, nil)}
	for _, p := range pools {
		p.opts.Gangs = gangs
		p.opts.Machine = func() Machine { return Machine{GPUs: l4s} }
	}
	r := training.Request{Key: training.Key{Run: "r", Step: "a", Generation: 1}, MinNodes: 1, MaxNodes: 1, Workflow: "w", Resources: spec.Resources{GPU: 2, GPUType: []string{"L4"}}}
	other := r
	other.Key.Step = "b"
	if _, err := pools[0].Acquire(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if _, err := pools[1].Acquire(t.Context(), other); !errors.Is(err, training.ErrNoCapacity) {
		t.Errorf("GPUs of the other pool's gang: %v, want no capacity now", err)
	}
	if _, err := pools[0].Release(t.Context(), r.Key); err != nil {
		t.Fatal(err)
	}
	if _, err := pools[1].Acquire(t.Context(), other); err != nil {
		t.Errorf("after these were given back: %v", err)
	}
}

func processOf(t *testing.T, p *Pool, step string, node int) string {
	t.Helper()
	r, err := readRecord(p.dir(training.Key{Run: "r", Step: step, Generation: 1}))
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(r.Processes[node].PID)
}

func TestMemoryOfTheMachine(t *testing.T) {
	root := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("proc/meminfo", "MemTotal:       16777216 kB\nMemFree: 1 kB\n")
	if got := memory(root); got != 16<<30 {
		t.Errorf("without groups %s, want 16GiB", got)
	}
	write("proc/self/cgroup", "0::/a/b\n")
	write("sys/fs/cgroup/a/b/memory.max", "max\n")
	write("sys/fs/cgroup/a/memory.max", "8589934592\n")
	if got := memory(root); got != 8<<30 {
		t.Errorf("with a limit above %s, want 8GiB", got)
	}
	write("proc/self/cgroup", "4:cpu,memory:/x\n0::/\n")
	write("sys/fs/cgroup/memory/memory.limit_in_bytes", "4294967296\n")
	if got := memory(root); got != 4<<30 {
		t.Errorf("with a limit of the first version %s, want 4GiB", got)
	}
	if got := Inspect(t.Context(), ""); got.Memory <= 0 {
		t.Errorf("this machine: %+v", got)
	}
}
