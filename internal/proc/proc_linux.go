// Package proc starts children that can never be orphans.
//
// Each command runs under a keeper (see the internal package keeper): when the command ends, when it is killed through here,
// or when this process goes in whatever way, also by SIGKILL, every descendant of the command is killed too, whatever session
// or process group it moved to. PDEATHSIG alone is not enough for that, since it fires when a thread of the parent dies
// (golang/go#27505) and reaches one generation only; nor is a signal to the process group, which setsid(2) leaves.
//
// A keeper is this very executable started again, which keeps one command after the other: to start a large program takes many times
// longer than most commands. Nothing has to be called for it: importing the package is enough. Linux only.
package proc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sluiceml/sluice/internal/proc/internal/keeper"
)

// DefaultGrace is the time between SIGTERM and SIGKILL when a Command does not say.
const DefaultGrace = 10 * time.Second

const (
	// startLimit bounds the wait for a keeper to start the command.
	startLimit = 30 * time.Second
	// drainLimit bounds the wait for the output after the last process has gone.
	drainLimit = 10 * time.Second
)

// ErrLost is returned by Wait when the keeper was killed and took with it how the command ended. The command is dead.
var ErrLost = errors.New("the keeper process was killed, and the command with it")

// Command says what to run. Fields with the names of exec.Cmd's mean the same.
type Command struct {
	// Path is the program; without a slash it is looked up in PATH.
	Path string
	// Args are the arguments after the program's name.
	Args []string
	// Env is the whole environment; nil means this process's.
	Env []string
	// Dir is the working folder; empty means this process's.
	Dir string
	// Stdin, Stdout and Stderr are the standard streams; nil is the null device. What is not an *os.File is copied through a pipe.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Grace is the time from SIGTERM to SIGKILL in Terminate and when the context ends; 0 means DefaultGrace.
	Grace time.Duration
}

// Exit is how a command ended.
type Exit struct {
	// Code is the exit code, or -1 when a signal ended the command.
	Code int
	// Signal is what ended the command, or 0.
	Signal syscall.Signal
}

// ExitKilled is the exit code by which shells and container runtimes report that a process which they had started was killed by SIGKILL.
const ExitKilled = 128 + int(syscall.SIGKILL)

// Killed reports whether SIGKILL ended the command, or a process that it reports on.
func (e Exit) Killed() bool { return e.Signal == syscall.SIGKILL || e.Code == ExitKilled }

// OK reports whether the command exited with code 0.
func (e Exit) OK() bool { return e == Exit{} }

// String says it in words: "exit code 1", "signal 15 (terminated)".
func (e Exit) String() string {
	if e.Signal != 0 {
		return fmt.Sprintf("signal %d (%s)", int(e.Signal), e.Signal)
	}
	return fmt.Sprintf("exit code %d", e.Code)
}

// Process is a started command. Its methods may be called from several goroutines.
type Process struct {
	pid    int
	path   string
	grace  time.Duration
	keeper *keeperProcess

	done    chan struct{}
	exit    Exit
	endedAt time.Time
	err     error

	mu   sync.Mutex
	over bool // the keeper may keep another command
}

// Start runs a command under a keeper and returns when it has been started. When ctx ends the command is terminated, as by
// Terminate. An error means that nothing runs; errors.Is tells fs.ErrNotExist and fs.ErrPermission.
func Start(ctx context.Context, c Command) (*Process, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Path, err)
	}
	spec, err := c.spec()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Path, err)
	}
	p := &Process{path: c.Path, grace: cmp.Or(c.Grace, DefaultGrace), done: make(chan struct{})}
	streams, err := openStreams(c)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Path, err)
	}
	p.keeper, p.pid, err = startKept(spec, streams.theirs)
	streams.started()
	if err != nil {
		streams.abandon()
		return nil, fmt.Errorf("start %s: %w", c.Path, c.explain(err))
	}
	streams.copy()
	stop := context.AfterFunc(ctx, func() { p.Terminate(context.Background()) })
	go func() {
		p.exit, p.err = p.watch(streams)
		stop()
		close(p.done)
	}()
	return p, nil
}

