// Package helper asks what is known of this machine's GPUs: the program sluice-gpu, and where that is missing nvidia-smi, which tells less.
package helper

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/sluiceml/sluice/internal/proc"
	"github.com/sluiceml/sluice/training/gpu"
)

const (
	// Name is the program's.
	Name = "sluice-gpu"
	// Variable names where it is, if not beside the program that asks.
	Variable = "SLUICE_GPU"
	// inspectLimit bounds an inventory: a driver that is not kept loaded needs seconds for each GPU.
	inspectLimit = time.Minute
)

// Path finds the program: $SLUICE_GPU, else beside this one, else in PATH; "" where it is not.
func Path() string {
	if path := os.Getenv(Variable); path != "" {
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

// Inspect lists the GPUs of this machine; one that has none says why, which is no error. path is the program's; without one, or where it is
// missing, nvidia-smi is asked.
func Inspect(ctx context.Context, path string) (gpu.Inventory, error) {
	ctx, cancel := context.WithTimeout(ctx, inspectLimit)
	defer cancel()
	if path == "" {
		return inspectSMI(ctx)
	}
	var inv gpu.Inventory
	out, err := output(ctx, path, "inventory")
	if errors.Is(err, fs.ErrNotExist) {
		return inspectSMI(ctx)
	}
	if err == nil {
		err = json.Unmarshal(out, &inv)
	}
	if err != nil {
		return inv, fmt.Errorf("list the GPUs: %w", err)
	}
	return inv, nil
}

// output is what a program prints; an error has what it complains of.
func output(ctx context.Context, path string, args ...string) ([]byte, error) {
	out, err := exec.CommandContext(ctx, path, args...).Output()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return nil, fmt.Errorf("%s: %w: %s", filepath.Base(path), err, strings.TrimSpace(string(exit.Stderr)))
	}
	return out, err
}

// Watch reports the readings of the units with these UUIDs, all when there are none, that often, and what errors they have. It returns when
// ctx ends, and with an error when nothing is to be learned any more. One at a time is reported.
func Watch(ctx context.Context, path string, uuids []string, every time.Duration, report func(gpu.Report)) error {
	if path == "" {
		return watchSMI(ctx, uuids, every, report)
	}
	lines := &splitter{line: func(line []byte) error {
		var r gpu.Report
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("read what %s prints: %w", Name, err)
		}
		report(r)
		return nil
	}}
	complaint := proc.NewTail(3)
	args := []string{"watch", "--every", every.String(), "--gpus", strings.Join(uuids, ",")}
	p, err := proc.Start(ctx, proc.Command{Path: path, Args: args, Stdout: lines, Stderr: complaint})
	if errors.Is(err, fs.ErrNotExist) {
		return watchSMI(ctx, uuids, every, report)
	} else if err != nil {
		return err
	}
	exit, err := p.Wait()
	switch {
	case ctx.Err() != nil:
		return nil
	case lines.err != nil:
		return lines.err
	case err != nil:
		return fmt.Errorf("%s: %w", Name, err)
	}
	return fmt.Errorf("%s ended: %s: %s", Name, exit, complaint)
}

// splitter hands on whole lines.
type splitter struct {
	rest []byte
	line func([]byte) error
	err  error
}

// Write implements io.Writer.
func (s *splitter) Write(p []byte) (int, error) {
	s.rest = append(s.rest, p...)
	for s.err == nil {
		line, rest, ok := bytes.Cut(s.rest, []byte{'\n'})
		if !ok {
			break
		}
		s.err, s.rest = s.line(line), rest
	}
	return len(p), s.err
}
