// Package job runs one training script on two ranks of this machine, with Sluice and without, for benches that compare both.
package job

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/internal/proc"
)

//go:embed train.py
var script []byte

// Shape is what the script is to do.
type Shape struct {
	// Steps there are, each Pause long at least.
	Steps int
	Pause time.Duration
	// Save is how long it trains between two checkpoints, of so many Megabytes.
	Save      time.Duration
	Megabytes int
	// Work is how many numbers each rank computes with in a step.
	Work int
}

func (s Shape) variables(dir string) map[string]string {
	return map[string]string{
		"STEPS": strconv.Itoa(s.Steps), "STEP_SECONDS": fmt.Sprint(s.Pause.Seconds()), "SAVE_SECONDS": fmt.Sprint(s.Save.Seconds()),
		"MEGABYTES": strconv.Itoa(s.Megabytes), "WORK": strconv.Itoa(s.Work), "TRACE": filepath.Join(dir, "trace"), "CHECKPOINTS": filepath.Join(dir, "checkpoints"),
	}
}

// Job is a training that has been started in a folder of its own.
type Job struct {
	Dir     string
	process *proc.Process
	said    *proc.Tail
	stdout  *bytes.Buffer
}

// Step is one that rank 0 has made.
type Step struct {
	At   float64 `json:"at"` // in seconds of the wall clock
	Step int64   `json:"step"`
	PID  int     `json:"pid"`
	Loss float64 `json:"loss"`
}

// Options are how Sluice runs the script.
type Options struct {
	Program string // sluice
	Store   string // the store's address; empty for a folder
	Env     []string
}

