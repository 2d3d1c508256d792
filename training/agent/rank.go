package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sluiceml/sluice/internal/proc"
	"github.com/sluiceml/sluice/training/protocol"
)

// RankCommand is the agent's subcommand with which a launcher starts the watcher of one rank. Its arguments are the folder that it shares
// with the agent, and the rank's command.
const RankCommand = "rank"

const (
	// rankLook is the polling interval of a watcher.
	rankLook = 50 * time.Millisecond
	// agreedLimit is how long the watcher of a rank that has stopped waits for the order to stop, if its node has none yet: ranks on another
	// node were told to stop, and this one has agreed with them to stop, too.
	agreedLimit = 10 * time.Second
)

// The files in the folder that a node's watchers share with the agent: the order to stop and, for each rank, its output, its process ID and
// how it ended.
const (
	outputPipes  = "output-"
	stopFile     = "stop"
	startedFiles = "started-"
	endedFiles   = "ended-"
)

func outputPipe(dir string, local int) string {
	return filepath.Join(dir, outputPipes+strconv.Itoa(local))
}

// rankEnd is how a rank ended.
type rankEnd struct {
	Local   int       `json:"local"` // its number on the node
	Code    int       `json:"code"`  // -1 when a signal ended it
	Signal  int       `json:"signal,omitempty"`
	EndedAt time.Time `json:"ended_at"`
}

func (e rankEnd) ok() bool      { return e.Code == 0 && e.Signal == 0 }
func (e rankEnd) stopped() bool { return e.Code == exitStopped }

// orKilled is the end of a rank that SIGKILL ended if all that is left of it is a shell that says so.
func (e rankEnd) orKilled() rankEnd {
	if e.Code == proc.ExitKilled {
		e.Code, e.Signal = -1, int(syscall.SIGKILL)
	}
	return e
}

// Rank runs the command of one rank for a launcher, and returns the exit code for this process. When the node is told to stop, the rank
// gets SIGTERM from here and not from the launcher. When ranks stop, this process does not exit before all of them have: the launcher would
// take the first exit for a failure, and kill ranks that are still writing a checkpoint.
func Rank(dir string, argv []string) int {
	w := watcher{dir: dir}
	end, err := w.run(argv)
	if err == nil {
		err = protocol.WriteFile(filepath.Join(dir, endedFiles+strconv.Itoa(w.local)), end)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sluice-agent: rank:", err)
		return 1
	}
	w.hold(end)
	if end.Signal != 0 {
		return 128 + end.Signal
	}
	return end.Code
}

// watcher watches one rank.
type watcher struct {
	dir          string
	local, ranks int      // which rank of how many on the node
	vars         []string // variables that the launcher does not set
	stopping     bool     // the rank has been told to stop
}

func (w *watcher) run(argv []string) (rankEnd, error) {
	if err := w.place(); err != nil {
		return rankEnd{}, err
	}
	end := rankEnd{Local: w.local, Code: exitStopped}
	if w.toldToStop() {
		end.EndedAt = time.Now()
		return end, nil
	}
	out, err := os.OpenFile(outputPipe(w.dir, w.local), os.O_WRONLY, 0)
	if err != nil {
		return end, err
	}
	defer out.Close()
	// Because of Pdeathsig, the kernel kills the rank when the thread that started it ends, so that thread must last as long as this process.
	runtime.LockOSThread()
	cmd := exec.CommandContext(context.Background(), argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), w.vars...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	heard := make(chan os.Signal, 4)
	signal.Notify(heard, syscall.SIGTERM, syscall.SIGINT)
	if err := cmd.Start(); err != nil {
		return end, err
	}
	started := filepath.Join(w.dir, startedFiles+strconv.Itoa(w.local))
	if err := os.WriteFile(started, []byte(strconv.Itoa(cmd.Process.Pid)), 0o644); err != nil {
		return end, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	err = w.watch(cmd.Process.Pid, heard, ended)
	end.EndedAt = time.Now()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return end, err
	}
	end.Code = cmd.ProcessState.ExitCode()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		end.Signal = int(status.Signal())
	}
	return end.orKilled(), nil
}

// watch sends the rank SIGTERM on a signal or the order to stop, until the rank has ended.
func (w *watcher) watch(pid int, heard <-chan os.Signal, ended <-chan error) error {
	look := time.Tick(rankLook)
	for {
		select {
		case err := <-ended:
			return err
		case <-heard: // the launcher gives up: another rank has failed, or it was told to end
		case <-look:
			if w.stopping || !w.toldToStop() {
				continue
			}
			w.stopping = true
		}
		if !tellRank(pid) {
			_ = syscall.Kill(-pid, syscall.SIGTERM) // it may have ended just now
		}
	}
}

