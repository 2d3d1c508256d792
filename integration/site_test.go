package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluiceml/sluice/internal/proc"
	"github.com/sluiceml/sluice/training"
)

const (
	// testLimit bounds a wait.
	testLimit = 2 * time.Minute
	// pollPause spaces looks at what other processes do, which cannot be awaited otherwise.
	pollPause = 20 * time.Millisecond
)

// site is where a test's processes work: a folder that is theirs alone, with a state folder in it.
type site struct {
	t          *testing.T
	dir, state string
}

// await polls for a condition outside this process.
func (s *site) await(what string, cond func() bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), testLimit)
	defer cancel()
	tick := time.NewTicker(pollPause)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.t.Fatalf("waited too long for %s", what)
		}
	}
}

// processes returns the processes of the site whose command line holds all of parts. A process is the site's when its
// environment, its command line or its working folder is.
func (s *site) processes(parts ...string) []int {
	s.t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		s.t.Fatal(err)
	}
	var found []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		dir := filepath.Join("/proc", e.Name())
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || len(line) == 0 { // gone, or a zombie
			continue
		}
		environ, _ := os.ReadFile(filepath.Join(dir, "environ"))
		cwd, _ := os.Readlink(filepath.Join(dir, "cwd"))
		if !bytes.Contains(slices.Concat(line, environ, []byte(cwd)), []byte(s.dir)) {
			continue
		}
		text := strings.ReplaceAll(string(line), "\x00", " ")
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) }) {
			found = append(found, pid)
		}
	}
	return found
}

// rankOf returns the process of a training's rank that runs a command.
func (s *site) rankOf(command string, rank int) int {
	s.t.Helper()
	for _, pid := range s.processes(command) {
		environ, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
		if err == nil && bytes.Contains(environ, fmt.Appendf(nil, "\x00RANK=%d\x00", rank)) {
			return pid
		}
	}
	s.t.Fatalf("rank %d does not run", rank)
	return 0
}

// agent returns the process of a node's agent, by the record of the local pool.
func (s *site) agent(gang training.Key, node int) int {
	s.t.Helper()
	raw, err := os.ReadFile(filepath.Join(s.state, "pools", "local", gang.String(), "gang.json"))
	if err != nil {
		s.t.Fatal(err)
	}
	var record struct{ Processes []struct{ PID int } }
	if err := json.Unmarshal(raw, &record); err != nil {
		s.t.Fatal(err)
	}
	return record.Processes[node].PID
}

// nothingLeft fails the test if a process of the site still runs after a few seconds.
func (s *site) nothingLeft() {
	s.t.Helper()
	limit := time.Now().Add(10 * time.Second)
	tick := time.NewTicker(pollPause)
	defer tick.Stop()
	for left := s.processes(); len(left) > 0; left = s.processes() {
		if time.Now().After(limit) {
			for _, pid := range left {
				line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				s.t.Errorf("process %d is left: %s", pid, bytes.ReplaceAll(line, []byte{0}, []byte(" ")))
				syscall.Kill(pid, syscall.SIGKILL)
			}
			return
		}
		<-tick.C
	}
}

// showLogs shows the end of every log of the site.
func (s *site) showLogs() {
	for _, pattern := range []string{"*.log", "logs/*/*/*.log"} {
		paths, _ := filepath.Glob(filepath.Join(s.state, pattern))
		for _, path := range paths {
			raw, _ := os.ReadFile(path)
			s.t.Logf("%s:\n%s", path, raw[max(0, len(raw)-3000):])
		}
	}
}

// freePort is one that no outgoing connection takes before who is told of it listens.
func freePort(t *testing.T) int {
	t.Helper()
	port, err := proc.FreePort(t.Context(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func kill(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatalf("signal %d to %d: %v", sig, pid, err)
	}
}
