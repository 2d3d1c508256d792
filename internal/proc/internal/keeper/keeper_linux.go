// Package keeper is the process that stands between a parent and its child, so that the child can never be an orphan.
//
// A keeper is the running executable started again with Arg. It makes itself the subreaper of what it starts, so that every
// descendant that loses its parent becomes the keeper's own child, whatever session or process group it moved to; when the
// child ends, or when the tether (a pipe of which only the parent holds the write end) is cut, it kills all that is left. The
// end is exact: a subreaper that wait4(2) tells ECHILD has no descendant left.
//
// There are two keepers, an outer one that starts an inner one that starts the command. If one of them is killed with SIGKILL,
// the other clears up: the descendants of a dead inner keeper fall to the outer one, and the inner one's tether is held by the
// outer. If both die at one moment, PDEATHSIG ends the command itself; only then may its own detached children live on.
//
// The keeper runs in this package's init function, not in main: package initialisers run before main, and those of a large
// program take many times longer than all that a keeper does. The next initialiser to run is always that of the first package, in
// the order of import paths, whose imports are ready; this one imports little, so it comes before nearly all others. That is why
// it does without fmt, strings and golang.org/x/sys.
//
// cgroup.kill is not used. It needs a delegated cgroup v2, which few users, containers and continuous-integration machines
// have, so the walk over the descendants would be needed beside it.
package keeper

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Arg is the first argument of a process that is a keeper, followed by a role.
const Arg = "__keeper"

// The roles.
const (
	Outer = "outer"
	Inner = "inner"
)

// Self is the executable to start as a keeper. It names the running image also after the file was replaced or deleted.
const Self = "/proc/self/exe"

// The file descriptors a keeper is born with, beside the command's own 0, 1 and 2.
const (
	tetherFD  = 3 // reads nothing; its end means: kill everything
	controlFD = 4 // the Spec, then orders; meant for the inner keeper
	statusFD  = 5 // reports to the parent; its end means: no keeper is left
)

// killLimit bounds how long a keeper tries to kill what does not die: processes of another user, or stuck in the kernel.
const killLimit = 10 * time.Second

// innerLimit is how long the outer keeper lets the inner one do the killing, which can still report how the command ended.
const innerLimit = killLimit + 2*time.Second

const (
	prSetName           = 15
	prSetChildSubreaper = 36
)

func init() {
	if len(os.Args) == 3 && os.Args[1] == Arg {
		// Not os.Exit, which under the race detector sleeps for a second.
		syscall.Exit(run(os.Args[2]))
	}
}

// run is the whole life of a keeper. It is on the main goroutine, which stays on the main thread during initialisation:
// PDEATHSIG follows the thread that started the command.
func run(role string) int {
	for _, fd := range []int{tetherFD, controlFD, statusFD} {
		if err := closeOnExec(fd); err != nil {
			_, _ = os.Stderr.WriteString("sluice: " + Arg + " is for internal use\n")
			return 2
		}
	}
	if err := prctl(prSetChildSubreaper, 1); err != nil {
		report(failed, int(errno(err)), 0, 0)
		return 1
	}
	setName("sluice-keeper")

	k := keeper{changed: make(chan os.Signal, 1), cut: make(chan struct{}, 2), orders: make(chan order)}
	signal.Notify(k.changed, syscall.SIGCHLD)
	// Caught, not ignored: an ignored signal would stay ignored in the command.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM)

	start := k.startCommand
	if role == Outer {
		start = k.startInner
	}
	if err := start(); err != nil {
		report(failed, int(errno(err)), 0, 0)
		return 1
	}
	releaseStdio()
	if role == Inner {
		report(started, k.child, 0, 0)
		go k.readOrders()
	}
	go k.watchTether()

	k.serve()
	if role == Outer {
		k.awaitInner()
	}
	left := k.killRest()
	if role == Inner {
		report(ended, k.exitStatus(), left, k.sinceEnd())
	}
	return 0
}

type keeper struct {
	child   int
	ended   bool
	endedAt time.Time // once ended
	status  syscall.WaitStatus
	changed chan os.Signal
	cut     chan struct{}
	orders  chan order
}

// startInner starts the inner keeper, which inherits everything but the tether: that one is new and held by this process alone.
func (k *keeper) startInner() error {
	var tether [2]int
	if err := syscall.Pipe2(tether[:], syscall.O_CLOEXEC); err != nil {
		return err
	}
	pid, err := syscall.ForkExec(Self, []string{os.Args[0], Arg, Inner}, &syscall.ProcAttr{
		Env:   os.Environ(),
		Files: []uintptr{0, 1, 2, uintptr(tether[0]), controlFD, statusFD},
	})
	if err != nil {
		return err
	}
	k.child = pid
	_ = syscall.Close(tether[0])
	return syscall.Close(controlFD)
}

// startCommand reads the Spec and starts the command in a session of its own.
func (k *keeper) startCommand() error {
	spec, err := readSpec(controlFD)
	if err != nil {
		return err
	}
	k.child, err = syscall.ForkExec(spec.Path, spec.Args, &syscall.ProcAttr{
		Dir:   spec.Dir,
		Env:   spec.Env,
		Files: []uintptr{0, 1, 2},
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

// awaitInner gives an inner keeper, whose orders end when the tether does, the time to finish; continued, in case it was stopped.
func (k *keeper) awaitInner() {
	if k.ended {
		return
	}
	_ = syscall.Kill(k.child, syscall.SIGCONT)
	for limit := time.After(innerLimit); !k.ended; {
		select {
		case <-k.changed:
			k.reap()
		case <-limit:
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

func (k *keeper) watchTether() {
	readFull(tetherFD, make([]byte, 1))
	k.cut <- struct{}{}
}

func (k *keeper) readOrders() {
	var b [orderSize]byte
	for readFull(controlFD, b[:]) {
		k.orders <- decodeOrder(b)
	}
	k.cut <- struct{}{}
}

// releaseStdio lets go of the command's standard streams, so that their ends see when the command closes them.
func releaseStdio() {
	null, err := syscall.Open(os.DevNull, syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	for fd := range 3 {
		_ = syscall.Dup3(null, fd, 0)
	}
	_ = syscall.Close(null)
}

func errno(err error) syscall.Errno {
	if e := syscall.Errno(0); errors.As(err, &e) {
		return e
	}
	return syscall.EIO
}
