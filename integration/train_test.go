package integration

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/testing/historytest"
	"github.com/sluiceml/sluice/internal/testing/logtest"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/steplog"
	"github.com/sluiceml/sluice/training/protocol"
)

func TestTrainUndisturbed(t *testing.T) {
	b := newTrainBench(t, "", engineConfig{})
	b.execute()
	o := b.result()
	b.checkAccount(o)
	b.wantEnds(o, spec.EndFinished)
}

func TestTrainSurvivesInterruptions(t *testing.T) {
	b := newTrainBench(t, ", interruptions: {mean_up: 2s, notice: 3s, without_notice: 50%}", engineConfig{})
	b.env["STEPS"], b.env["STEP_SECONDS"] = "250", "0.03"
	b.execute()
	o := b.result()
	b.checkAccount(o)
	ends := map[spec.GenerationEnd]int{}
	for _, g := range o.Generations {
		ends[g.End]++
	}
	if ends[spec.EndNotice] == 0 || ends[spec.EndNodeLost] == 0 || ends[spec.EndFinished] != 1 {
		t.Errorf("ends of generations: %v, want some with and some without notice", ends)
	}
	verdicts := historytest.Verdicts(t, b.client, contract.TrainWorkflowID(b.in.Run, b.in.Step))
	if n := len(o.Generations); len(verdicts) != n || verdicts[n-1] != fmt.Sprintf("generation %d: finished", n) {
		t.Errorf("Temporal's UI says of %d generations: %q", n, verdicts)
	}
	b.record("interrupted")
}

// A script that saves and exits with 0 when it is told to stop, as frameworks do, has not finished.
func TestTrainGoesOnAfterAStopWithExitCodeZero(t *testing.T) {
	b := newTrainBench(t, ", interruptions: {mean_up: 2s, notice: 3s}", engineConfig{})
	b.env["STEPS"], b.env["STEP_SECONDS"], b.env["STOPPED_CODE"] = "250", "0.03", "0"
	b.execute()
	o := b.result()
	b.checkAccount(o)
	if len(o.Generations) < 2 || o.Generations[0].End != spec.EndNotice {
		t.Errorf("%d generations, want some that ended on notice", len(o.Generations))
	}
}

func TestTrainSurvivesKilledAgent(t *testing.T) {
	for node := range 2 {
		t.Run(fmt.Sprintf("node %d", node), func(t *testing.T) {
			b := newTrainBench(t, "", engineConfig{})
			b.execute()
			b.awaitSteps(35)
			kill(t, b.agentOf(1, node), syscall.SIGKILL)
			o := b.result()
			b.checkAccount(o)
			b.wantEnds(o, spec.EndNodeLost, spec.EndFinished)
		})
	}
}

// What the ranks of a node have printed some seconds before it is killed can be read from the store.
func TestKilledNodeLeavesItsLog(t *testing.T) {
	const late = 5 * time.Second
	b := newTrainBench(t, "", engineConfig{})
	b.env["STEPS"], b.env["STEP_SECONDS"] = "5000", "0.1"
	b.execute()
	b.awaitSteps(1)
	first := time.Now() // the ranks have said something before
	b.await("some time of training", func() bool { return time.Since(first) > late })
	for node := range 2 {
		kill(t, b.agentOf(1, node), syscall.SIGKILL)
	}
	b.await("the loss of the gang", func() bool { return len(b.state().Ended) > 0 })
	said := b.said(1)
	for rank := range 2 {
		if !strings.HasPrefix(said[rank], fmt.Sprintf("rank %d has ", rank)) {
			t.Errorf("rank %d said %q", rank, said[rank])
		}
	}
}

// said is what the ranks of a generation have printed.
func (b *trainBench) said(generation int) map[int]string {
	b.t.Helper()
	s, err := store.Open(b.t.Context(), storeURL(b.dir))
	if err != nil {
		b.t.Fatal(err)
	}
	said := map[int]string{}
	for _, l := range logtest.Lines(b.t, s, b.in.Run, b.in.Step, steplog.Selection{Generation: generation, Node: steplog.Any, Rank: steplog.Any}) {
		said[l.Rank] += l.Text + "\n"
	}
	return said
}

func TestTrainChargesKilledRank(t *testing.T) {
	b := newTrainBench(t, "", engineConfig{})
	b.in.Retry = spec.Retry{Attempts: 2, Backoff: spec.Duration(10 * time.Millisecond)}.WithDefaults()
	b.execute()
	b.awaitSteps(35)
	// Killed is rank 1; rank 0 then fails by itself, and is not to blame. The next generation is on the same nodes.
	agents := []int{b.agentOf(1, 0), b.agentOf(1, 1)}
	kill(t, b.rank(1), syscall.SIGKILL)
	b.await("a commit of the next generation", func() bool { return len(b.commits(2)) > 0 })
	for node, pid := range agents {
		if again := b.agentOf(1, node); again != pid {
			t.Errorf("node %d has the agent %d, had %d", node, again, pid)
		}
	}
	o := b.result()
	b.checkAccount(o)
	b.wantEnds(o, spec.EndCrashed, spec.EndFinished)
	if want := "rank 1 was killed by signal 9"; !strings.Contains(o.Generations[0].Reason, want) {
		t.Errorf("reason %q, want %q", o.Generations[0].Reason, want)
	}
}

