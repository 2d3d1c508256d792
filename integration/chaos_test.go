package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluiceml/sluice/connect/state"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store/record"
)

// chaosPipeline has steps whose programs tell a ledger when they begin and end. Each has a lock while it runs, so that two at once are
// noticed. What `draw` makes is different each time that it runs. `charge` has an effect that must not be there twice, and sees to that
// by a key, as the reference tells authors to.
const chaosPipeline = `sluice: pipeline/v1
name: chaos
params: {number: {type: int}}
outputs: {token: "${steps.draw.token}"}
defaults:
  step:
    env: {RUN: "${run.id}", DIR: "@DIR@", PAUSE: "0.2"}
steps:
  draw:
    run:
      script: |
        . ./begin draw
        mkdir "$SLUICE_OUTPUT_DIR/rows"; echo "$TOKEN" > "$SLUICE_OUTPUT_DIR/rows/0.txt"
        echo "{\"token\": \"$TOKEN\"}" > "$SLUICE_OUTPUT_DIR/outputs.json"
        echo "end $RUN draw $TOKEN" >> "$DIR/ledger"
      outputs: {token: {type: string}, rows: {type: dataset, path: rows}}
    publish: {rows: chaos}
    gate: token != ""
  each:
    foreach: lists.range(3)
    env: {RUN: "${run.id}", DIR: "@DIR@", PAUSE: "0.2", STEP: "each.${string(index)}", SAW: "${steps.draw.token}"}
    run:
      script: |
        . ./begin "$STEP"
        echo "saw $RUN $SAW" >> "$DIR/ledger"
        echo "{\"token\": \"$TOKEN\"}" > "$SLUICE_OUTPUT_DIR/outputs.json"
      outputs: {token: {type: string}}
  charge:
    needs: [draw]
    run:
      script: |
        . ./begin charge
        echo "$TOKEN" > "$DIR/charges/new.$TOKEN"
        ln "$DIR/charges/new.$TOKEN" "$DIR/charges/$RUN" 2> /dev/null || true
        rm "$DIR/charges/new.$TOKEN"
        echo "{\"token\": \"$(cat "$DIR/charges/$RUN")\"}" > "$SLUICE_OUTPUT_DIR/outputs.json"
      outputs: {token: {type: string}}
  last:
    needs: [each, charge]
    env: {RUN: "${run.id}", DIR: "@DIR@", PAUSE: "0.1", SAW: "${steps.draw.token}"}
    run: {script: '. ./begin last; echo "saw $RUN $SAW" >> "$DIR/ledger"'}
finally:
  tidy:
    run: {script: '. ./begin tidy'}
`

const chaosBegin = `echo "begin $RUN $1" >> "$DIR/ledger"
exec 9> "$DIR/locks/$RUN.$1"
flock -n 9 || echo "overlap $RUN $1" >> "$DIR/ledger"
TOKEN=$(cat /proc/sys/kernel/random/uuid)
sleep "$PAUSE"
`

// chaos is a server and two workers, each a process of its own.
type chaos struct {
	*sandbox
	session *control.Session
	random  *rand.Rand
	workers [2]*command
}

