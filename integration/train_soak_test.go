package integration

import (
	"bufio"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/training/protocol"
)

// TestTrainSoak interrupts a training again and again, in all ways that nodes and ranks go. Whatever was done again, each step had the loss of
// the training that nobody interrupted, to the bit, and is counted once, as is the time of each node, whether ranks started again on it or it was
// acquired while the gang before wrote its checkpoint.
func TestTrainSoak(t *testing.T) {
	times := 30
	if os.Getenv("SLUICE_TEST_SOAK") != "" {
		times = 200
	}
	steps := 40 * times
	b := newTrainBench(t, "", engineConfig{})
	b.in.Run = "calm"
	b.env["STEPS"], b.env["STEP_SECONDS"], b.env["TRACE"] = strconv.Itoa(steps), "0", filepath.Join(b.dir, "calm")
	b.execute()
	want := b.curve(b.result())

	b.in.Run = "r1"
	b.env["STEP_SECONDS"], b.env["TRACE"] = "0.02", filepath.Join(b.dir, "trace")
	b.in.Retry = spec.Retry{Attempts: times, Backoff: spec.Duration(time.Millisecond), MaxBackoff: spec.Duration(10 * time.Millisecond)}.WithDefaults()
	lives, _ := b.watchAgents()
	b.execute()
	for i := range times {
		generation := i + 1
		b.awaitGeneration(generation)
		b.strike(i)
	}
	o := b.result()
	b.checkAccount(o)
	b.checkNodes(o, lives())
	if n := len(o.Generations); n != times+1 {
		t.Errorf("%d generations, want %d: one more than interruptions", n, times+1)
	}
	if diff := differing(b.losses("calm"), b.losses("trace")); diff != "" {
		t.Error(diff)
	}
	if got := b.curve(o); !slices.EqualFunc(got, want, func(a, b point) bool { return a.Step == b.Step && a.Loss == b.Loss }) {
		t.Errorf("the curve differs from that of the training that was not interrupted:\n%v\n%v", got, want)
	}
}

// awaitGeneration waits until a generation has committed, so that none is fruitless.
func (b *trainBench) awaitGeneration(generation int) {
	b.t.Helper()
	b.await("a commit of generation "+strconv.Itoa(generation), func() bool { return len(b.commits(generation)) > 0 })
}

// strike interrupts the training for the i-th time. A frozen node takes long to be given up, so there are few.
func (b *trainBench) strike(i int) {
	b.t.Helper()
	node := i / 3 % 2
	pid, dir := b.node(node)
	switch {
	case i%15 == 14:
		pid, _ = b.node(0) // the rank on the other waits for nothing
		kill(b.t, pid, syscall.SIGSTOP)
		kill(b.t, b.rank(0), syscall.SIGSTOP)
	case i%3 == 0:
		notice := protocol.NodeNotice{Until: time.Now().Add(20 * time.Second)}
		if err := protocol.WriteFile(filepath.Join(dir, protocol.NoticeFile), notice); err != nil {
			b.t.Fatal(err)
		}
	case i%3 == 1:
		kill(b.t, b.rank(node), syscall.SIGKILL)
	default:
		kill(b.t, pid, syscall.SIGKILL)
	}
}

// node returns the agent of a node of the gang that runs, and the node's folder.
func (b *trainBench) node(node int) (pid int, dir string) {
	b.t.Helper()
	var record struct{ Processes []struct{ PID int } }
	b.await("one gang", func() bool {
		found, err := filepath.Glob(filepath.Join(b.dir, "pools", "local", "*", "gang.json"))
		if err != nil || len(found) != 1 {
			return false
		}
		dir = filepath.Dir(found[0])
		raw, err := os.ReadFile(found[0])
		return err == nil && json.Unmarshal(raw, &record) == nil
	})
	return record.Processes[node].PID, filepath.Join(dir, "node"+strconv.Itoa(node))
}

// losses are those of each step, as the script noted them, in all generations.
func (s *site) losses(trace string) map[string][]string {
	s.t.Helper()
	f, err := os.Open(filepath.Join(s.dir, trace+".losses"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	losses := map[string][]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if step, loss, ok := strings.Cut(lines.Text(), " "); ok {
			losses[step] = append(losses[step], loss)
		}
	}
	return losses
}

// differing says which step has another loss than it should, in any generation.
func differing(want, got map[string][]string) string {
	for step, losses := range want {
		again := got[step]
		if len(again) == 0 || slices.ContainsFunc(again, func(loss string) bool { return loss != losses[0] }) {
			return "step " + step + " has the losses " + strings.Join(again, ", ") + ", want " + losses[0]
		}
	}
	return ""
}
