// Package keeper is the process that stands between a parent and its child, so that the child can never be an orphan.
//
// A keeper is the running executable started again with Arg. It makes itself the subreaper of the command that it starts, so that every
// descendant that loses its parent becomes the keeper's own child, whatever session or process group it moved to. When the command
// ends, or when the parent closes its end of the keeper's socket, the keeper kills all that is left. The end is exact: a subreaper to
// which wait4(2) returns ECHILD has no descendant left, and can keep another command.
//
// A keeper that is killed with SIGKILL takes the command with it, by PDEATHSIG, but not the processes that the command has detached.
//
// The keeper runs in this package's init function, not in main: package initialisers run before main, and those of a large
// program take many times longer than all that a keeper does. The next initialiser to run is always that of the first package, in
// the order of import paths, whose imports are ready; this one imports little, so it comes before nearly all others. That is why
// it does without fmt, strings and golang.org/x/sys.
//
// cgroup.kill is not used. It needs a delegated cgroup v2, which few users, containers and continuous-integration machines
// have, so the walk over the descendants would be needed as well.
package keeper

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Arg is the only argument of a process that is a keeper.
const Arg = "__keeper"

// Self is the executable to start as a keeper. It names the running image also after the file was replaced or deleted.
const Self = "/proc/self/exe"

// socketFD is the keeper's end of its parent's socket. Commands and signals come from it, and reports go to it; its end means: kill
// everything.
const socketFD = 3

// killLimit bounds how long a keeper tries to kill what does not die: processes of another user, or stuck in the kernel.
const killLimit = 10 * time.Second

const (
	prSetName           = 15
	prSetChildSubreaper = 36
)

func init() {
	if len(os.Args) == 2 && os.Args[1] == Arg {
		// Not os.Exit, which under the race detector sleeps for a second.
		syscall.Exit(run())
	}
}

// run is the whole life of a keeper. It is on the main goroutine, which stays on the main thread during initialisation:
// PDEATHSIG follows the thread that started the command.
func run() int {
	if err := closeOnExec(socketFD); err != nil {
		_, _ = os.Stderr.WriteString("sluice: " + Arg + " is for internal use\n")
		return 2
	}
	if err := prctl(prSetChildSubreaper, 1); err != nil {
		report(failed, int(errno(err)), 0, 0)
		return 1
	}
	setName("sluice-keeper")

	k := keeper{changed: make(chan os.Signal, 1), cut: make(chan struct{}), orders: make(chan order), commands: make(chan command)}
	signal.Notify(k.changed, syscall.SIGCHLD)
	// Caught, not ignored: an ignored signal would stay ignored in the command.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM)
	go k.receive()
	for {
		select {
		case c := <-k.commands:
			if !k.keep(c) {
				return 1
			}
		case <-k.orders: // of a command that has ended
		case <-k.cut:
			return 0
		}
	}
}

// keeper is the state of this process. Its command is the one that it keeps now.
type keeper struct {
	child    int
	ended    bool
	endedAt  time.Time // once ended
	status   syscall.WaitStatus
	changed  chan os.Signal
	cut      chan struct{} // closed when the parent is gone, or wants everything killed
	orders   chan order
	commands chan command
}

// keep starts a command and returns when nothing of it is left. clean is false if something is: the keeper cannot keep another one.
func (k *keeper) keep(c command) (clean bool) {
	k.ended = false
	err := k.start(c)
	for _, fd := range c.streams {
		_ = syscall.Close(fd)
	}
	if err != nil {
		report(failed, int(errno(err)), 0, 0)
		return true
	}
	report(started, k.child, 0, 0)
	k.serve()
	left := k.killRest()
	report(ended, k.exitStatus(), left, k.sinceEnd())
	return left == 0
}

// start starts the command in a session of its own.
func (k *keeper) start(c command) (err error) {
	if len(c.streams) != streamCount {
		return syscall.EBADF
	}
	spec, err := decodeSpec(c.spec)
	if err != nil {
		return err
	}
	k.child, err = syscall.ForkExec(spec.Path, spec.Args, &syscall.ProcAttr{
		Dir:   spec.Dir,
		Env:   spec.Env,
		Files: []uintptr{uintptr(c.streams[0]), uintptr(c.streams[1]), uintptr(c.streams[2])},
		Sys:   &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	})
	return err
}

// serve passes orders on until the child has ended or the tether is cut. Reaping and signalling are done by this one
// goroutine, so that no signal can go to a process that was given the child's number after it.
func (k *keeper) serve() {
	for !k.ended {
		select {
		case <-k.changed:
			k.reap()
		case o := <-k.orders:
			target := k.child
			if o.group {
				target = -k.child
			}
			// It may have ended; its number is still its own, as only reap gives it back.
			_ = syscall.Kill(target, o.signal)
		case <-k.cut:
			return
		}
	}
}

// reap collects every child that has ended and reports whether none is left, ended or not.
func (k *keeper) reap() (none bool) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return true
		case pid == 0:
			return false
		case pid == k.child:
			k.ended, k.endedAt, k.status = true, time.Now(), status
		}
	}
}

// killRest kills all descendants and returns how many it could not.
func (k *keeper) killRest() int {
	deadline := time.Now().Add(killLimit)
	for !k.reap() {
		killTree()
		select {
		case <-k.changed:
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return len(descendants())
		}
	}
	return 0
}

func (k *keeper) exitStatus() int {
	if !k.ended {
		return unknownStatus
	}
	return int(k.status)
}

// sinceEnd is how many milliseconds ago the command ended.
func (k *keeper) sinceEnd() int {
	if !k.ended {
		return 0
	}
	return int(time.Since(k.endedAt).Milliseconds())
}

// receive passes on what the parent sends, until its end of the socket is closed.
func (k *keeper) receive() {
	defer close(k.cut)
	for {
		m, ok := readMessage(socketFD)
		switch {
		case !ok:
			return
		case m.kind == start:
			k.commands <- command{m.body, m.files}
		default:
			k.orders <- order{group: m.kind == signalGroup, signal: syscall.Signal(m.number)}
		}
	}
}

func errno(err error) syscall.Errno {
	if e := syscall.Errno(0); errors.As(err, &e) {
		return e
	}
	return syscall.EIO
}
