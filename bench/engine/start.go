package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/sluiceml/sluice/bench/internal/compare"
	"github.com/sluiceml/sluice/internal/proc"
)

const (
	// onePipeline has a step whose program says when it started, in seconds of the wall clock.
	onePipeline = `sluice: pipeline/v1
name: one
steps:
  only:
    run:
      script: echo "{\"at\":$(date +%s.%N)}" >"$SLUICE_OUTPUT_DIR/outputs.json"
      outputs: {at: {type: double}}
`
	startTimeout = 2 * time.Minute
)

// memory is what a process takes, in MiB.
type memory struct {
	peak    float64 // the most that it has held, with the pages of its file
	private float64 // what nobody else can have: its heap and stacks
}

// measureStart measures the program in a folder where it never was: from its start until its first step runs, and the memory that it
// takes when the run has ended.
func measureStart(ctx context.Context, program string) error {
	program, err := compare.Program(program)
	if err != nil {
		return err
	}
	var cold, peak, private []float64
	for i := range samples + 1 {
		seconds, took, err := startOnce(ctx, program)
		if err != nil {
			return fmt.Errorf("%s run: %w", program, err)
		}
		if i > 0 { // the first brings the program's file into memory
			cold, peak, private = append(cold, seconds), append(peak, took.peak), append(private, took.private)
		}
	}
	return compare.Show(samples,
		compare.Figure{Name: "engine/cold_start_s", Value: compare.Median(cold), Unit: "s"},
		compare.Figure{Name: "engine/rss_mb", Value: compare.Median(peak), Unit: "MiB"},
		compare.Figure{Name: "engine/private_mb", Value: compare.Median(private), Unit: "MiB"},
	)
}

// startOnce runs a pipeline of one step in a new folder. It takes the program by itself, not under a keeper, which would be measured too.
func startOnce(ctx context.Context, program string) (seconds float64, took memory, err error) {
	dir, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return 0, took, err
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "pipeline.yaml"), []byte(onePipeline), 0o600); err != nil {
		return 0, took, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "run", "pipeline.yaml", "--format", "json")
	stderr := proc.NewTail(20)
	cmd.Dir, cmd.Stderr = dir, stderr
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return 0, took, err
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, took, err
	}
	var at float64
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if at = stepStart(lines.Bytes()); at > 0 {
			took, err = memoryOf(cmd.Process.Pid) // it lives: it has yet to shut down Temporal
			break
		}
	}
	if failed := cmd.Wait(); failed != nil {
		return 0, took, fmt.Errorf("%w\n%s", failed, stderr)
	}
	if at == 0 {
		return 0, took, errors.New("its last line is no record that says when the step's program started")
	}
	return at - float64(began.UnixMicro())/1e6, took, err
}

// stepStart reads when the step's program started, in seconds of the wall clock; 0 if the line is not the run's record at its end.
func stepStart(line []byte) float64 {
	var event struct {
		Event string `json:"event"`
		Data  struct {
			Steps map[string]struct {
				Outputs struct {
					At float64 `json:"at"`
				} `json:"outputs"`
			} `json:"steps"`
		} `json:"data"`
	}
	if err := json.Unmarshal(line, &event); err != nil || event.Event != "ended" {
		return 0
	}
	return event.Data.Steps["only"].Outputs.At
}

var (
	highWater = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)
	anonymous = regexp.MustCompile(`RssAnon:\s+(\d+) kB`)
)

// memoryOf is the memory of a process. The rusage of its end would not do: there the memory of the process that started it counts, too.
func memoryOf(pid int) (memory, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return memory{}, err
	}
	peak, private := highWater.FindSubmatch(raw), anonymous.FindSubmatch(raw)
	if peak == nil || private == nil {
		return memory{}, errors.New("the kernel does not say how much memory the process takes")
	}
	return memory{mebibytes(peak[1]), mebibytes(private[1])}, nil
}

// mebibytes converts digits that count KiB.
func mebibytes(digits []byte) float64 {
	kib, _ := strconv.ParseFloat(string(digits), 64)
	return kib / 1024
}
