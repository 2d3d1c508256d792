package keeper

import (
	"os"
	"strconv"
	"syscall"
)

// killTree stops every descendant, so that none can fork or reap behind its back, then kills them. Stopping is repeated until
// a look at the whole tree finds nobody new. What cannot be signalled, or has just ended, shows in the next look of killRest.
func killTree() {
	stopped := map[int]bool{}
	for {
		news := false
		for _, pid := range descendants() {
			if !stopped[pid] {
				stopped[pid], news = true, true
				_ = syscall.Kill(pid, syscall.SIGSTOP)
			}
		}
		if !news {
			break
		}
	}
	for pid := range stopped {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// descendants returns the living processes below this one.
func descendants() []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	children := map[int][]int{}
	zombie := map[int]bool{}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		parent, dead, ok := ReadStat(pid)
		if !ok {
			continue
		}
		children[parent] = append(children[parent], pid)
		zombie[pid] = dead
	}
	var found []int
	for queue := children[os.Getpid()]; len(queue) > 0; {
		pid := queue[0]
		queue = append(queue[1:], children[pid]...)
		if !zombie[pid] {
			found = append(found, pid)
		}
	}
	return found
}

// ReadStat returns a process's parent and whether it has ended, from "pid (name) state ppid ..."; see proc_pid_stat(5). The name
// may hold anything, also brackets, so what counts begins after the last one.
func ReadStat(pid int) (parent int, dead, ok bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, false, false
	}
	state := len(stat) - 1
	for state > 0 && stat[state] != ')' {
		state--
	}
	state += len(") ")
	end := state + len("S ")
	for end < len(stat) && stat[end] != ' ' {
		end++
	}
	if end >= len(stat) {
		return 0, false, false
	}
	parent, err = strconv.Atoi(string(stat[state+len("S ") : end]))
	return parent, stat[state] == 'Z' || stat[state] == 'X', err == nil
}
