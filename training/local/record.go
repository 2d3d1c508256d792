package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/training"
)

const (
	// pollEvery is how often a gang is marked as seen, and the processes of one that another process started are looked at.
	pollEvery = 200 * time.Millisecond
	// goneLimit bounds the wait for processes that were killed.
	goneLimit = 10 * time.Second
)

// record is what is kept of a gang on disk.
type record struct {
	training.Gang
	Dir       string    `json:"-"`
	SeenAt    time.Time `json:"-"`         // the file's time: when the process that started the gang last saw it alive
	Processes []process `json:"processes"` // the agents, by node
}

// process names a process for good: its ID alone is given out again.
type process struct {
	PID     int    `json:"pid"`
	Started string `json:"started"` // in clock ticks since boot
}

// identify returns the identity of a running process.
func identify(pid int) process { return process{PID: pid, Started: startTime(pid)} }

// alive reports whether the very process runs.
func (p process) alive() bool { return p.Started != "" && startTime(p.PID) == p.Started }

// startTime is field 22 of /proc/<pid>/stat (proc(5)), "" when there is no such process or it is a zombie.
func startTime(pid int) string {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return ""
	}
	// The second field is the program's name in parentheses, which may itself hold blanks and parentheses.
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" {
		return ""
	}
	return fields[19]
}

func (r record) lives() bool { return slices.ContainsFunc(r.Processes, process.alive) }

// see marks the gang as seen alive. Whoever finds the record of one that was killed with its process knows by this when that was.
func (r record) see(now time.Time) error { return os.Chtimes(recordPath(r.Dir), now, now) }

func recordPath(dir string) string { return filepath.Join(dir, "gang.json") }

// readRecord returns an empty record where there is none.
func readRecord(dir string) (record, error) {
	r := record{Dir: dir}
	raw, err := os.ReadFile(recordPath(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	} else if err != nil {
		return r, err
	}
	info, err := os.Stat(recordPath(dir))
	if err != nil {
		return r, err
	}
	r.SeenAt = info.ModTime().UTC()
	if err := json.Unmarshal(raw, &r); err != nil {
		return r, fmt.Errorf("%s: %w", recordPath(dir), err)
	}
	return r, nil
}

// watchRecord watches a gang that another process started.
func watchRecord(ctx context.Context, dir string) (training.Loss, error) {
	r, err := readRecord(dir)
	if err != nil {
		return training.Loss{}, err
	}
	if len(r.Processes) == 0 {
		return training.Loss{Reason: "the pool has no record of the gang"}, nil
	}
	for range poll.Every(ctx, pollEvery) {
		var gone []int
		for i, p := range r.Processes {
			if !p.alive() {
				gone = append(gone, i)
			}
		}
		if len(gone) > 0 {
			return training.Loss{Nodes: gone, Reason: fmt.Sprintf("node %d: its agent has exited, with the worker that started it or before", gone[0])}, nil
		}
	}
	return training.Loss{}, ctx.Err()
}

// killRecord ends the agents of a gang that another process started; their keepers end what runs under them. It returns the gang with the
// ends of its nodes: those that it did not have to end were last seen with the process that started them.
func killRecord(ctx context.Context, dir string) (training.Gang, error) {
	r, err := readRecord(dir)
	if err != nil {
		return r.Gang, err
	}
	ctx, cancel := context.WithTimeout(ctx, goneLimit)
	defer cancel()
	for i, p := range r.Processes {
		r.Nodes[i].EndedAt = r.SeenAt
		lived := p.alive()
		for p.alive() {
			if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return r.Gang, fmt.Errorf("kill the agent of node %d: %w", i, err)
			}
			select {
			case <-ctx.Done():
				return r.Gang, fmt.Errorf("the agent of node %d (pid %d) did not exit: %w", i, p.PID, ctx.Err())
			case <-time.After(pollEvery / 10):
			}
		}
		if lived {
			r.Nodes[i].EndedAt = time.Now().UTC()
		}
	}
	return r.Gang, nil
}