// Run starts a command and waits for its end, as Start and Wait do. When ctx has ended the error is its cause.
func Run(ctx context.Context, c Command) (Exit, error) {
	p, err := Start(ctx, c)
	if err != nil {
		return Exit{}, err
	}
	exit, err := p.Wait()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return exit, err
}

// spec checks what can be checked before anything is started and encodes the rest for the keeper.
func (c Command) spec() ([]byte, error) {
	path := c.Path
	if !strings.Contains(path, "/") {
		found, err := exec.LookPath(path)
		if err != nil {
			return nil, errors.Unwrap(err)
		}
		path = found
	}
	if c.Dir != "" {
		info, err := os.Stat(c.Dir)
		if err != nil {
			return nil, fmt.Errorf("working folder: %w", err)
		}
		if !info.IsDir() {
			return nil, fmt.Errorf("working folder: %s is not a folder", c.Dir)
		}
	}
	env := c.Env
	if env == nil {
		env = os.Environ()
	}
	return keeper.Spec{Path: path, Dir: c.Dir, Args: append([]string{c.Path}, c.Args...), Env: env}.Encode()
}

// explain adds what the kernel leaves out: ENOENT for a file that exists means that its interpreter does not.
func (c Command) explain(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		if _, statErr := os.Stat(c.Path); statErr == nil {
			return fmt.Errorf("the interpreter named in its first line: %w", err)
		}
	}
	return err
}

// watch waits until nothing of the command is left, and returns how it ended.
func (p *Process) watch(streams *streams) (Exit, error) {
	report, err := keeper.ReadReport(p.keeper.conn)
	p.endedAt = time.Now().Add(-report.Ago)
	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
	exit := Exit{Code: -1, Signal: syscall.SIGKILL}
	switch {
	case err != nil:
		err = ErrLost
		p.keeper.close()
	case report.Left > 0:
		err = fmt.Errorf("%d of its processes could not be killed", report.Left)
		p.keeper.close()
	default:
		exit = exitOf(report.Status)
		p.keeper.release()
	}
	if copied := streams.wait(); err == nil && copied != nil {
		err = fmt.Errorf("copy its output: %w", copied)
	}
	if err != nil {
		err = fmt.Errorf("%s (pid %d): %w", p.path, p.pid, err)
	}
	return exit, err
}

func exitOf(status syscall.WaitStatus) Exit {
	if status.Signaled() {
		return Exit{Code: -1, Signal: status.Signal()}
	}
	return Exit{Code: status.ExitStatus()}
}

// PID returns the command's process ID. Its keeper has another.
func (p *Process) PID() int { return p.pid }

// Done is closed when the command has ended, all its descendants are gone and its output has been copied.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for Done and returns how the command itself ended. The error tells that this is not known (ErrLost), that a
// process could not be killed, or that a Writer failed; a command that fails is no error here.
func (p *Process) Wait() (Exit, error) {
	<-p.done
	return p.exit, p.err
}

// EndedAt is when the command itself ended, to a few milliseconds; what it left behind may have lived longer. To be called after Wait.
func (p *Process) EndedAt() time.Time { return p.endedAt }

// Signal sends a signal to the command itself. os.ErrProcessDone if it has ended.
func (p *Process) Signal(sig syscall.Signal) error { return p.order(false, sig) }

// SignalGroup sends a signal to the command's process group: its children too, but for those that moved to another.
func (p *Process) SignalGroup(sig syscall.Signal) error { return p.order(true, sig) }

func (p *Process) order(group bool, sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return os.ErrProcessDone
	}
	_, err := p.keeper.conn.Write(keeper.SignalMessage(group, sig))
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed) {
		return os.ErrProcessDone
	}
	return err
}

// Terminate sends SIGTERM to the process group and, when the grace period or ctx ends first, kills what is left. It returns
// when the process is done.
func (p *Process) Terminate(ctx context.Context) {
	if err := p.SignalGroup(syscall.SIGTERM); err == nil {
		select {
		case <-p.done:
			return
		case <-time.After(p.grace):
		case <-ctx.Done():
		}
	}
	p.Kill()
	<-p.done
}

// Kill kills the command and every descendant with SIGKILL. It does not wait; see Done.
func (p *Process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		p.keeper.cut()
	}
}
