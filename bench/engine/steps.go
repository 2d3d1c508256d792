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
	"strconv"
	"strings"
	"time"

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

// run runs a pipeline by the command. It returns how long the command took, and the time from the start of the first step to the end of the
// last one, in seconds.
func (f folder) run(ctx context.Context, pipeline string, args ...string) (whole, inSteps float64, err error) {
	var out bytes.Buffer
	said := proc.NewTail(20)
	cmd := exec.CommandContext(ctx, f.program, append([]string{"run", pipeline, "--format", "json"}, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Env = f.dir, &out, said, f.environ()
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return 0, 0, fmt.Errorf("sluice run %s: %w\n%s", pipeline, err, said)
	}
	whole = time.Since(began).Seconds()
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
		return 0, 0, err
	}
	first, last := end.Data.Steps["s0"], end.Data.Steps[fmt.Sprintf("s%d", len(end.Data.Steps)-1)]
	return whole, last.EndedAt.Sub(first.StartedAt).Seconds(), nil
}

func (f folder) environ() []string { return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + f.dir} }

// withUp does something while `sluice up` runs in the folder, as a process of its own.
func (f folder) withUp(ctx context.Context, do func(pid int) error) error {
	said := proc.NewTail(20)
	up, err := proc.Start(ctx, proc.Command{Path: f.program, Args: []string{"up"}, Dir: f.dir, Env: f.environ(), Stderr: said})
	if err != nil {
		return err
	}
	defer up.Terminate(ctx)
	for range 100 {
		select {
		case <-up.Done():
			return fmt.Errorf("sluice up has ended: %s", said)
		case <-time.After(100 * time.Millisecond):
		}
		if _, err := os.Stat(filepath.Join(f.dir, ".sluice", "holder.json")); err == nil {
			return do(up.PID())
		}
	}
	return errors.New("sluice up did not start")
}

// cpuOf is the CPU time of a process and its descendants, also of those that have ended, in seconds.
func cpuOf(pid int) (seconds float64) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	children, ticks := map[int][]int{}, map[int]float64{}
	for _, path := range stats {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:])) // see proc_pid_stat(5), from the third one on
		of, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		parent, _ := strconv.Atoi(fields[1])
		children[parent] = append(children[parent], of)
		for _, field := range fields[11:15] { // of itself, and of the children that it has waited for: in user mode and in the kernel
			n, _ := strconv.ParseFloat(field, 64)
			ticks[of] += n
		}
	}
	const perSecond = 100 // USER_HZ
	for todo := []int{pid}; len(todo) > 0; todo = append(todo[1:], children[todo[0]]...) {
		seconds += ticks[todo[0]] / perSecond
	}
	return seconds
}

// measureSteps measures steps whose program is true(1), next to `sluice up`, against a workflow whose activities start the same program.
func measureSteps(ctx context.Context, program string) error {
	program, err := compare.Program(program)
	if err != nil {
		return err
	}
	f, err := newFolder(program)
	if err != nil {
		return err
	}
	defer os.RemoveAll(f.dir)
	var ours, bare, cpu, cached []float64
	// One after the other: a server that only waits takes some of the other's time.
	err = f.withUp(ctx, func(up int) error {
		for i := range samples + 1 {
			before := cpuOf(up)
			_, took, err := f.run(ctx, "chain.yaml", "--no-cache")
			if err != nil {
				return err
			}
			used := cpuOf(up) - before
			_, again, err := f.run(ctx, "chain.yaml")
			if err != nil {
				return err
			}
			if i > 0 { // the first warms up
				ours, cached, cpu = append(ours, took), append(cached, again), append(cpu, used)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = withEngine(ctx, func(e engine) error {
		for i := range samples + 1 {
			took, err := e.timed(ctx, fmt.Sprintf("bare-true-%d", i), "bare-true", steps)
			if err != nil {
				return err
			}
			if i > 0 {
				bare = append(bare, took)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	perStep := func(all []float64) float64 { return compare.Median(all) * 1e3 / steps }
	return compare.Show(samples,
		compare.Figure{Name: "engine/true100_ms", Value: perStep(ours), Unit: "ms"},
		compare.Figure{Name: "engine/true100_bare_ms", Value: perStep(bare), Unit: "ms"},
		compare.Figure{Name: "engine/true100", Value: compare.Median(ours) / compare.Median(bare), Unit: "ratio", Against: "bare temporal"},
		compare.Figure{Name: "engine/cached100_ms", Value: perStep(cached), Unit: "ms"},
		compare.Figure{Name: "engine/cpu_ms_per_step", Value: perStep(cpu), Unit: "ms"},
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
	median := func(name string) error {
		var all []float64
		for i := range samples + 1 {
			whole, _, err := f.run(ctx, "short.yaml")
			if err != nil {
				return err
			}
			if i > 0 { // the first does what the others reuse
				all = append(all, whole)
			}
		}
		return compare.Show(samples, compare.Figure{Name: name, Value: compare.Median(all), Unit: "s"})
	}
	if err := median("engine/noop_run_s"); err != nil {
		return err
	}
	return f.withUp(ctx, func(int) error { return median("engine/noop_run_up_s") })
}