func TestTrainFailsWithTheUsersError(t *testing.T) {
	b := newTrainBench(t, "", engineConfig{})
	b.env["FAIL_AT"] = "5"
	b.in.Retry = spec.Retry{Attempts: 3}.WithDefaults()
	b.execute()
	err := b.wait()
	if got := fault.TypeOf(err); got != fault.User {
		t.Errorf("error type %q, want %q", got, fault.User)
	}
	for _, want := range []string{"rank 1 ended with exit code 3", "this is the reason"} {
		if !strings.Contains(fault.Message(err), want) {
			t.Errorf("error %q does not say %q", fault.Message(err), want)
		}
	}
	b.record("user-error")
	if ended := b.state().Ended; len(ended) != 1 || ended[0].End != spec.EndUserError {
		t.Errorf("generations %+v, want one, ended by the user's error", ended)
	}
}

func TestTrainCancelLeavesNothing(t *testing.T) {
	b := newTrainBench(t, "", engineConfig{})
	run := b.execute()
	b.awaitSteps(35)
	if err := b.client.CancelWorkflow(t.Context(), run.GetID(), ""); err != nil {
		t.Fatal(err)
	}
	err := b.wait()
	if !temporal.IsCanceledError(err) {
		t.Errorf("ended with %v, want a cancel", err)
	}
	b.record("canceled")
	if left := b.processes("trainer.py"); len(left) > 0 {
		t.Errorf("ranks are left: %v", left)
	}
	if left := b.processes(agentPath); len(left) > 0 {
		t.Errorf("agents are left: %v", left)
	}
}

func TestTrainSurvivesKilledWorker(t *testing.T) {
	b := newTrainBench(t, "", engineConfig{})
	b.env["STEPS"] = "150"
	b.execute()
	b.awaitSteps(45)
	b.stop(syscall.SIGKILL)
	b.nothingLeft()
	b.start()
	o := b.result()
	b.checkAccount(o)
	b.wantEnds(o, spec.EndNodeLost, spec.EndFinished)
}

// A zombie is a node that could not be reached, was given up, and comes back. It may commit what it likes: nobody reads it.
func TestTrainIsNotDisturbedByZombie(t *testing.T) {
	b := newTrainBench(t, "", engineConfig{Zombies: true})
	b.env["STEPS"], b.env["STEP_SECONDS"], b.env["RESUMED_STEP_SECONDS"] = "260", "0.1", "0.02"
	b.execute()
	b.awaitSteps(15)
	zombie := b.agentOf(1, 0)
	kill(t, zombie, syscall.SIGSTOP) // its rank goes on, and writes checkpoints
	b.await("a commit of the next generation", func() bool { return len(b.commits(2)) > 0 })
	sealed := b.commits(1)
	kill(t, zombie, syscall.SIGCONT)
	b.await("a commit of the zombie", func() bool { return len(b.commits(1)) > len(sealed) })
	o := b.result()
	b.wantEnds(o, spec.EndNodeLost, spec.EndFinished)
	if from := o.Generations[1].FromStep; from != sealed[len(sealed)-1] {
		t.Errorf("generation 2 resumed from step %d, want the sealed %d", from, sealed[len(sealed)-1])
	}
	want := int64(1)
	for _, point := range b.curve(o) {
		if point.Step != want {
			t.Fatalf("the curve has step %d where step %d should be", point.Step, want)
		}
		want++
	}
	if o.Steps != 260 || want != 261 {
		t.Errorf("%d steps counted and %d plotted, want 260", o.Steps, want-1)
	}
}

// A node that was silent for too long, and is back before it has been given up, goes on with what it was doing.
func TestTrainAttachesToNodeThatComesBack(t *testing.T) {
	b := newTrainBench(t, "", engineConfig{})
	b.env["STEPS"], b.env["STEP_SECONDS"] = "200", "0.1"
	b.execute()
	b.awaitSteps(5)
	pid := b.agentOf(1, 1)
	kill(t, pid, syscall.SIGSTOP)
	b.await("an attempt to attach", func() bool { return b.pending(protocol.AttachActivity) })
	kill(t, pid, syscall.SIGCONT)
	o := b.result()
	b.checkAccount(o)
	b.wantEnds(o, spec.EndFinished)
}

func TestTrainFallsBackFromDamagedCheckpoint(t *testing.T) {
	b := newTrainBench(t, "", engineConfig{})
	b.env["COMMIT_STEPS"], b.env["STEP_SECONDS"] = "25", "0.04"
	b.execute()
	b.await("two commits", func() bool { return len(b.commits(1)) >= 2 })
	commits := b.commits(1)
	newest, before := commits[len(commits)-1], commits[len(commits)-2]
	b.damage(1, newest)
	kill(t, b.agentOf(1, 0), syscall.SIGKILL)
	o := b.result()
	b.checkAccount(o)
	b.wantEnds(o, spec.EndNodeLost, spec.EndDamaged, spec.EndFinished)
	if from := o.Generations[2].FromStep; from != before {
		t.Errorf("generation 3 resumed from step %d, want %d, the one before the damaged", from, before)
	}
}

func TestTrainTimesOut(t *testing.T) {
	b := newTrainBench(t, "", engineConfig{})
	b.in.Timeout, b.in.Retry = spec.Duration(5*time.Second), spec.Retry{Attempts: 1}.WithDefaults()
	b.env["STEPS"] = "10000"
	b.execute()
	err := b.wait()
	if got := fault.TypeOf(err); got != fault.Timeout {
		t.Errorf("error type %q (%v), want %q", got, err, fault.Timeout)
	}
	if left := b.processes("trainer.py"); len(left) > 0 {
		t.Errorf("ranks are left: %v", left)
	}
}
