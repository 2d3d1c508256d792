package proc_test

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluiceml/sluice/internal/proc"
)

func start(t *testing.T, c proc.Command) *proc.Process {
	t.Helper()
	p, err := proc.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// wait is Wait with a bound.
func wait(t *testing.T, p *proc.Process) (proc.Exit, error) {
	t.Helper()
	select {
	case <-p.Done():
		return p.Wait()
	case <-time.After(limit):
		p.Kill()
		t.Fatalf("process %d has not ended", p.PID())
		panic("unreachable")
	}
}

func mustWait(t *testing.T, p *proc.Process) proc.Exit {
	t.Helper()
	exit, err := wait(t, p)
	if err != nil {
		t.Fatal(err)
	}
	return exit
}

// lines is a Writer whose lines can be awaited. The zero value is ready.
type lines struct {
	mu   sync.Mutex
	text string
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text += string(b)
	return len(b), nil
}

// await waits for n lines and returns the numbers among them.
func (l *lines) await(t *testing.T, n int) (numbers []int) {
	t.Helper()
	eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return strings.Count(l.text, "\n") >= n
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	for word := range strings.FieldsSeq(l.text) {
		if number, err := strconv.Atoi(word); err == nil {
			numbers = append(numbers, number)
		}
	}
	return numbers
}

// eventually looks again and again: what other processes do cannot be awaited otherwise.
func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(limit); !condition(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("waited too long")
		}
	}
}

func awaitGone(t *testing.T, pid int) {
	t.Helper()
	eventually(t, func() bool { return !alive(pid) })
}

// alive reports whether a process runs: a zombie does not.
func alive(pid int) bool {
	stat := statOf(pid)
	return len(stat) > 0 && stat[0] != "Z"
}

func parentOf(t *testing.T, pid int) int {
	t.Helper()
	stat := statOf(pid)
	if len(stat) < 2 {
		t.Fatalf("process %d is gone", pid)
	}
	parent, err := strconv.Atoi(stat[1])
	if err != nil {
		t.Fatal(err)
	}
	return parent
}

// statOf returns the fields of /proc/<pid>/stat after the name, or nil.
func statOf(pid int) []string {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil
	}
	return strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
}

func signalTo(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}
