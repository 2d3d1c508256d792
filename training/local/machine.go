package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/sluiceml/sluice/dsl"
)

// Machine is what this machine has for nodes to share.
type Machine struct {
	Memory dsl.Size
	SHM    dsl.Size
	GPUs   []GPU
}

// GPU is one of the machine's.
type GPU struct {
	UUID  string // as CUDA_VISIBLE_DEVICES takes it
	Model string // such as "NVIDIA L4"
}

// is reports whether a GPU is of a type: whether all words of the type are words of its model's name.
func (g GPU) is(gpuType string) bool {
	model := words(g.Model)
	return !slices.ContainsFunc(words(gpuType), func(w string) bool { return !slices.Contains(model, w) })
}

func words(s string) []string {
	return strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// ofTypes are the GPUs of any of these types; all when there are none.
func ofTypes(gpus []GPU, types []string) []GPU {
	var fit []GPU
	for _, g := range gpus {
		if len(types) == 0 || slices.ContainsFunc(types, g.is) {
			fit = append(fit, g)
		}
	}
	return fit
}

// without is what a gang leaves of the machine.
func (m Machine) without(g *gang) Machine {
	nodes := dsl.Size(len(g.Nodes))
	m.Memory -= nodes * g.resources.Memory
	m.SHM -= nodes * g.resources.SHM
	m.GPUs = slices.DeleteFunc(slices.Clone(m.GPUs), func(gpu GPU) bool { return slices.Contains(g.gpus, gpu) })
	return m
}

// holds is how many nodes with these resources the machine has room for, at most most. The error says what it lacks for least nodes. Cores
// are shared: a node that wants more than there are is only slower.
func (m Machine) holds(r dsl.Resources, least, most int) (int, error) {
	n := most
	for _, share := range []struct {
		what       string
		want, have dsl.Size
	}{{"of memory", r.Memory, m.Memory}, {"in /dev/shm", r.SHM, m.SHM}} {
		if share.want <= 0 {
			continue
		}
		if n = min(n, int(share.have/share.want)); n < least {
			return 0, fmt.Errorf("each of %d nodes must have %s %s, and there are %s", least, share.want, share.what, max(0, share.have))
		}
	}
	if r.GPU <= 0 {
		return n, nil
	}
	if len(m.GPUs) == 0 {
		return 0, errors.New("each node must have a GPU, and the pool has no GPU")
	}
	fit := len(ofTypes(m.GPUs, r.GPUType))
	if n = min(n, fit/r.GPU); n < least {
		return 0, fmt.Errorf("each of %d nodes must have %d GPU%s, and there are %d", least, r.GPU, ofType(r.GPUType), fit)
	}
	return n, nil
}

func ofType(types []string) string {
	if len(types) == 0 {
		return ""
	}
	return " of type " + strings.Join(types, " or ")
}

// Inspect looks at this machine.
func Inspect(ctx context.Context) Machine {
	return Machine{Memory: memory("/"), SHM: sizeOf("/dev/shm"), GPUs: findGPUs(ctx)}
}

// memory is the least of what the kernel says there is and what the control groups of this process allow. root is "/", but for tests.
func memory(root string) dsl.Size {
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
	return dsl.Size(least)
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
func sizeOf(path string) dsl.Size {
	var stat syscall.Statfs_t
	if syscall.Statfs(path, &stat) != nil {
		return 0
	}
	return dsl.Size(int64(stat.Blocks) * stat.Bsize)
}

// findGPUs asks the driver's own tool which GPUs there are; none where it is not installed.
func findGPUs(ctx context.Context) []GPU {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "nvidia-smi", "--query-gpu=uuid,name", "--format=csv,noheader").Output()
	if err != nil {
		return nil
	}
	return parseGPUs(string(out))
}

// parseGPUs reads lines such as "GPU-4a0b..., NVIDIA L4".
func parseGPUs(out string) []GPU {
	var gpus []GPU
	for line := range strings.Lines(out) {
		uuid, model, ok := strings.Cut(strings.TrimSpace(line), ",")
		if ok && strings.HasPrefix(uuid, "GPU-") {
			gpus = append(gpus, GPU{UUID: uuid, Model: strings.TrimSpace(model)})
		}
	}
	return gpus
}
