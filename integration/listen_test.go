package integration

import (
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/pipelines"
)

// hold keeps a cleaning at work until the file GO is there.
const hold = `import os, sys, time
rows = sys.stdin.readlines()
while not os.path.exists(os.environ["GO"]):
    time.sleep(0.02)
sys.stdout.writelines(rows)
`

// Nothing that runs in a pipeline, or for one, can be reached from another machine.
func TestListensOnLoopback(t *testing.T) {
	s := newChain(t)
	write(t, filepath.Join(s.project, "hold.py"), hold)
	s.edit("pipeline.yaml", "        - {type: Filter, name: empty,",
		"        - {type: Exec, name: hold, config: {command: [python3, hold.py], files: [hold.py]}}\n        - {type: Filter, name: empty,")
	s.edit("pipeline.yaml", "    publish: {dataset: words}", "    publish: {dataset: words}\n    env: {GO: \"${params.ledger}/go\"}")
	run := s.run("ledger="+s.dir, "pause=0.05")

	run.awaitProcess("python3", "hold.py")
	if len(s.listeners(" "+pipelines.Arg)) > 0 {
		t.Errorf("the child that cleans listens on %v", s.listeners(" "+pipelines.Arg))
	}
	s.onLoopback("clean", "hold.py")
	write(t, filepath.Join(s.dir, "go"), "")

	run.await("the first training steps", func() bool { return len(s.ledger("trace")) >= 5 })
	s.onLoopback("train", "trainer.py")

	run.await("the canary", func() bool { return s.weight(2) == 0.3 })
	s.onLoopback("rollout", "sluice run")
	if !slices.ContainsFunc(s.listeners("sluice run"), s.isTarget) {
		t.Error("the gateway was not seen to listen")
	}
	run.expect(0)

	up := s.start("up")
	up.await("the gateway", func() bool { return slices.ContainsFunc(s.listeners("sluice up"), s.isTarget) })
	s.onLoopback("up", "sluice up")
	up.kill()
}

// isTarget reports whether the target's gateway listens there.
func (s *sandbox) isTarget(at netip.AddrPort) bool { return int(at.Port()) == s.port }

// onLoopback demands that all processes of the sandbox listen on loopback addresses alone, while one with a command line of this kind runs.
func (s *sandbox) onLoopback(during, kind string) {
	s.t.Helper()
	if len(s.processes(kind)) == 0 || len(s.listeners("sluice")) == 0 {
		s.t.Errorf("%s was not seen: no `%s` runs, or the holder does not listen", during, kind)
	}
	for _, pid := range s.processes() {
		for _, at := range s.listening(pid) {
			if !at.Addr().Unmap().IsLoopback() {
				line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				s.t.Errorf("during %s process %d listens on %v: %s", during, pid, at, strings.ReplaceAll(string(line), "\x00", " "))
			}
		}
	}
}

// listeners returns where the sandbox's processes with a command line of this kind listen.
func (s *sandbox) listeners(kind string) (all []netip.AddrPort) {
	s.t.Helper()
	for _, pid := range s.processes(kind) {
		all = append(all, s.listening(pid)...)
	}
	return all
}

// listening returns where a process listens for TCP connections; nowhere when it has gone.
func (s *sandbox) listening(pid int) (at []netip.AddrPort) {
	s.t.Helper()
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	sockets := map[string]netip.AddrPort{} // by inode
	for _, table := range []string{"tcp", "tcp6"} {
		text, _ := os.ReadFile(filepath.Join(dir, "net", table))
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 9 && f[3] == "0A" {
				sockets["socket:["+f[9]+"]"] = s.address(f[1])
			}
		}
	}
	files, _ := filepath.Glob(filepath.Join(dir, "fd", "*"))
	found := map[netip.AddrPort]bool{}
	for _, file := range files {
		target, _ := os.Readlink(file)
		if address, ok := sockets[target]; ok {
			found[address] = true
		}
	}
	return slices.SortedFunc(maps.Keys(found), netip.AddrPort.Compare)
}

// address reads an address as the kernel's tables have it: words of the machine's byte order, little endian on all that we test on.
func (s *sandbox) address(text string) netip.AddrPort {
	s.t.Helper()
	host, port, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(host)
	if err != nil {
		s.t.Fatal(err)
	}
	for word := range slices.Chunk(raw, 4) {
		slices.Reverse(word)
	}
	ip, ok := netip.AddrFromSlice(raw)
	number, err := strconv.ParseUint(port, 16, 16)
	if err != nil || !ok {
		s.t.Fatalf("the address %q of a socket: %v", text, err)
	}
	return netip.AddrPortFrom(ip, uint16(number))
}
