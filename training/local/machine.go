package local

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/training/gpu"
	"github.com/sluiceml/sluice/training/gpu/helper"
)

// Machine is what this machine has for nodes to share.
type Machine struct {
	Memory spec.Size
	SHM    spec.Size
	GPUs   gpu.Inventory
	// Unlisted is why the GPUs are not known, where they could not be listed.
	Unlisted error
	// taken are the UUIDs of the units that are not to be had, and hidden says why none is, if the variable hides all.
	taken  []string
	hidden string
}

// seeing is what a value of CUDA_VISIBLE_DEVICES leaves of the machine: whoever starts a worker may have given the other GPUs to somebody else.
func (m Machine) seeing(value string) Machine {
	visible := gpu.Visible(m.GPUs.Units(), value)
	if len(visible) == 0 {
		m.hidden = gpu.VisibleVariable + " of the worker names none"
	}
	m.taken = slices.Clone(m.taken)
	for _, u := range m.GPUs.Units() {
		if !slices.Contains(visible, u) {
			m.taken = append(m.taken, u.UUID)
		}
	}
	return m
}

// free are the units that are to be had.
func (m Machine) free() []gpu.Unit {
	return slices.DeleteFunc(m.GPUs.Units(), func(u gpu.Unit) bool { return slices.Contains(m.taken, u.UUID) })
}

// without is what a gang leaves of the machine.
func (m Machine) without(g *gang) Machine {
	nodes := spec.Size(len(g.Nodes))
	m.Memory -= nodes * g.resources.Memory
	m.SHM -= nodes * g.resources.SHM
	m.taken = slices.Clone(m.taken)
	for _, u := range slices.Concat(g.gpus...) {
		m.taken = append(m.taken, u.UUID)
	}
	return m
}

// holds is how many nodes with these resources the machine has room for, at most most. The error says what it lacks for least nodes. Cores
// are shared: a node that wants more than there are is only slower.
func (m Machine) holds(r spec.Resources, least, most int) (int, error) {
	n := most
	for _, share := range []struct {
		what       string
		want, have spec.Size
	}{{"of memory", r.Memory, m.Memory}, {"in /dev/shm", r.SHM, m.SHM}} {
		if share.want <= 0 {
			continue
		}
		if n = min(n, int(share.have/share.want)); n < least {
			return 0, fmt.Errorf("each of %d nodes must have %s %s, but there are %s", least, share.want, share.what, max(0, share.have))
		}
	}
	if r.GPU <= 0 {
		return n, nil
	}
	if len(m.GPUs.Units()) == 0 || m.hidden != "" {
		why := cmp.Or(m.GPUs.Absent, m.hidden, "those in MIG mode have no instances")
		return 0, fmt.Errorf("each node must have a GPU, but the pool has no GPU: %s", why)
	}
	fit := gpu.OfTypes(m.free(), r.GPUType)
	if n = min(n, gpu.Holds(fit, r.GPU)); n < least {
		return 0, fmt.Errorf("each of %d nodes must have %d GPU%s, but there are %d", least, r.GPU, ofType(r.GPUType), len(fit))
	}
	return n, nil
}

func ofType(types []string) string {
	if len(types) == 0 {
		return ""
	}
	return " of type " + strings.Join(types, " or ")
}

// Inspect looks at this machine. helperPath is where sluice-gpu is.
func Inspect(ctx context.Context, helperPath string) Machine {
	inv, err := helper.Inspect(ctx, helperPath)
	m := Machine{Memory: memory("/"), SHM: sizeOf("/dev/shm"), GPUs: inv, Unlisted: err}
	if value, set := os.LookupEnv(gpu.VisibleVariable); set {
		m = m.seeing(value)
	}
	return m
}

// memory is the least of what the kernel says there is and what the control groups of this process allow. root is "/", but for tests.
func memory(root string) spec.Size {
	least := int64(math.MaxInt64)
	if f, err := os.Open(filepath.Join(root, "proc/meminfo")); err == nil {
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			var kib int64
			if n, _ := fmt.Sscanf(lines.Text(), "MemTotal: %d kB", &kib); n == 1 {
				least = kib << 10
			}
		}
	}
	groups, _ := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		switch {
		case parts[0] == "0" && parts[1] == "":
			least = min(least, limitOf(filepath.Join(root, "sys/fs/cgroup"), parts[2], "memory.max"))
		case slices.Contains(strings.Split(parts[1], ","), "memory"):
			least = min(least, limitOf(filepath.Join(root, "sys/fs/cgroup/memory"), parts[2], "memory.limit_in_bytes"))
		}
	}
	return spec.Size(least)
}

// limitOf is the least limit of a control group and those above it. Inside a container the group's own path is not seen, and its limit
// lies at the top.
func limitOf(top, group, file string) int64 {
	least := int64(math.MaxInt64)
	for dir := filepath.Join("/", group); ; dir = filepath.Dir(dir) {
		if raw, err := os.ReadFile(filepath.Join(top, dir, file)); err == nil {
			if n, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64); err == nil {
				least = min(least, n)
			}
		}
		if dir == "/" {
			return least
		}
	}
}

// sizeOf is how large a file system is; 0 where there is none.
func sizeOf(path string) spec.Size {
	var stat syscall.Statfs_t
	if syscall.Statfs(path, &stat) != nil {
		return 0
	}
	return spec.Size(int64(stat.Blocks) * stat.Bsize)
}
