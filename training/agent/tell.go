package agent

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// relays are programs that may catch SIGTERM and still not be the ones to tell: shells wait for their child before they run a trap, or
// leave it behind; timeout and mpirun signal whole process groups.
var relays = []string{"sh", "bash", "dash", "ash", "busybox", "ksh", "zsh", "timeout", "mpirun", "orterun", "mpiexec", "mpiexec.hydra", "hydra_pmi_proxy", "prterun"}

// tellRank sends SIGTERM to the processes that handle it for a command: the topmost ones that catch it. Their descendants get it from them
// or not at all, because a helper such as a worker of PyTorch's DataLoader would end, and the rank with it, before it has saved. It reports
// false if no process catches the signal.
func tellRank(command int) bool {
	told := settledHandlers(command)
	for _, pid := range told {
		_ = syscall.Kill(pid, syscall.SIGTERM) // it may have ended just now
	}
	return len(told) > 0
}

const (
	// handlersSettle is longer than a process takes from its fork to the program that it starts.
	handlersSettle = 50 * time.Millisecond
	// maxHandlerLooks bounds how often the handlers are looked for.
	maxHandlerLooks = 20
)

// settledHandlers lists the handlers of a command once they are the same twice: until a child of a shell has started its program, it catches what
// the shell catches, and the shell itself would not be told.
func settledHandlers(command int) []int {
	var found []int
	for look := range maxHandlerLooks {
		children, _ := processes("/proc")
		before := found
		if found = handlers("/proc", children, command); look > 0 && slices.Equal(before, found) {
			break
		}
		time.Sleep(handlersSettle)
	}
	return found
}

// handlers lists the topmost processes below one, or itself, that catch SIGTERM. One of relays counts if none of its descendants does. Helpers
// never count: those of PyTorch's DataLoader catch SIGTERM in order to end, also where the script itself does not.
func handlers(procfs string, children map[int][]int, pid int) []int {
	catches := handles(procfs, pid)
	if catches && !isRelay(procfs, pid) {
		return []int{pid}
	}
	var found []int
	for _, child := range children[pid] {
		if isRelay(procfs, pid) || !isHelper(procfs, pid, child) {
			found = append(found, handlers(procfs, children, child)...)
		}
	}
	if len(found) == 0 && catches {
		found = []int{pid}
	}
	return found
}

// handles reports whether a process catches SIGTERM, or blocks it to wait for it.
func handles(procfs string, pid int) bool {
	raw, _ := os.ReadFile(filepath.Join(procfs, strconv.Itoa(pid), "status"))
	for line := range strings.Lines(string(raw)) {
		name, mask, _ := strings.Cut(line, ":")
		if name == "SigCgt" || name == "SigBlk" {
			bits, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
			if err == nil && bits&(1<<(syscall.SIGTERM-1)) != 0 {
				return true
			}
		}
	}
	return false
}

// isRelay reports whether a process is one of relays, or torchrun, which signals the process groups of its ranks.
func isRelay(procfs string, pid int) bool {
	name := filepath.Base(program(procfs, pid))
	if slices.Contains(relays, name) || !strings.HasPrefix(name, "python") {
		return slices.Contains(relays, name)
	}
	args := bytes.Split(commandLine(procfs, pid), []byte{0})
	return slices.ContainsFunc(args[:min(len(args), 4)], func(arg []byte) bool {
		name := filepath.Base(string(arg))
		return name == "torchrun" || name == "torch.distributed.run" || name == "torch.distributed.launch"
	})
}

// isHelper reports whether a process was forked by its parent without starting another program, or is one that Python's multiprocessing started.
func isHelper(procfs string, parent, pid int) bool {
	command := commandLine(procfs, pid)
	return bytes.Equal(command, commandLine(procfs, parent)) || bytes.Contains(command, []byte("--multiprocessing-fork")) ||
		bytes.Contains(command, []byte("from multiprocessing."))
}

func commandLine(procfs string, pid int) []byte {
	raw, _ := os.ReadFile(filepath.Join(procfs, strconv.Itoa(pid), "cmdline"))
	return raw
}
