package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluiceml/sluice/bench/internal/compare"
	"github.com/sluiceml/sluice/internal/proc"
)

// noopSteps is how many steps the chain has that a person runs again without a change.
const noopSteps = 10

// folder is one in which a person runs pipelines.
type folder struct {
	dir, program string
}

func newFolder(program string) (folder, error) {
	dir, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return folder{}, err
	}
	source := strings.Builder{}
	source.WriteString("sluice: pipeline/v1\nname: chain\nsteps:\n")
	for i := range steps {
		fmt.Fprintf(&source, "  s%d:\n    run: {command: [\"true\"], files: none}\n    cache: true\n", i)
		if i > 0 {
			fmt.Fprintf(&source, "    needs: [s%d]\n", i-1)
		}
		if i == noopSteps-1 {
			if err := os.WriteFile(filepath.Join(dir, "short.yaml"), []byte(strings.Replace(source.String(), "chain", "short", 1)), 0o600); err != nil {
				return folder{}, err
			}
		}
	}
	return folder{dir, program}, os.WriteFile(filepath.Join(dir, "chain.yaml"), []byte(source.String()), 0o600)
}

// took is what a run has taken.
type took struct {
	seconds float64 // of the command
	steps   float64 // from the start of the first step to the end of the last one, in seconds
}

// run runs a pipeline by the command.
func (f folder) run(ctx context.Context, pipeline string, args ...string) (t took, err error) {
	var out bytes.Buffer
	said := proc.NewTail(20)
	cmd := exec.CommandContext(ctx, f.program, append([]string{"run", pipeline, "--format", "json"}, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = f.dir, &out, said
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + f.dir}
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return t, fmt.Errorf("sluice run %s: %w\n%s", pipeline, err, said)
	}
	t.seconds = time.Since(began).Seconds()
	lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
	var end struct {
		Data struct {
			Steps map[string]struct {
				StartedAt time.Time `json:"started_at"`
				EndedAt   time.Time `json:"ended_at"`
			} `json:"steps"`
		} `json:"data"`
	}
	if err := json.Unmarshal(lines[len(lines)-1], &end); err != nil {
		return t, err
	}
	first, last := end.Data.Steps["s0"], end.Data.Steps[fmt.Sprintf("s%d", len(end.Data.Steps)-1)]
	t.steps = last.EndedAt.Sub(first.StartedAt).Seconds()
	return t, nil
}

// cpuOfChildren is the CPU time of all descendants that have ended, in seconds.
func cpuOfChildren() float64 {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_CHILDREN, &used) // fails for other arguments only
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
}

// cpuOf returns what a run takes, and the CPU time of the command and all its descendants, in seconds. This process must have no other
// children.
func (f folder) cpuOf(ctx context.Context, pipeline string, args ...string) (t took, cpu float64, err error) {
	before := cpuOfChildren()
	t, err = f.run(ctx, pipeline, args...)
	reapAll()
	return t, cpuOfChildren() - before, err
}

// reapAll waits for the descendants that have lost their parent: those that end with the command, such as keepers.
func reapAll() {
	for {
		if _, err := syscall.Wait4(-1, nil, 0, nil); err != nil && !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}

// measureSteps measures steps whose program is true(1), as a person runs them, against a workflow whose activities start the same program.
func measureSteps(ctx context.Context, program string) error {
	program, err := compare.Program(program)
	if err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	var ours, bare, cpu, cached []float64
	err = withEngine(ctx, func(e engine) error {
		for i := range samples + 1 {
			f, err := newFolder(program)
			if err != nil {
				return err
			}
			whole, most, err := f.cpuOf(ctx, "chain.yaml")
			if err != nil {
				return err
			}
			_, some, err := f.cpuOf(ctx, "short.yaml", "--no-cache")
			if err != nil {
				return err
			}
			again, err := f.run(ctx, "chain.yaml")
			if err != nil {
				return err
			}
			least, err := e.timed(ctx, fmt.Sprintf("bare-true-%d", i), "bare-true", steps)
			if err := errors.Join(err, os.RemoveAll(f.dir)); err != nil {
				return err
			}
			if i > 0 { // the first brings the program's file into memory
				ours, bare, cached = append(ours, whole.steps*1e3/steps), append(bare, least*1e3/steps), append(cached, again.steps*1e3/steps)
				cpu = append(cpu, (most-some)*1e3/(steps-noopSteps))
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return compare.Show(samples,
		compare.Figure{Name: "engine/true100_ms", Value: compare.Median(ours), Unit: "ms"},
		compare.Figure{Name: "engine/true100_bare_ms", Value: compare.Median(bare), Unit: "ms"},
		compare.Figure{Name: "engine/true100", Value: compare.Median(ours) / compare.Median(bare), Unit: "ratio", Against: "bare temporal"},
		compare.Figure{Name: "engine/cached100_ms", Value: compare.Median(cached), Unit: "ms"},
		compare.Figure{Name: "engine/cpu_ms_per_step", Value: compare.Median(cpu), Unit: "ms"},
	)
}

// measureNoop measures a run of ten steps that have nothing to do, in a process that starts everything, and next to `sluice up`.
func measureNoop(ctx context.Context, program string) (err error) {
	program, err = compare.Program(program)
	if err != nil {
		return err
	}
	f, err := newFolder(program)
	if err != nil {
		return err
	}
	defer os.RemoveAll(f.dir)
	median := func() (float64, error) {
		var all []float64
		for i := range samples + 1 {
			one, err := f.run(ctx, "short.yaml")
			if err != nil {
				return 0, err
			}
			if i > 0 { // the first does what the others reuse
				all = append(all, one.seconds)
			}
		}
		return compare.Median(all), nil
	}
	alone, err := median()
	if err != nil {
		return err
	}
	up, err := proc.Start(ctx, proc.Command{Path: program, Args: []string{"up"}, Dir: f.dir, Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + f.dir}})
	if err != nil {
		return err
	}
	defer up.Terminate(ctx)
	holder := filepath.Join(f.dir, ".sluice", "holder.json")
	for tries := 0; tries < 100; tries++ {
		if _, err := os.Stat(holder); err == nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	beside, err := median()
	if err != nil {
		return err
	}
	return compare.Show(samples,
		compare.Figure{Name: "engine/noop_run_s", Value: alone, Unit: "s"},
		compare.Figure{Name: "engine/noop_run_up_s", Value: beside, Unit: "s"},
	)
}
