package proc

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/sluiceml/sluice/internal/proc/internal/keeper"
)

// errGone is the error of a keeper that has ended before it could report that a command has started.
var errGone = errors.New("the keeper has ended")

// maxIdle bounds the keepers that wait for a command.
const maxIdle = 4

// idle are the keepers that wait for a command. They end with this process.
var idle struct {
	mu      sync.Mutex
	keepers []*keeperProcess
}

// keeperProcess is a keeper, seen from its parent.
type keeperProcess struct {
	cmd  *exec.Cmd
	conn *net.UnixConn
	used bool // the end of conn has been closed for writing
}

// startKept starts a command under a keeper that waits for one, or under a new one.
func startKept(spec []byte, streams []*os.File) (k *keeperProcess, pid int, err error) {
	for {
		k := takeIdle()
		waited := k != nil
		if !waited {
			if k, err = startKeeper(); err != nil {
				return nil, 0, err
			}
		}
		pid, err := k.start(spec, streams)
		if errors.Is(err, errGone) && waited { // somebody killed it, and at worst the command in its first moment
			continue
		}
		return k, pid, err
	}
}

// takeIdle returns a keeper that waits for a command; nil if there is none.
func takeIdle() *keeperProcess {
	idle.mu.Lock()
	defer idle.mu.Unlock()
	last := len(idle.keepers) - 1
	if last < 0 {
		return nil
	}
	k := idle.keepers[last]
	idle.keepers = idle.keepers[:last]
	return k
}

func startKeeper() (*keeperProcess, error) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("keeper: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "keeper"), os.NewFile(uintptr(pair[1]), "parent")
	defer theirs.Close()
	conn, err := net.FileConn(ours)
	if err = errors.Join(err, ours.Close()); err != nil {
		return nil, fmt.Errorf("keeper: %w", err)
	}
	cmd := &exec.Cmd{
		Path: keeper.Self,
		Args: []string{os.Args[0], keeper.Arg},
		// None of our environment, which may hold secrets, but for what the dynamic loader needs to start this executable again. A
		// keeper has nothing to do in parallel.
		Env:         []string{"LD_LIBRARY_PATH=" + os.Getenv("LD_LIBRARY_PATH"), "GOMAXPROCS=1"},
		ExtraFiles:  []*os.File{theirs},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("keeper: %w", err), conn.Close())
	}
	return &keeperProcess{cmd: cmd, conn: conn.(*net.UnixConn)}, nil
}

// start makes the keeper start a command and returns its pid. After an error the keeper is gone, or waits for another command.
func (k *keeperProcess) start(spec []byte, streams []*os.File) (pid int, err error) {
	report, err := k.handshake(spec, streams)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		k.close()
		return 0, fmt.Errorf("keeper: %w", err)
	case err != nil:
		k.close()
		return 0, fmt.Errorf("%w: %w", errGone, err)
	case report.Failed != 0:
		k.release()
		return 0, report.Failed
	}
	return report.PID, nil
}

func (k *keeperProcess) handshake(spec []byte, streams []*os.File) (report keeper.Report, err error) {
	if err := k.conn.SetDeadline(time.Now().Add(startLimit)); err != nil {
		return report, err
	}
	fds := make([]int, len(streams))
	for i, f := range streams {
		fds[i] = int(f.Fd())
	}
	message := keeper.StartMessage(spec)
	n, _, err := k.conn.WriteMsgUnix(message, syscall.UnixRights(fds...), nil)
	if err == nil {
		_, err = k.conn.Write(message[n:])
	}
	if err != nil {
		return report, err
	}
	if report, err = keeper.ReadReport(k.conn); err != nil {
		return report, err
	}
	return report, k.conn.SetDeadline(time.Time{})
}

// release lets the keeper wait for another command, unless it was told to end or enough others wait.
func (k *keeperProcess) release() {
	idle.mu.Lock()
	keep := !k.used && len(idle.keepers) < maxIdle
	if keep {
		idle.keepers = append(idle.keepers, k)
	}
	idle.mu.Unlock()
	if !keep {
		k.close()
	}
}

// cut makes the keeper kill everything, report and end, also if somebody has stopped it.
func (k *keeperProcess) cut() {
	k.used = true
	_ = k.conn.CloseWrite()                   // fails if the keeper has ended
	_ = k.cmd.Process.Signal(syscall.SIGCONT) // likewise
}

// close ends a keeper, which has nothing to keep or does not do what it should.
func (k *keeperProcess) close() {
	_ = k.conn.Close() // nothing is sent any more
	_ = k.cmd.Process.Kill()
	_ = k.cmd.Wait() // how a keeper ended says nothing about the command
}
