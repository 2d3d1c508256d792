package agent

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluiceml/sluice/internal/script"
	"github.com/sluiceml/sluice/store/steplog"
)

const (
	// stacksLimit bounds the time to print the stacks of the ranks.
	stacksLimit = 20 * time.Second
	// stackTime is how long one process may take to print its stacks before the next one is asked. Otherwise their output would mix.
	stackTime = 300 * time.Millisecond
	// stackEnd is how long processes may take to end after that.
	stackEnd = 2 * time.Second
	// stackLines of the stacks go into the error, stackBytes of one process into the log, of at most stackProcesses.
	stackLines     = 60
	stackBytes     = 64 << 10
	stackProcesses = 32
)

// logStacks writes the stacks of the ranks' Python processes to the log, with py-spy if the ranks' PATH has it and it works. Otherwise
// SIGABRT makes Python print them and exit, because rankEnv enables its fault handler.
func (r *ranks) logStacks() {
	pids := pythons("/proc", r.roots())
	if len(pids) == 0 {
		return
	}
	r.said.tail.Grow(stackLines)
	ctx, cancel := context.WithTimeout(context.Background(), stacksLimit)
	defer cancel()
	env := rankEnv(r.node.config, r.p, r.launch)
	if path, err := script.LookPath("py-spy", r.p.folder.Work, env); err == nil && r.spy(ctx, path, env, pids) {
		return
	}
	for _, pid := range pids {
		// Writing a core dump of a training may take very long. With a limit of 1, the kernel writes none, and does not pipe one to a program
		// either.
		_ = unix.Prlimit(pid, unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1}, nil)
		_ = syscall.Kill(pid, syscall.SIGABRT) // it may have ended just now
		awaitEnd(ctx, []int{pid}, stackTime)
	}
	awaitEnd(ctx, pids, stackEnd)
}

// spy logs the output of py-spy for processes, and reports whether it succeeded for each.
func (r *ranks) spy(ctx context.Context, path string, env []string, pids []int) bool {
	out := r.p.mask.Writer(r.said.of(steplog.NoRank))
	defer out.Close()
	for _, pid := range pids {
		cmd := exec.CommandContext(ctx, path, "dump", "--pid", strconv.Itoa(pid))
		cmd.Env, cmd.WaitDelay = env, time.Second
		said, err := cmd.StdoutPipe()
		if err != nil || cmd.Start() != nil {
			return false
		}
		_, copyErr := io.CopyN(out, said, stackBytes)
		if !errors.Is(copyErr, io.EOF) {
			_ = cmd.Process.Kill() // it has said enough
		}
		if err := cmd.Wait(); err != nil && errors.Is(copyErr, io.EOF) {
			r.node.log.Warn("py-spy could not read a rank's stacks", "pid", pid, "error", err)
			return false
		}
	}
	return true
}

// roots returns the process IDs of the ranks or, without a launcher, of the command.
func (r *ranks) roots() []int {
	if !r.launch.watched() {
		return []int{r.proc.PID()}
	}
	var roots []int
	files, _ := filepath.Glob(filepath.Join(r.launch.dir, startedFiles+"*")) // sorted, and the pattern is right
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if pid, convErr := strconv.Atoi(string(raw)); err == nil && convErr == nil {
			roots = append(roots, pid)
		}
	}
	return roots
}

// pythons returns the Python processes among processes and their descendants.
func pythons(procfs string, roots []int) []int {
	children, _ := processes(procfs)
	var found []int
	for _, pid := range below(children, roots) {
		if len(found) < stackProcesses && strings.HasPrefix(filepath.Base(program(procfs, pid)), "python") {
			found = append(found, pid)
		}
	}
	return found
}

// program returns the path of the program of a process; empty if it has ended.
func program(procfs string, pid int) string {
	path, _ := os.Readlink(filepath.Join(procfs, strconv.Itoa(pid), "exe"))
	return path
}

// awaitEnd waits until none of the processes is left, or the limit has passed.
func awaitEnd(ctx context.Context, pids []int, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for _, pid := range pids {
		for program("/proc", pid) != "" {
			select {
			case <-ctx.Done():
				return
			case <-time.After(rankLook / 5):
			}
		}
	}
}