// Sluice starts the script with Sluice, on two nodes of a local pool that has room for two gangs. A crash is tried again at once.
func Sluice(ctx context.Context, o Options, shape Shape) (*Job, error) {
	j, err := newJob()
	if err != nil {
		return nil, err
	}
	var env strings.Builder
	for name, value := range shape.variables(j.Dir) {
		fmt.Fprintf(&env, "      %s: %q\n", name, value)
	}
	pipeline := fmt.Sprintf(`sluice: pipeline/v1
name: bench
steps:
  fit:
    train:
      command: [python3, train.py]
      nodes: 2
      pool: local
      total_steps: %d
    retry: {attempts: 10, backoff: 1ms}
    env:
%s`, shape.Steps, env.String())
	environment := "sluice: environment/v1\nname: bench\npools:\n  local: {local: {nodes: 4}}\n"
	if o.Store != "" {
		environment += fmt.Sprintf("store: {url: %q}\n", o.Store)
	}
	for name, text := range map[string]string{"pipeline.yaml": pipeline, "environment.yaml": environment} {
		if err := os.WriteFile(filepath.Join(j.Dir, name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	return j, j.start(ctx, proc.Command{
		Path: o.Program, Args: []string{"run", "pipeline.yaml", "-e", "environment.yaml", "--format", "json"}, Env: append(environ(), o.Env...),
	})
}

// Torchrun starts the script with torchrun, on one node with two ranks. A crash is tried again. It looks after the ranks every 0.1 s, as PyTorch
// does by default since 2.4 (pytorch/pytorch#124692); before, it was every 5 s.
func Torchrun(ctx context.Context, shape Shape) (*Job, error) {
	j, err := newJob()
	if err != nil {
		return nil, err
	}
	env := environ()
	for name, value := range shape.variables(j.Dir) {
		env = append(env, name+"="+value)
	}
	return j, j.start(ctx, proc.Command{
		Path: python(), Env: append(env, "OMP_NUM_THREADS=1"),
		Args: []string{"-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", "--max_restarts=10", "--monitor_interval=0.1", "--redirects=1", "--tee=1", "train.py"},
	})
}

// python is the project's, which has torch.
func python() string { return filepath.Join(os.Getenv("SLUICE_PYTHON_ENV"), "bin", "python3") }

func environ() []string { return append(os.Environ(), "GLOO_SOCKET_IFNAME=lo") }

func newJob() (*Job, error) {
	dir, err := os.MkdirTemp("", "bench-job-")
	if err != nil {
		return nil, err
	}
	return &Job{Dir: dir, said: proc.NewTail(30), stdout: &bytes.Buffer{}}, os.WriteFile(filepath.Join(dir, "train.py"), script, 0o600)
}

func (j *Job) start(ctx context.Context, c proc.Command) error {
	c.Dir, c.Stdout, c.Stderr = j.Dir, j.stdout, j.said
	var err error
	j.process, err = proc.Start(ctx, c)
	return err
}

// Close ends the job with all its processes, and removes its folder.
func (j *Job) Close() {
	if j.process != nil {
		j.process.Kill()
		<-j.process.Done()
	}
	_ = os.RemoveAll(j.Dir)
}

// Wait waits for the end of the job, and returns what it wrote to standard output.
func (j *Job) Wait() ([]byte, error) {
	exit, err := j.process.Wait()
	if err == nil && !exit.OK() {
		err = fmt.Errorf("the job ended with %v:\n%s", exit, j.said)
	}
	return j.stdout.Bytes(), err
}

// lookEvery is how often the trace is read: it costs both sides the same.
const lookEvery = 20 * time.Millisecond

// Await waits for the first step that cond holds for.
func (j *Job) Await(ctx context.Context, cond func(Step) bool) (Step, error) {
	var read int
	for range poll.Every(ctx, lookEvery) {
		steps, err := j.Steps()
		if err != nil {
			return Step{}, err
		}
		for ; read < len(steps); read++ {
			if cond(steps[read]) {
				return steps[read], nil
			}
		}
		select {
		case <-j.process.Done():
			_, err := j.Wait()
			return Step{}, errors.Join(errors.New("the job has ended"), err)
		default:
		}
	}
	return Step{}, context.Cause(ctx)
}

// Steps are those that were made, those that were made again included.
func (j *Job) Steps() ([]Step, error) {
	raw, err := os.ReadFile(filepath.Join(j.Dir, "trace"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var steps []Step
	for line := range bytes.Lines(raw) {
		var s Step
		if json.Unmarshal(line, &s) == nil { // the last line may be under way
			steps = append(steps, s)
		}
	}
	return steps, err
}

// Rank returns the process of a rank.
func (j *Job) Rank(rank int) (int, error) {
	raw, err := os.ReadFile(filepath.Join(j.Dir, fmt.Sprintf("trace.%d", rank)))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(raw))
}

// Node returns the process of the agent of a node, and its folder. There is one gang.
func (j *Job) Node(node int) (pid int, dir string, err error) {
	records, err := filepath.Glob(filepath.Join(j.Dir, ".sluice", "pools", "local", "*", "gang.json"))
	if err != nil || len(records) != 1 {
		return 0, "", fmt.Errorf("there are %d gangs, want 1: %w", len(records), err)
	}
	raw, err := os.ReadFile(records[0])
	if err != nil {
		return 0, "", err
	}
	var gang struct{ Processes []struct{ PID int } }
	if err := json.Unmarshal(raw, &gang); err != nil {
		return 0, "", err
	}
	return gang.Processes[node].PID, filepath.Join(filepath.Dir(records[0]), fmt.Sprintf("node%d", node)), nil
}

// Signal sends a signal, and returns when that was, in seconds of the wall clock.
func Signal(sig syscall.Signal, pids ...int) (at float64, err error) {
	at = float64(time.Now().UnixMicro()) / 1e6
	for _, pid := range pids {
		err = errors.Join(err, syscall.Kill(pid, sig))
	}
	return at, err
}

// Outputs are those of the training, by what Sluice wrote to standard output.
func Outputs(said []byte) (json.RawMessage, error) {
	for line := range bytes.Lines(said) {
		var event struct {
			Event string `json:"event"`
			Data  struct {
				Steps map[string]struct {
					Outputs json.RawMessage `json:"outputs"`
				} `json:"steps"`
			} `json:"data"`
		}
		if json.Unmarshal(line, &event) == nil && event.Event == "ended" {
			return event.Data.Steps["fit"].Outputs, nil
		}
	}
	return nil, errors.New("the run does not say how it ended")
}
