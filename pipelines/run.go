package pipelines

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/proc"
	"github.com/sluiceml/sluice/pipelines/meter"
	"github.com/sluiceml/sluice/pipelines/runner"
)

// How long a canceled child has to exit by itself. It has nothing to save, but on a cluster it must cancel its job.
const (
	stopGrace    = 2 * time.Second
	clusterGrace = runner.CancelTimeout + 5*time.Second
)

// tailLines is how many lines of a crashed child's output go into the error; enough for a panic's message, which comes before its stack.
const tailLines = 60

// Run runs a job in a child process: exe with the argument Arg, which must call Main. progress, if not nil, is called about once a second
// from one goroutine. When ctx ends, the child is stopped and the error is of type canceled unless the cause is a fault.Error. All errors
// are of type *fault.Error.
//
// Whatever happens, job.OutputDir is either complete or not there, and so is job.DeadLetterDir; a failed job may be run again. The artifact
// references of the result are empty: the caller stores the folders. Run also removes work folders next to OutputDir that killed processes
// left.
func Run(ctx context.Context, exe string, job Job, progress func(meter.Progress)) (spec.CleanOutput, error) {
	for _, dir := range []string{job.OutputDir, job.DeadLetterDir} {
		if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
			return spec.CleanOutput{}, fault.Errorf(fault.Invalid, "clean into %s: it is not empty", dir)
		}
	}
	removeLeftOvers(filepath.Dir(job.OutputDir))
	work, remove, err := makeWorkFolder(filepath.Dir(job.OutputDir))
	if err != nil {
		return spec.CleanOutput{}, fault.Errorf(fault.Infrastructure, "create a work folder for cleaning: %w", err)
	}
	defer remove()
	job.WorkDir = work
	stdin, err := json.Marshal(job)
	if err != nil {
		return spec.CleanOutput{}, fault.Errorf(fault.Invalid, "encode the cleaning job: %w", err)
	}
	return runChild(ctx, exe, job, stdin, listener{progress: progress, log: job.Programs.Log})
}

// listener receives a child's progress and log while it runs; either may be nil.
type listener struct {
	progress func(meter.Progress)
	log      io.Writer
}

func runChild(ctx context.Context, exe string, job Job, stdin []byte, tell listener) (spec.CleanOutput, error) {
	stdout, childOut, err := os.Pipe()
	if err != nil {
		return spec.CleanOutput{}, fault.Errorf(fault.Infrastructure, "start the cleaning process: %w", err)
	}
	defer stdout.Close()
	tail := proc.NewTail(tailLines)
	grace := stopGrace
	if !job.Runner.inProcess() {
		grace = clusterGrace
	}
	child, err := proc.Start(ctx, proc.Command{
		Path: exe, Args: []string{Arg}, Dir: job.Dir, Env: childEnviron(os.Environ(), job, stdin),
		Stdin: bytes.NewReader(stdin), Stdout: childOut, Stderr: tail, Grace: grace,
	})
	childOut.Close()
	if err != nil {
		if ctx.Err() != nil {
			return spec.CleanOutput{}, stopped(ctx)
		}
		return spec.CleanOutput{}, fault.Errorf(fault.Infrastructure, "start the cleaning process: %w", err)
	}
	last, readErr := readMessages(stdout, tell)
	exit, err := child.Wait()
	switch {
	case ctx.Err() != nil:
		return spec.CleanOutput{}, stopped(ctx)
	case last.Error != nil:
		return spec.CleanOutput{}, last.Error
	case err != nil:
		return spec.CleanOutput{}, fault.Errorf(fault.Infrastructure, "the cleaning process: %w", err)
	case readErr != nil && exit.OK():
		return spec.CleanOutput{}, fault.Errorf(fault.Infrastructure, "read from the cleaning process: %w", readErr)
	case !exit.OK() || last.Result == nil:
		return spec.CleanOutput{}, fault.Errorf(fault.Infrastructure, "the cleaning process ended without a result: %s%s", exit, lastWords(tail))
	}
	return *last.Result, nil
}

// maxMessage bounds the size of one message.
const maxMessage = 16 << 20

// readMessages passes progress and logs to the listener and returns the last message. If a line is too long or not JSON, it drains the
// rest, so that the child does not block.
func readMessages(r io.Reader, tell listener) (last message, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxMessage)
	for lines.Scan() {
		var m message
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			_, drainErr := io.Copy(io.Discard, r)
			return last, errors.Join(fmt.Errorf("the line %.100q: %w", lines.Text(), err), drainErr)
		}
		if m.Progress != nil && tell.progress != nil {
			tell.progress(*m.Progress)
		}
		if m.Log != nil && tell.log != nil {
			_, _ = tell.log.Write(m.Log) // a log that cannot be written does not fail the job
		}
		last = m
	}
	if err := lines.Err(); err != nil {
		_, drainErr := io.Copy(io.Discard, r)
		return last, errors.Join(err, drainErr)
	}
	return last, nil
}

func lastWords(tail *proc.Tail) string {
	text := strings.TrimSpace(tail.String())
	if text == "" {
		return ""
	}
	return "; its last output:\n" + text
}
