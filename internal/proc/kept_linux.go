package proc

import (
	"bytes"
	"fmt"
	"os"

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
		parent, _, ok := keeper.ReadStat(pid)
		if !ok {
			return false
		}
		pid = parent
	}
	return false
}
