// Package helper asks what is known of this machine's GPUs: the program sluice-gpu, and where that is missing nvidia-smi, which tells less.
package helper

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluiceml/sluice/internal/proc"
	"github.com/sluiceml/sluice/training/gpu"
)

const (
	// Name is the program's.
	Name = "sluice-gpu"
	// inspectLimit bounds an inventory: a driver that is not kept loaded needs seconds for each GPU.
	inspectLimit = time.Minute
	// silenceLimit is for how long a watch may print nothing, beyond the interval at which it reads: calls to a driver may hang for good when
	// a GPU has broken.
	silenceLimit = time.Minute
	// maxOutput bounds what one answer, or one line of a watch, may be long.
	maxOutput = 1 << 20
	// maxComplaint is how much of an answer goes into an error.
	maxComplaint = 500
)

// Path finds the program: $SLUICE_GPU, else beside this one, else in PATH; "" where it is not.
func Path() string {
	if path := os.Getenv(gpu.HelperVariable); path != "" {
		return path
	}
	if exe, err := os.Executable(); err == nil {
		if path := filepath.Join(filepath.Dir(exe), Name); isProgram(path) {
			return path
		}
	}
	path, err := exec.LookPath(Name)
	if err != nil {
		return ""
	}
	return path
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// Inspect lists the GPUs of this machine; one that has none says why, which is no error. path is what Path found: where that is nothing,
// nvidia-smi is asked.
func Inspect(ctx context.Context, path string) (gpu.Inventory, error) {
	inv, err := inspect(ctx, path, inspectLimit)
	if err != nil {
		return inv, fmt.Errorf("list the GPUs: %w", err)
	}
	return inv, nil
}

func inspect(ctx context.Context, path string, limit time.Duration) (gpu.Inventory, error) {
	if path == "" {
		return inspectSMI(ctx, limit)
	}
	var inv gpu.Inventory
	out, err := output(ctx, limit, path, "inventory", formatFlag)
	if err != nil {
		return inv, err
	}
	if err := json.Unmarshal(out, &inv); err != nil || inv.Source == "" {
		return inv, fmt.Errorf("%s printed no inventory but %.100q: is it the program of this build?", path, out)
	}
	return inv, nil
}

// formatFlag says in which format the program is to print. One that does not know it says so, and prints nothing.
var formatFlag = fmt.Sprintf("--format=%d", gpu.Format)

// exitError is that a program failed by itself.
type exitError struct {
	program   string
	exit      proc.Exit
	complaint string // what it said last, if anything
}

func (e exitError) Error() string {
	if e.complaint == "" {
		return fmt.Sprintf("%s ended with %s", e.program, e.exit)
	}
	return fmt.Sprintf("%s ended with %s: %s", e.program, e.exit, strings.TrimPrefix(e.complaint, filepath.Base(e.program)+": "))
}

// output is what a program prints. It leaves nothing running, also where it hangs, or is a script that has started others.
func output(ctx context.Context, limit time.Duration, path string, args ...string) ([]byte, error) {
	ctx, timeout := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s did not answer within %s", path, limit))
	defer timeout()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := answer{failed: cancel}
	complaint := proc.NewTail(3)
	exit, err := proc.Run(ctx, proc.Command{Path: path, Args: args, Env: environ(), Stdout: &out, Stderr: complaint, Grace: grace})
	switch {
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return nil, fmt.Errorf("%s did not answer in time", path)
	case err != nil:
		return nil, err
	case !exit.OK():
		said := complaint.String()
		if said == "" { // nvidia-smi complains where it answers
			said = strings.TrimSpace(string(out.kept[max(0, len(out.kept)-maxComplaint):]))
		}
		return nil, exitError{path, exit, said}
	}
	return out.kept, nil
}

// grace is the time between SIGTERM and SIGKILL for the program, which has nothing to save.
const grace = time.Second

// environ is this process's environment without what it was told of Sluice, which holds secrets.
func environ() []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return strings.HasPrefix(kv, "SLUICE_") || strings.HasPrefix(kv, "TEMPORAL_")
	})
}

// errTooLong ends a program that prints more than any answer is long.
var errTooLong = fmt.Errorf("it printed more than %d bytes without a line break", maxOutput)

// answer keeps what is written to it, as far as it may be long.
type answer struct {
	kept   []byte
	failed func(error)
}

// Write implements io.Writer.
func (a *answer) Write(p []byte) (int, error) {
	if len(a.kept)+len(p) > maxOutput {
		a.failed(errTooLong)
		return 0, errTooLong
	}
	a.kept = append(a.kept, p...)
	return len(p), nil
}

// Watch reports the readings of the units with these UUIDs, all when there are none, that often, and what errors they have. It returns when
// ctx ends, and with an error when nothing is to be learned any more. One at a time is reported.
func Watch(ctx context.Context, path string, uuids []string, every time.Duration, report func(gpu.Report)) error {
	return watch(ctx, path, uuids, every, every+silenceLimit, report)
}

func watch(ctx context.Context, path string, uuids []string, every, silence time.Duration, report func(gpu.Report)) error {
	if path == "" {
		return watchSMI(ctx, uuids, every, report)
	}
	watching, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(silence, func() { cancel(fmt.Errorf("%s printed nothing for %s", path, silence)) })
	defer timer.Stop()
	lines := &splitter{failed: cancel, line: func(line []byte) error {
		var r gpu.Report
		if err := json.Unmarshal(line, &r); err != nil || r.At.IsZero() {
			return fmt.Errorf("%s printed no report but %.100q: is it the program of this build?", path, line)
		}
		timer.Reset(silence)
		report(r)
		return nil
	}}
	complaint := proc.NewTail(3)
	args := []string{"watch", formatFlag, "--every", every.String(), "--gpus", strings.Join(uuids, ",")}
	p, err := proc.Start(watching, proc.Command{Path: path, Args: args, Env: environ(), Stdout: lines, Stderr: complaint, Grace: grace})
	if err != nil {
		return err
	}
	exit, err := p.Wait()
	switch {
	case ctx.Err() != nil:
		return nil
	case watching.Err() != nil:
		return context.Cause(watching)
	case err != nil:
		return err
	}
	return exitError{path, exit, complaint.String()}
}

// splitter hands on whole lines, up to the first error.
type splitter struct {
	rest   []byte
	line   func([]byte) error
	failed func(error)
}

// Write implements io.Writer.
func (s *splitter) Write(p []byte) (int, error) {
	s.rest = append(s.rest, p...)
	for {
		line, rest, ok := bytes.Cut(s.rest, []byte{'\n'})
		if !ok {
			break
		}
		s.rest = rest
		if err := s.line(line); err != nil {
			s.failed(err)
			return 0, err
		}
	}
	if len(s.rest) > maxOutput {
		s.failed(errTooLong)
		return 0, errTooLong
	}
	return len(p), nil
}