func newChaos(t *testing.T, seed uint64) *chaos {
	t.Helper()
	dir := t.TempDir()
	c := &chaos{random: rand.New(rand.NewPCG(seed, 0))}
	c.sandbox = &sandbox{site: site{t: t, dir: dir, state: filepath.Join(dir, "state")}, project: filepath.Join(dir, "project")}
	for _, sub := range []string{"project", "tmp", "locks", "charges"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(c.project, "pipeline.yaml"), strings.ReplaceAll(chaosPipeline, "@DIR@", dir))
	write(t, filepath.Join(c.project, "begin"), chaosBegin)
	t.Cleanup(c.nothingLeft)
	t.Setenv(state.StoreVariable, "file://"+filepath.Join(c.state, "store"))
	c.env = append(os.Environ(), "TMPDIR="+filepath.Join(dir, "tmp"), "SLUICE_AGENT="+agentPath)
	c.serve()
	var err error
	if c.session, err = control.Open(t.Context(), control.Options{StateDir: c.state, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.session.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// begin starts worker n.
func (c *chaos) begin(n int) {
	c.t.Helper()
	c.workers[n] = c.work(fmt.Sprintf("worker-%d", n))
}

// strike kills a worker after a while, and starts it again.
func (c *chaos) strike() {
	c.t.Helper()
	select {
	case <-time.After(300*time.Millisecond + time.Duration(c.random.Int64N(int64(2*time.Second)))):
	case <-c.t.Context().Done():
		c.t.Fatal("the test is over")
	}
	n := c.random.IntN(len(c.workers))
	kill(c.t, c.workers[n].cmd.Process.Pid, syscall.SIGKILL)
	<-c.workers[n].done
	c.begin(n)
}

// TestChaos kills workers at random moments. What it looks for is what docs/scaling.md promises: a program may run again when its
// worker has died, never two at once and never without an attempt in the record; a step has one result, whatever happens, which all
// later steps see; what it publishes is there once; and an effect by key is there once.
func TestChaos(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	c := newChaos(t, seed)
	c.begin(0)
	c.begin(1)
	runs := make([]string, sized(50, 5))
	for i := range runs {
		params := map[string]string{"number": fmt.Sprint(i)}
		run, err := c.session.Submit(t.Context(), control.SubmitRequest{
			PipelineFile: filepath.Join(c.project, "pipeline.yaml"), Params: params, NoCache: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		runs[i] = run.Run
		c.strike()
	}
	repeated := 0
	for _, run := range runs {
		repeated += c.judge(run)
	}
	c.published(runs)
	t.Logf("%d runs, %d workers killed, %d programs run again", len(runs), len(runs), repeated)
}

// judge waits for a run's end and compares its records with what its programs did. It returns how many programs ran more than once.
func (c *chaos) judge(run string) (repeated int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Minute)
	defer cancel()
	out, err := c.session.Wait(ctx, run)
	if err != nil || out.Status != spec.StatusSucceeded {
		c.t.Errorf("run %s ended as %+v: %v", run, out, err)
		return 0
	}
	rec, err := record.LoadRun(ctx, c.session.Store, run)
	if err != nil {
		c.t.Fatal(err)
	}
	told := c.ledger("ledger")
	tokens := map[string]string{}
	check := func(id string, step record.StepRecord) {
		ran := told["begin "+run+" "+id]
		if ran < 1 || ran > 1+len(step.Attempts) || step.Status != spec.StatusSucceeded {
			c.t.Errorf("%s of %s is %s; its program ran %d times; attempts that failed: %+v", id, run, step.Status, ran, step.Attempts)
		}
		for _, a := range step.Attempts {
			if a.ErrorType != fault.Infrastructure {
				c.t.Errorf("an attempt at %s of %s failed: %+v", id, run, a)
			}
		}
		if told["overlap "+run+" "+id] > 0 {
			c.t.Errorf("two programs of %s of %s ran at once", id, run)
		}
		repeated += max(0, ran-1)
		var outputs struct{ Token string }
		if step.Outputs != nil && json.Unmarshal(step.Outputs, &outputs) == nil {
			tokens[id] = outputs.Token
		}
	}
	for _, step := range rec.Steps {
		if step.Step != "each" {
			check(step.Step, step)
			continue
		}
		for i := range 3 {
			var one record.StepRecord
			if err := c.session.Store.GetJSON(ctx, fmt.Sprintf("instances/%s/each/%d.json", run, i), &one); err != nil {
				c.t.Fatal(err)
			}
			check(fmt.Sprintf("each.%d", i), one)
		}
	}
	c.oneResult(run, tokens, told)
	return repeated
}

// oneResult checks that a run's steps agree on what `draw` and `charge` did.
func (c *chaos) oneResult(run string, tokens map[string]string, told map[string]int) {
	c.t.Helper()
	if told["end "+run+" draw "+tokens["draw"]] != 1 {
		c.t.Errorf("run %s records a result that no program made: %v", run, tokens)
	}
	for line := range told {
		if saw, yes := strings.CutPrefix(line, "saw "+run+" "); yes && saw != tokens["draw"] {
			c.t.Errorf("a step of %s saw the result %s, the record says %s", run, saw, tokens["draw"])
		}
	}
	charged, err := os.ReadFile(filepath.Join(c.dir, "charges", run))
	if err != nil || strings.TrimSpace(string(charged)) != tokens["charge"] {
		c.t.Errorf("run %s charged %q (%v), its record says %q", run, charged, err, tokens["charge"])
	}
}

// published checks that each run has published one version.
func (c *chaos) published(runs []string) {
	c.t.Helper()
	versions := 0
	for _, err := range c.session.Store.Driver().List(c.t.Context(), "registry/dataset/chaos/") {
		if err != nil {
			c.t.Fatal(err)
		}
		versions++
	}
	if versions != len(runs) {
		c.t.Errorf("%d versions are published by %d runs", versions, len(runs))
	}
}
