package agent

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// arrivals knows of entries of the folder of checkpoints how they came there. It knows of none where the kernel cannot tell.
type arrivals struct {
	fd   int
	mu   sync.Mutex
	came map[string]arrival
	step int64 // the last of the metrics when it looked last

	buffer []byte // for what the kernel says
}

// arrival is how an entry came: between which steps of the metrics, and whether by a rename, so that it was complete.
type arrival struct {
	from, to int64
	renamed  bool
}

func watchArrivals(r *ranks) *arrivals {
	fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	if err == nil {
		_, err = syscall.InotifyAddWatch(fd, r.p.dirs.checkpoints, syscall.IN_CREATE|syscall.IN_MOVED_TO|syscall.IN_ONLYDIR)
	}
	if err != nil {
		r.node.log.Warn("renames of checkpoints cannot be seen, so each is committed once it has not changed for some time", "error", err)
	}
	return &arrivals{fd: fd, came: map[string]arrival{}, step: r.p.seal.FromStep(), buffer: make([]byte, 64<<10)}
}

// of returns how an entry came; zero if that is unknown.
func (a *arrivals) of(name string) arrival {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.came[name]
}

// note looks for what has come; step is the last of the metrics, which have just been read.
func (a *arrivals) note(step int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer func() { a.step = step }()
	for {
		n, err := syscall.Read(a.fd, a.buffer)
		if err != nil || n <= 0 {
			return
		}
		for events := a.buffer[:n]; len(events) >= syscall.SizeofInotifyEvent; {
			mask, size := binary.NativeEndian.Uint32(events[4:]), binary.NativeEndian.Uint32(events[12:])
			name := string(bytes.TrimRight(events[syscall.SizeofInotifyEvent:][:size], "\x00"))
			a.came[name] = arrival{a.step, step, mask&syscall.IN_MOVED_TO != 0}
			if mask&syscall.IN_Q_OVERFLOW != 0 {
				clear(a.came)
			}
			events = events[syscall.SizeofInotifyEvent+size:]
		}
	}
}

// changed makes an entry count as written in place.
func (a *arrivals) changed(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	came := a.came[name]
	came.renamed = false
	a.came[name] = came
}

func (a *arrivals) close() { _ = syscall.Close(a.fd) }

// brokeOff reports whether the ranks may have been writing a checkpoint when they ended: they were killed or failed soon after its last
// change.
func (r *ranks) brokeOff(path string) bool {
	exit, _ := r.proc.Wait()
	end, _ := r.outcome(exit)
	if end.Signal == 0 && (end.ok() || end.stopped() || r.wasTold()) {
		return false
	}
	seen, err := shapeOf(path)
	return err != nil || r.proc.EndedAt().Sub(seen.newest) < settleTime
}

// areWriting reports whether a process of the ranks has a file of a checkpoint open for writing, or writes to it in memory.
func (r *ranks) areWriting(path string) bool {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false
	}
	for _, pid := range household("/proc", r.proc.PID()) {
		if isWriting(filepath.Join("/proc", strconv.Itoa(pid)), path) {
			return true
		}
	}
	return false
}

func isWriting(process, path string) bool {
	open, _ := os.ReadDir(filepath.Join(process, "fd"))
	for _, fd := range open {
		file, _ := os.Readlink(filepath.Join(process, "fd", fd.Name()))
		if file != path && !strings.HasPrefix(file, path+"/") {
			continue
		}
		info, _ := os.ReadFile(filepath.Join(process, "fdinfo", fd.Name()))
		var pos, flags int64
		if n, _ := fmt.Sscanf(string(info), "pos: %d\nflags: %o", &pos, &flags); n == 2 && flags&syscall.O_ACCMODE != syscall.O_RDONLY {
			return true
		}
	}
	maps, _ := os.ReadFile(filepath.Join(process, "maps"))
	for line := range strings.Lines(string(maps)) {
		if strings.Contains(line, " rw-s ") && strings.Contains(line, " "+path) {
			return true
		}
	}
	return false
}
