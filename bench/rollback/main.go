// Command rollback measures how long it takes from the decision to roll a release back until no replica gives answers of it: with three
// replicas of `sluice serve`, and with one of them frozen. README.md says what exactly each figure is. It is run from the repository's root.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/sluiceml/sluice/bench/internal/compare"
	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/internal/testing/fleet"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/routing"
)

const (
	replicas = 3
	// askEvery is the pause of a client between two requests, and so how exactly the end of the traffic is known.
	askEvery = 5 * time.Millisecond
	// afterwards is how long clients go on asking when a roll back is done: none may be answered by the candidate.
	afterwards = 200 * time.Millisecond
	// roundLimit bounds what one round waits for.
	roundLimit = time.Minute
)

// modelFile is a model that takes a text.
func modelFile(name string) string { return filepath.Join("serving", "onnx", "onnxtest", name+".onnx") }

func main() {
	program := flag.String("sluice", "bin/sluice", "what is measured")
	rounds := flag.Int("rounds", 50, "how many roll backs with three live replicas")
	frozen := flag.Int("frozen", 10, "how many with one frozen")
	commands := flag.Int("commands", 10, "how many by the command")
	flag.Parse()
	compare.Main(func(ctx context.Context) error { return run(ctx, *program, *rounds, *frozen, *commands) })
}

// bench is a fleet, with a client at each replica.
type bench struct {
	*fleet.Fleet
	program string
	dir     string
	clients []*fleet.Client
	stable  string
}

func run(ctx context.Context, program string, rounds, frozen, commands int) (err error) {
	program, err = compare.Program(program)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	f, err := fleet.Start(ctx, program, dir, replicas)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b := &bench{Fleet: f, program: program, dir: dir}
	if b.stable, err = f.Load(ctx, modelFile("text"), "stable"); err != nil {
		return err
	}
	if err := f.Split(ctx, gateway.Split{Weights: map[string]float64{b.stable: 1}}); err != nil {
		return err
	}
	asking, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	for _, r := range f.Replicas {
		c := fleet.NewClient(r)
		b.clients = append(b.clients, c)
		running.Go(func() { c.Run(asking, askEvery) })
	}
	if err := b.live(ctx, rounds); err != nil {
		return err
	}
	if err := b.withOneFrozen(ctx, frozen); err != nil {
		return err
	}
	return b.byCommand(ctx, commands)
}

// canary loads a candidate and gives it half of the traffic, until all replicas have answered with it.
func (b *bench) canary(ctx context.Context, round string) (candidate string, err error) {
	if candidate, err = b.Load(ctx, modelFile("text_close"), "candidate-"+round); err != nil {
		return "", err
	}
	split := gateway.Split{Weights: map[string]float64{b.stable: 0.5, candidate: 0.5}, Candidate: candidate, Stable: b.stable}
	if err := b.Split(ctx, split); err != nil {
		return "", err
	}
	return candidate, b.answered(ctx, candidate, b.clients)
}

// answered waits until clients have answers of a release, more than they have now.
func (b *bench) answered(ctx context.Context, release string, clients []*fleet.Client) error {
	ctx, cancel := context.WithTimeout(ctx, roundLimit)
	defer cancel()
	for _, c := range clients {
		before, _ := c.Seen(release)
		for range poll.Every(ctx, askEvery) {
			if n, _ := c.Seen(release); n >= before+3 {
				break
			}
		}
		if err := errors.Join(ctx.Err(), c.Err()); err != nil {
			return fmt.Errorf("no answer of release %s from %s: %w", release, c.URL, err)
		}
	}
	return nil
}

// rollBack takes a candidate back, as a rollout does that a test has ended. It returns how long afterwards the last answer of the candidate
// came to one of the clients, and when the roll back was known to be done.
func (b *bench) rollBack(ctx context.Context, candidate string, clients []*fleet.Client) (traffic, done time.Duration, err error) {
	decided := time.Now()
	if err := b.Split(ctx, gateway.Split{Weights: map[string]float64{b.stable: 1}}); err != nil {
		return 0, 0, err
	}
	done = time.Since(decided)
	return b.lastAnswer(ctx, candidate, clients, decided), done, ctx.Err()
}

