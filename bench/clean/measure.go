package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sluiceml/sluice/bench/internal/compare"
	"github.com/sluiceml/sluice/internal/proc"
)

// program is one way to do a task.
type program struct {
	// name is empty for sluice, whose figures are the task's own.
	name string
	// command returns what reads the folder in and writes the folder out, which is in a new folder.
	command func(ctx context.Context, in, out string) (*exec.Cmd, error)
	// rows returns how many rows it has written, to compare with others. Nil: it need not be the same number.
	rows func(out string) (int, error)
}

// cost is what a run took.
type cost struct{ seconds, cpu, mib float64 }

// measure runs programs in turns, so that a machine that grows busier is so for all, and checks that they keep as many rows. It
// returns the medians of each, by its name.
func (b bench) measure(ctx context.Context, task, in string, programs ...program) (map[string]cost, error) {
	seconds, cpu, mib := map[string][]float64{}, map[string][]float64{}, map[string][]float64{}
	kept := -1
	for i := range b.samples {
		for _, p := range programs {
			c, rows, err := b.once(ctx, in, p)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.label(), err)
			}
			compare.Say("%s %d: %s took %.1f s, %.1f s of CPU, %.0f MiB", task, i+1, p.label(), c.seconds, c.cpu, c.mib)
			seconds[p.name] = append(seconds[p.name], c.seconds)
			cpu[p.name] = append(cpu[p.name], c.cpu)
			mib[p.name] = append(mib[p.name], c.mib)
			if rows < 0 {
				continue
			}
			if kept >= 0 && rows != kept {
				return nil, fmt.Errorf("%s kept %d rows, and the program before it %d", p.label(), rows, kept)
			}
			kept = rows
		}
	}
	medians := map[string]cost{}
	for name := range seconds {
		medians[name] = cost{compare.Median(seconds[name]), compare.Median(cpu[name]), compare.Median(mib[name])}
	}
	return medians, nil
}

func (p program) label() string {
	if p.name == "" {
		return "sluice"
	}
	return p.name
}

// once runs a program. The processes that it starts count too: in memory as many as there are at a time, in CPU those that it waits for.
func (b bench) once(ctx context.Context, in string, p program) (c cost, rows int, err error) {
	dir, err := os.MkdirTemp(b.dir, "run-")
	if err != nil {
		return c, 0, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "out")
	cmd, err := p.command(ctx, in, out)
	if err != nil {
		return c, 0, err
	}
	tail := proc.NewTail(30)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, tail, tail
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return c, 0, err
	}
	stop := watchGroup(cmd.Process.Pid)
	err = cmd.Wait()
	together := stop()
	if err != nil {
		return c, 0, fmt.Errorf("%w\n%s", err, tail)
	}
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	c = cost{
		seconds: time.Since(began).Seconds(),
		cpu:     (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(),
		mib:     max(float64(usage.Maxrss)/1024, together),
	}
	if p.rows == nil {
		return c, -1, nil
	}
	rows, err = p.rows(out)
	return c, rows, err
}

// sizeOf is the size of the files of a folder in MB of 10^6 bytes.
func sizeOf(dir string) (mb float64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			mb += float64(info.Size()) / 1e6
		}
		return err
	})
	return mb, err
}
