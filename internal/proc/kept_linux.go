package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"github.com/sluiceml/sluice/internal/proc/internal/keeper"
)

// Kept reports whether this process is below a keeper: whether a program that Start started has started it, at whatever remove. What
// has lost its parent is the keeper's own child, so that a process cannot get out by forking.
func Kept() bool {
	for pid := os.Getppid(); pid > 1; {
		args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil {
			return false
		}
		if words := bytes.Split(args, []byte{0}); len(words) > 1 && string(words[1]) == keeper.Arg {
			return true
		}
		if pid, err = parent(pid); err != nil {
			return false
		}
	}
	return false
}

// parent is the parent of a process, from /proc/PID/stat (proc(5)): the second field after the name, which stands in parentheses and may hold any.
func parent(pid int) (int, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return 0, fmt.Errorf("/proc/%d/stat has no parent", pid)
	}
	return strconv.Atoi(string(fields[1]))
}
