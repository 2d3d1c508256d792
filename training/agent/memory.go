package agent

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
)

// memoryEvery is how often the memory of the ranks is checked.
const memoryEvery = time.Second

// checkMemory kills the ranks when they use more memory than the step may. Where the pool bounds the node itself, as a cluster does, the
// kernel is faster; elsewhere nothing else keeps a node from taking its neighbours' memory.
func (r *ranks) checkMemory(now time.Time) {
	limit := r.p.spec.Resources.Memory
	if limit <= 0 || now.Sub(r.memoryAt) < memoryEvery {
		return
	}
	r.memoryAt = now
	if used := treeMemory("/proc", r.proc.PID(), limit); used > limit {
		r.mu.Lock()
		r.over = fmt.Sprintf("it used %s, more than `memory: %s`", used, limit)
		if r.launch.ranks > 1 {
			r.over = fmt.Sprintf("the node's ranks used %s in total, more than `memory: %s`", used, limit)
		}
		r.mu.Unlock()
		r.proc.Kill()
	}
}

// treeMemory returns how much memory a process and its descendants use. Pages that several of them share are counted once only if the sum
// would otherwise exceed limit, because that takes longer to find out. So a result up to limit may be too high.
func treeMemory(procfs string, command int, limit spec.Size) spec.Size {
	tree := household(procfs, command)
	var sum spec.Size
	for _, pid := range tree {
		sum += resident(procfs, pid)
	}
	if sum <= limit {
		return sum
	}
	sum = 0
	for _, pid := range tree {
		sum += proportional(procfs, pid)
	}
	return sum
}

// household lists a command and its descendants. A process that outlives its parent becomes a child of the command's own parent, the
// keeper.
func household(procfs string, command int) []int {
	children, parents := processes(procfs)
	keeper, ok := parents[command]
	if !ok {
		return nil // it has ended
	}
	return below(children, children[keeper])
}

// below lists processes and their descendants, parents before children.
func below(children map[int][]int, roots []int) []int {
	all := slices.Clone(roots)
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}

// processes returns the children and the parent of each process.
func processes(procfs string) (children map[int][]int, parents map[int]int) {
	children, parents = map[int][]int{}, map[int]int{}
	entries, _ := os.ReadDir(procfs)
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(procfs, entry.Name(), "stat"))
		if err != nil {
			continue // it has ended
		}
		// The second field is the program's name in parentheses, which may itself hold blanks and parentheses.
		fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
		if len(fields) < 2 {
			continue
		}
		if parent, err := strconv.Atoi(fields[1]); err == nil {
			children[parent], parents[pid] = append(children[parent], pid), parent
		}
	}
	return children, parents
}

// resident returns how much memory of a process is resident; 0 if it has ended.
func resident(procfs string, pid int) spec.Size {
	raw, err := os.ReadFile(filepath.Join(procfs, strconv.Itoa(pid), "statm"))
	fields := strings.Fields(string(raw))
	if err != nil || len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return spec.Size(pages * int64(os.Getpagesize()))
}

// proportional is like resident, but counts only the process's share of shared pages.
func proportional(procfs string, pid int) spec.Size {
	raw, err := os.ReadFile(filepath.Join(procfs, strconv.Itoa(pid), "smaps_rollup"))
	if err != nil {
		return resident(procfs, pid)
	}
	for line := range strings.Lines(string(raw)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "Pss: %d kB", &kib); n == 1 {
			return spec.Size(kib << 10)
		}
	}
	return resident(procfs, pid)
}

// oomKills returns how many processes of this control group the kernel has killed for lack of memory, as far as that is visible. root is
// "/", except in tests.
func oomKills(root string) int64 {
	groups, _ := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	var kills int64
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(parts) != 3:
		case parts[0] == "0" && parts[1] == "":
			kills += counter(filepath.Join(root, "sys/fs/cgroup"), parts[2], "memory.events")
		case slices.Contains(strings.Split(parts[1], ","), "memory"):
			kills += counter(filepath.Join(root, "sys/fs/cgroup/memory"), parts[2], "memory.oom_control")
		}
	}
	return kills
}

// counter reads oom_kill of a control group. In a container, the path of the group is not the one that the process is told.
func counter(top, group, file string) int64 {
	raw, err := os.ReadFile(filepath.Join(top, group, file))
	if err != nil {
		raw, _ = os.ReadFile(filepath.Join(top, file))
	}
	for line := range strings.Lines(string(raw)) {
		var n int64
		if found, _ := fmt.Sscanf(line, "oom_kill %d", &n); found == 1 {
			return n
		}
	}
	return 0
}

// starved returns a message if the kernel killed a rank because memory ran out, else "".
func (r *ranks) starved(end rankEnd) string {
	if end.Signal != int(syscall.SIGKILL) || oomKills("/") == r.oomKills {
		return ""
	}
	return "the node ran out of memory"
}
