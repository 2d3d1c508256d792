// Command recovery measures how soon a training goes on after what may happen to it: a rank, a node or a link that is lost, or a node that
// is to be given back. README.md says what exactly each figure is. It is run from the repository's root.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sluiceml/sluice/bench/internal/compare"
	"github.com/sluiceml/sluice/bench/internal/job"
)

// How often each thing is done. The figures are medians.
const (
	pairs  = 9
	losses = 3
)

// settled is the step by which a job has saved several checkpoints.
const settled = 60

// recovers is what a job is that has to recover, and jobTimeout how long that may take.
var recovers = job.Shape{Steps: 1_000_000, Pause: 50 * time.Millisecond, Save: 500 * time.Millisecond, Megabytes: 1, Work: 1000}

const jobTimeout = 5 * time.Minute

func main() {
	program := flag.String("sluice", "bin/sluice", "the sluice that is measured")
	s3 := flag.String("s3", filepath.Join(os.Getenv("SLUICE_CACHE"), "s3", "s3"), "the S3 server of `make s3`")
	flag.Parse()
	compare.Main(func(ctx context.Context) error { return run(ctx, *program, *s3) })
}

func run(ctx context.Context, program, s3 string) error {
	program, err := compare.Program(program)
	if err != nil {
		return err
	}
	o := job.Options{Program: program}
	if err := compareRanks(ctx, o); err != nil {
		return err
	}
	killed, err := measure(ctx, o, killNode)
	if err != nil {
		return err
	}
	frozen, err := measure(ctx, o, freezeNode)
	if err != nil {
		return err
	}
	if err := compare.Show(losses,
		compare.Figure{Name: "recovery/node_killed_s", Value: killed, Unit: "s"},
		compare.Figure{Name: "recovery/node_frozen_s", Value: frozen, Unit: "s"},
	); err != nil {
		return err
	}
	lost, err := stepsLostAtNotice(ctx, o)
	if err != nil {
		return err
	}
	if err := compare.Show(1, compare.Figure{Name: "recovery/notice_steps_lost", Value: lost, Unit: "steps"}); err != nil {
		return err
	}
	return compareNotice(ctx, o, s3)
}

// compareRanks kills rank 1, in turns with Sluice and with torchrun.
func compareRanks(ctx context.Context, o job.Options) error {
	var ours, theirs, ratios []float64
	for range pairs {
		a, err := recovery(ctx, func(ctx context.Context) (*job.Job, error) { return job.Sluice(ctx, o, recovers) }, killRank)
		if err != nil {
			return fmt.Errorf("sluice: %w", err)
		}
		b, err := recovery(ctx, func(ctx context.Context) (*job.Job, error) { return job.Torchrun(ctx, recovers) }, killRank)
		if err != nil {
			return fmt.Errorf("torchrun: %w", err)
		}
		compare.Say("a rank is back after %.2f s, and after %.2f s with torchrun", a, b)
		ours, theirs, ratios = append(ours, a), append(theirs, b), append(ratios, a/b)
	}
	return compare.Show(pairs,
		compare.Figure{Name: "recovery/rank_s", Value: compare.Median(ours), Unit: "s"},
		compare.Figure{Name: "recovery/rank_torchrun_s", Value: compare.Median(theirs), Unit: "s"},
		compare.Figure{Name: "recovery/rank_vs_torchrun", Value: compare.Median(ratios), Unit: "ratio", Against: "torchrun --max-restarts"},
	)
}

func measure(ctx context.Context, o job.Options, strike func(*job.Job) (float64, error)) (float64, error) {
	var all []float64
	for range losses {
		s, err := recovery(ctx, func(ctx context.Context) (*job.Job, error) { return job.Sluice(ctx, o, recovers) }, strike)
		if err != nil {
			return 0, err
		}
		all = append(all, s)
	}
	return compare.Median(all), nil
}

// recovery is how many seconds pass from a strike to the first step of other ranks.
func recovery(ctx context.Context, start func(context.Context) (*job.Job, error), strike func(*job.Job) (float64, error)) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, jobTimeout)
	defer cancel()
	j, err := start(ctx)
	if err != nil {
		return 0, err
	}
	defer j.Close()
	before, err := j.Await(ctx, func(s job.Step) bool { return s.Step >= settled })
	if err != nil {
		return 0, err
	}
	at, err := strike(j)
	if err != nil {
		return 0, err
	}
	after, err := j.Await(ctx, func(s job.Step) bool { return s.PID != before.PID })
	if err != nil {
		return 0, err
	}
	if after.Step == 1 {
		return 0, errors.New("the training began anew: it did not resume from its checkpoint")
	}
	return after.At - at, nil
}

func killRank(j *job.Job) (float64, error) {
	pid, err := j.Rank(1)
	if err != nil {
		return 0, err
	}
	return job.Signal(syscall.SIGKILL, pid)
}

// killNode kills the agent of node 1, with which its rank goes.
func killNode(j *job.Job) (float64, error) {
	pid, _, err := j.Node(1)
	if err != nil {
		return 0, err
	}
	return job.Signal(syscall.SIGKILL, pid)
}

// freezeNode stops the agent and the rank of node 1, as a machine does that hangs.
func freezeNode(j *job.Job) (float64, error) {
	agent, _, err := j.Node(1)
	if err != nil {
		return 0, err
	}
	rank, err := j.Rank(1)
	if err != nil {
		return 0, err
	}
	return job.Signal(syscall.SIGSTOP, agent, rank)
}

// stepsLostAtNotice gives node 1 a notice of two minutes, and returns how many steps the training lost by it.
func stepsLostAtNotice(ctx context.Context, o job.Options) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, jobTimeout)
	defer cancel()
	shape := recovers
	shape.Steps, shape.Save = 2*settled, time.Hour // nothing is saved but what the notice has them save
	j, err := job.Sluice(ctx, o, shape)
	if err != nil {
		return 0, err
	}
	defer j.Close()
	if _, err := j.Await(ctx, func(s job.Step) bool { return s.Step >= settled }); err != nil {
		return 0, err
	}
	if _, err := notice(j); err != nil {
		return 0, err
	}
	said, err := j.Wait()
	if err != nil {
		return 0, err
	}
	return stepsLost(said)
}

// stepsLost reads how many steps were lost from the end of a run, which must have had two generations.
func stepsLost(said []byte) (float64, error) {
	fit, err := job.Outputs(said)
	if err != nil {
		return 0, err
	}
	var outputs struct {
		StepsLost   float64           `json:"steps_lost"`
		Generations []json.RawMessage `json:"generations"`
	}
	if err := json.Unmarshal(fit, &outputs); err != nil {
		return 0, err
	}
	if n := len(outputs.Generations); n != 2 {
		return 0, fmt.Errorf("the training had %d generations, want 2: one that ended at the notice", n)
	}
	return outputs.StepsLost, nil
}