func (w *watcher) toldToStop() bool {
	_, err := os.Stat(filepath.Join(w.dir, stopFile))
	return err == nil
}

// place finds out which rank this is. torchrun sets the variables that every script reads; for MPI they are derived from its own.
func (w *watcher) place() error {
	var err error
	if w.local, err = number("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"); err != nil {
		return err
	}
	if w.ranks, err = number("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"); err != nil {
		return err
	}
	for _, v := range []struct {
		name string
		from []string
	}{
		{"RANK", []string{"OMPI_COMM_WORLD_RANK", "PMI_RANK"}},
		{"WORLD_SIZE", []string{"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}},
		{"LOCAL_RANK", []string{"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"}},
		{"LOCAL_WORLD_SIZE", []string{"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}},
	} {
		if os.Getenv(v.name) != "" {
			continue
		}
		if n, err := number(v.from...); err == nil {
			w.vars = append(w.vars, v.name+"="+strconv.Itoa(n))
		}
	}
	return nil
}

// number returns the value of the first of these variables that is set.
func number(names ...string) (int, error) {
	for _, name := range names {
		if text := os.Getenv(name); text != "" {
			return strconv.Atoi(text)
		}
	}
	return 0, fmt.Errorf("the launcher does not set any of %s", strings.Join(names, ", "))
}

// hold waits, if the rank has stopped, until the others on the node have ended. agreedLimit bounds the wait; once the node has been told to
// stop, the agent bounds it (see patience).
func (w *watcher) hold(end rankEnd) {
	if !w.stopping && !end.stopped() {
		return
	}
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
	for limit := time.Now().Add(agreedLimit); time.Now().Before(limit) || w.toldToStop(); time.Sleep(rankLook) {
		if ends, err := readEnds(w.dir); err != nil || len(ends) >= w.ranks {
			return
		}
	}
}

// readEnds returns the ends of those ranks of a node that have ended, sorted by rank.
func readEnds(dir string) ([]rankEnd, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var ends []rankEnd
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), endedFiles) {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		var end rankEnd
		if err := json.Unmarshal(raw, &end); err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Name(), err)
		}
		ends = append(ends, end)
	}
	slices.SortFunc(ends, func(a, b rankEnd) int { return a.Local - b.Local })
	return ends, nil
}

// outcome returns how the ranks of a node ended as a whole: the first that failed, or else one that stopped, or else one that finished. The
// end of the launcher counts only if no rank has recorded its end: otherwise it is a consequence of theirs, or of what happened on other
// nodes.
func outcome(ends []rankEnd, ranks int, launcher rankEnd) rankEnd {
	if len(ends) == 0 {
		return launcher
	}
	worst := slices.MinFunc(ends, func(a, b rankEnd) int {
		return cmp.Or(a.blame()-b.blame(), a.EndedAt.Compare(b.EndedAt))
	})
	for local := range ranks {
		if worst.blame() > blameTerminated && !slices.ContainsFunc(ends, func(e rankEnd) bool { return e.Local == local }) {
			return rankEnd{Local: local, Code: -1, Signal: int(syscall.SIGKILL), EndedAt: launcher.EndedAt} // its watcher was killed too
		}
	}
	return worst
}

const (
	// failedLimit is how long ranks may outlive a failed one on their node, and launcherLimit is how long the launcher may outlive them all.
	// torchrun would wait minutes for the other nodes, which cannot know of the failure.
	failedLimit   = 5 * time.Second
	launcherLimit = time.Second
)

// patience returns when to kill what is left on a node; zero for never. If all ranks have finished and the node has not been told to stop,
// the launcher waits for the ranks of other nodes, which may need it.
func patience(ends []rankEnd, ranks int, told bool) time.Time {
	var last, failed time.Time
	for _, e := range ends {
		if e.EndedAt.After(last) {
			last = e.EndedAt
		}
		if e.blame() < blameStopped && (failed.IsZero() || e.EndedAt.Before(failed)) {
			failed = e.EndedAt
		}
	}
	switch all := len(ends) >= ranks; {
	case all && (told || slices.ContainsFunc(ends, func(e rankEnd) bool { return !e.ok() })):
		return last.Add(launcherLimit)
	case !failed.IsZero():
		return failed.Add(failedLimit)
	}
	return time.Time{}
}

// How well an end explains those of the other ranks, best first.
const (
	blameKilled = iota
	blameFailed
	blameTerminated // by the launcher, because of another
	blameStopped
	blameNone
)

func (e rankEnd) blame() int {
	switch {
	case e.Signal == int(syscall.SIGTERM):
		return blameTerminated
	case e.Signal != 0:
		return blameKilled
	case e.stopped():
		return blameStopped
	case e.Code != 0:
		return blameFailed
	}
	return blameNone
}
