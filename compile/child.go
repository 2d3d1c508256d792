package compile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"

	"github.com/sluiceml/sluice/internal/proc"
	"github.com/sluiceml/sluice/serving/trial"
)

// Arg is the first argument of the child process that loads models. A main that sees it calls Main and nothing else.
const Arg = "__measure"

// request is what the child reads from stdin: one of the three.
type request struct {
	Open    *Model       `json:"open,omitempty"`
	Measure *Measurement `json:"measure,omitempty"`
	Export  *Export      `json:"export,omitempty"`
}

// reply is what the child writes to stdout.
type reply struct {
	Measured []Measured `json:"measured,omitempty"`
	Exported Exported   `json:"exported,omitzero"`
	// Fault is a ModelError's message, Error any other's.
	Fault string `json:"fault,omitempty"`
	Error string `json:"error,omitempty"`
}

// Main is the child process: it reads a request from stdin as JSON, does it, and writes what came of it to stdout.
func Main(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	var asked request
	if err := json.NewDecoder(stdin).Decode(&asked); err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	var r reply
	var err error
	switch {
	case asked.Open != nil:
		err = asked.Open.open()
	case asked.Measure != nil:
		r.Measured, err = Measure(ctx, *asked.Measure)
	case asked.Export != nil:
		r.Exported, err = asked.Export.write(ctx)
	}
	if fault, ok := errors.AsType[*ModelError](err); ok {
		r.Fault = fault.Message
	} else if err != nil {
		r.Error = err.Error()
	}
	return json.NewEncoder(stdout).Encode(r)
}

// openSource reports, before anything is built of it, why ONNX Runtime cannot run the source model.
func (job Job) openSource(ctx context.Context, source string) error {
	_, err := job.inChild(ctx, request{Open: &Model{Name: sourceModel, File: source}})
	return err
}

func (m Model) open() error {
	session, err := openModel(m)
	if err != nil {
		return err
	}
	return session.Close()
}

// measure runs Measure in a process of its own.
func (job Job) measure(ctx context.Context, models []Model) ([]Measured, error) {
	r, err := job.inChild(ctx, request{Measure: &Measurement{Models: models, Dataset: job.Dataset, Samples: job.Spec.Samples, Compare: job.Spec.Compare}})
	if err == nil && len(r.Measured) != len(models) {
		err = fmt.Errorf("the process that runs the models measured %d of %d", len(r.Measured), len(models))
	}
	return r.Measured, err
}

// inChild runs Main in a process of its own.
func (job Job) inChild(ctx context.Context, asked request) (reply, error) {
	output, err := trial.Run(ctx, job.Executable, Arg, asked)
	if crash, ok := errors.AsType[*trial.Crash](err); ok {
		return reply{}, &ModelError{"the process that runs the models crashed: " + crash.Reason}
	}
	if err != nil {
		return reply{}, err
	}
	var r reply
	if err := json.Unmarshal(output, &r); err != nil {
		return reply{}, fmt.Errorf("the process that runs the models gave no answer: %w", err)
	}
	switch {
	case r.Fault != "":
		return reply{}, &ModelError{r.Fault}
	case r.Error != "":
		return reply{}, errors.New(r.Error)
	}
	return r, nil
}

// ended is the error of a child that did not end well, in one line: with the one in which a program of Go or C++ says why it crashed, or else the
// last, in which one of Python does.
func ended(what string, exit proc.Exit, said string) error {
	lines := strings.Split(strings.TrimSpace(said), "\n")
	crash := slices.IndexFunc(lines, func(line string) bool {
		return strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") || strings.Contains(line, "what(): ")
	})
	if crash < 0 {
		crash = len(lines) - 1
	}
	return unlessKilled(exit, strings.TrimSuffix(fmt.Sprintf("%s ended with %s: %s", what, exit, strings.TrimSpace(lines[crash])), ": "))
}

// unlessKilled is a ModelError, unless the child was killed: then it was in the way of something, of the kernel's for want of memory at
// most times.
func unlessKilled(exit proc.Exit, message string) error {
	if exit.Signal == syscall.SIGKILL {
		return errors.New(message)
	}
	return &ModelError{message}
}
