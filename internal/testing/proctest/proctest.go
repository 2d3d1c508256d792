// Package proctest starts the test binary again as a process of its own, for tests that need several processes, or kill one.
package proctest

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Process is the test binary in another part. The test's end kills it.
type Process struct {
	t      testing.TB
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
}

// Spawn starts the test binary with an environment variable that its TestMain takes its part from. What it writes to stderr goes to
// the test's. Its temporary files are in a folder of the test's, which goes with the test: a process that is killed cannot remove them.
func Spawn(t testing.TB, variable, value string) *Process {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0]) // it ends when the test says so
	cmd.Env = append(os.Environ(), variable+"="+value, "TMPDIR="+t.TempDir())
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &Process{t: t, cmd: cmd, stdin: stdin, stdout: bufio.NewReader(stdout)}
	t.Cleanup(p.Kill)
	return p
}

// PID is the process's.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// patience bounds the wait for a line; a machine may be busy.
const patience = time.Minute

// Says waits for the next line that the process writes to stdout, and fails the test when it ends without one.
func (p *Process) Says() string {
	p.t.Helper()
	late := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() }) // ends the read below
	defer late.Stop()
	line, err := p.stdout.ReadString('\n')
	if err != nil {
		p.t.Fatalf("the process says %q and ends: %v", line, err)
	}
	return strings.TrimSpace(line)
}

// Tell writes to the process's stdin.
func (p *Process) Tell(text string) {
	p.t.Helper()
	if _, err := io.WriteString(p.stdin, text); err != nil {
		p.t.Fatal(err)
	}
}

// Kill kills the process, unless it has been, and returns when it is gone.
func (p *Process) Kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill() // it may have ended by itself
		_ = p.cmd.Wait()         // how it ended is said by its state
	}
}