// lastAnswer is how long after a decision the last answer of a release came.
func (b *bench) lastAnswer(ctx context.Context, release string, clients []*fleet.Client, decided time.Time) (after time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(afterwards):
	}
	for _, c := range clients {
		_, last := c.Seen(release)
		after = max(after, last.Sub(decided))
	}
	return after
}

// live measures roll backs with all replicas alive.
func (b *bench) live(ctx context.Context, rounds int) error {
	var traffic, done time.Duration
	for i := range rounds {
		candidate, err := b.canary(ctx, strconv.Itoa(i))
		if err != nil {
			return err
		}
		t, d, err := b.rollBack(ctx, candidate, b.clients)
		if err != nil {
			return err
		}
		traffic, done = max(traffic, t), max(done, d)
	}
	return compare.Show(rounds,
		compare.Figure{Name: "rollback/decision_to_traffic_s", Value: traffic.Seconds(), Unit: "s", Against: "worst, three live replicas"},
		compare.Figure{Name: "rollback/decision_to_done_s", Value: done.Seconds(), Unit: "s", Against: "worst, three live replicas"})
}

// withOneFrozen measures roll backs while one replica is frozen, which is to give no answer of the candidate when it wakes up.
func (b *bench) withOneFrozen(ctx context.Context, rounds int) error {
	var traffic, done time.Duration
	late := 0
	for i := range rounds {
		candidate, err := b.canary(ctx, "frozen-"+strconv.Itoa(i))
		if err != nil {
			return err
		}
		which := i % replicas
		if err := b.Replicas[which].Freeze(); err != nil {
			return err
		}
		before, _ := b.clients[which].Seen(candidate)
		var awake []*fleet.Client
		for j, c := range b.clients {
			if j != which {
				awake = append(awake, c)
			}
		}
		t, d, err := b.rollBack(ctx, candidate, awake)
		if err := errors.Join(err, b.Replicas[which].Thaw()); err != nil {
			return err
		}
		traffic, done = max(traffic, t), max(done, d)
		if err := b.answered(ctx, b.stable, b.clients); err != nil {
			return err
		}
		after, _ := b.clients[which].Seen(candidate)
		late += max(0, after-before-1) // one was in flight when it froze
	}
	if late > 0 {
		return fmt.Errorf("a frozen replica gave %d answers of the candidate when it woke up", late)
	}
	return compare.Show(rounds,
		compare.Figure{Name: "rollback/frozen_decision_to_traffic_s", Value: traffic.Seconds(), Unit: "s", Against: "worst, at the live replicas while one is frozen"},
		compare.Figure{Name: "rollback/frozen_decision_to_done_s", Value: done.Seconds(), Unit: "s", Against: "worst, one of three frozen"})
}

// byCommand measures `sluice rollout rollback` between two promoted releases, from the start of its process.
func (b *bench) byCommand(ctx context.Context, rounds int) error {
	other, err := b.canary(ctx, "promoted")
	if err != nil {
		return err
	}
	if err := b.Split(ctx, gateway.Split{Weights: map[string]float64{b.stable: 0, other: 1}}); err != nil {
		return err
	}
	for _, version := range []string{b.stable, other} {
		if err := routing.PutOutcome(ctx, b.Store, routing.Outcome{Target: fleet.Name, Version: version, Decision: routing.Promoted, At: time.Now().UTC()}); err != nil {
			return err
		}
	}
	var traffic, ended time.Duration
	from, to := other, b.stable
	for range rounds {
		if err := b.answered(ctx, from, b.clients); err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, b.program, "rollout", "rollback", fleet.Name, "--to", to, "--state", filepath.Join(b.dir, "client"))
		cmd.Env, cmd.Stderr = append(os.Environ(), "SLUICE_STORE="+b.Store.URL()), os.Stderr
		began := time.Now()
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("sluice rollout rollback: %w", err)
		}
		ended = max(ended, time.Since(began))
		traffic = max(traffic, b.lastAnswer(ctx, from, b.clients, began))
		from, to = to, from
	}
	return compare.Show(rounds,
		compare.Figure{Name: "rollback/command_to_traffic_s", Value: traffic.Seconds(), Unit: "s", Against: "worst, from the start of `sluice rollout rollback`"},
		compare.Figure{Name: "rollback/command_to_done_s", Value: ended.Seconds(), Unit: "s", Against: "worst, the whole command"})
}
