package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
)

// onPool makes a sandbox whose steps run on a pool of one node.
func onPool(t *testing.T, pool, steps string) *sandbox {
	t.Helper()
	t.Parallel()
	s := emptySandbox(t, t.TempDir())
	s.env = append(s.env, "DEEP_TOKEN=deep quartz 9471", "MARKS="+s.dir)
	if err := os.Mkdir(s.project, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(s.project, "environment.yaml"),
		"sluice: environment/v1\nname: lab\npools: {one: "+pool+"}\nsecrets: {token: {env: DEEP_TOKEN}, marks: {env: MARKS}}\n")
	write(t, filepath.Join(s.project, "pipeline.yaml"), "sluice: pipeline/v1\nname: p\n"+steps)
	return s
}

// accountOf is what the newest run's record of a step says of nodes of pools.
func (s *sandbox) accountOf(step string) (out spec.TrainOutput, cost float64) {
	s.t.Helper()
	c := s.start("show", "--format", "json").expect(0)
	var record struct {
		Steps map[string]struct {
			Account json.RawMessage
			CostUSD float64 `json:"cost_usd"`
		}
	}
	if err := json.Unmarshal([]byte(c.stdout.String()), &record); err != nil {
		s.t.Fatal(err)
	}
	if err := json.Unmarshal(record.Steps[step].Account, &out); err != nil {
		s.t.Fatalf("the account of %s: %v", step, err)
	}
	return out, record.Steps[step].CostUSD
}

// interruptedOnce waits, in its first generation, to be interrupted, which begins with the first step that is reported.
const interruptedOnce = `
        if mkdir "$MARKS/$1" 2>/dev/null; then
          echo '{"step": 1, "f1": 0.1}' >> "$SLUICE_METRICS"
          sleep 100
        fi`

// TestStepsOnPool: a run and an evaluate on a node that is taken away do their work on the next, hand on what they made, are paid for, and
// are not done again by another run.
func TestStepsOnPool(t *testing.T) {
	s := onPool(t, "{local: {nodes: 1, interruptions: {mean_up: 200ms, notice: 2s, without_notice: 50%}}, capacity: [spot], usd_per_hour: {spot: 3600}}", `steps:
  prepare:
    run:
      pool: one
      outputs: {table: {type: dataset, path: table}, rows: {type: int}}
      script: |
        set -- prepare`+interruptedOnce+`
        echo "the token is $TOKEN"
        mkdir "$SLUICE_OUTPUT_DIR/table"
        seq 7 > "$SLUICE_OUTPUT_DIR/table/rows"
        echo '{"rows": 7}' > "$SLUICE_OUTPUT_DIR/outputs.json"
    secrets: {TOKEN: token, MARKS: marks}
    gate: rows == 7
  score:
    evaluate:
      pool: one
      resources: {cpu: 1}
      command: [bash, score.sh, "${inputs.table.path}/rows"]
      inputs: {table: "${steps.prepare.table}"}
      metrics: [f1]
      outputs: {lines: {type: int}}
    secrets: {MARKS: marks}
    gate: metrics.f1 == 0.75 && run.cost.usd >= 0.0
`)
	write(t, filepath.Join(s.project, "score.sh"), "set -eu; set -- score \"$1\"\n"+interruptedOnce+`
test "$(tail -n 1 "$2")" = 7
echo '{"f1": 0.5, "other": 1}' >> "$SLUICE_METRICS"
echo '{"f1": 0.75}' >> "$SLUICE_METRICS"
echo '{"lines": 7}' > "$SLUICE_OUTPUT_DIR/outputs.json"
`)
	s.run().expect(0)
	first := s.show()
	var made struct {
		Rows, Lines int
		Metrics     map[string]float64
	}
	first.Steps["prepare"].decode(t, &made)
	first.Steps["score"].decode(t, &made)
	if made.Rows != 7 || made.Lines != 7 || made.Metrics["f1"] != 0.75 || len(made.Metrics) != 1 {
		t.Errorf("the steps handed on %+v", made)
	}
	if paid, _ := first.Steps["score"].Checks[0].Values["run.cost.usd"].(float64); paid <= 0 {
		t.Errorf("when score was evaluated, the run had cost $%g", paid)
	}
	for step, end := range map[string]spec.GenerationEnd{"prepare": spec.EndNodeLost, "score": spec.EndNodeLost} {
		account, cost := s.accountOf(step)
		var ends []spec.GenerationEnd
		for _, g := range account.Generations {
			ends = append(ends, g.End)
		}
		if diff := cmp.Diff([]spec.GenerationEnd{end, spec.EndFinished}, ends); diff != "" {
			t.Errorf("%s: ends of generations (-want +got):\n%s", step, diff)
		}
		if cost <= 0 || cost != account.CostUSD || account.Ledger[0].Pool != "one" {
			t.Errorf("%s cost %g, by its ledger: %+v", step, cost, account)
		}
	}
	s.start("show").expect(0).says("2 generations", "f1 0.75")
	s.start("show", first.Run, "score").expect(0).says("generation  nodes", "node lost", "finished")
	s.start("logs", first.Run, "prepare").expect(0).says("the token is ***", "prepare: generation 1 ended", "node lost")

	s.run().expect(0)
	for name, step := range s.show().Steps {
		if step.ReusedFrom != first.Run {
			t.Errorf("%s was done again", name)
		}
	}
}

// TestStepOnPoolFails: what a program does wrong is the user's error, as beside the worker.
func TestStepOnPoolFails(t *testing.T) {
	s := onPool(t, "{local: {nodes: 2}, usd_per_hour: {on_demand: 3600}}", `steps:
  fails:
    run: {pool: one, script: "echo began; echo 'this is the reason'; exit 3"}
  missing:
    run: {pool: one, command: ["true"], outputs: {rows: {type: int}}}
  text:
    evaluate: {pool: one, command: [bash, -c, 'echo "{\"f1\": NaN}" >> "$SLUICE_METRICS"'], metrics: [f1]}
  silent:
    evaluate: {pool: one, command: [bash, -c, 'echo "{\"f2\": 1}" >> "$SLUICE_METRICS"'], metrics: [f1]}
  again:
    run: {pool: one, script: 'mkdir "$MARKS/again" && exit 4; echo the second attempt'}
    secrets: {MARKS: marks}
    retry: {attempts: 2, errors: [user], backoff: 10ms}
`)
	s.run().expect(3)
	record := s.show()
	for step, want := range map[string][]string{
		"fails":   {"exit code 3: this is the reason", "began"},
		"missing": {"output \"rows\""},
		"text":    {"$SLUICE_METRICS line 1 is not a JSON object of numbers"},
		"silent":  {"metric \"f1\" is declared", "it wrote these", "f2"},
	} {
		got := record.Steps[step]
		if got.Status != string(spec.StatusFailed) || got.ErrorType != "user" || got.Attempts.Total != 1 {
			t.Errorf("%s is %s by a %s error after %d attempts", step, got.Status, got.ErrorType, got.Attempts.Total)
		}
		for _, part := range want {
			if !strings.Contains(got.Error, part) {
				t.Errorf("%s: error %q does not say %q", step, got.Error, part)
			}
		}
		account, cost := s.accountOf(step)
		if len(account.Generations) != 1 || account.Generations[0].End != spec.EndUserError || cost <= 0 || string(got.Outputs) != "" {
			t.Errorf("%s cost %g, with outputs %s and generations %+v", step, cost, got.Outputs, account.Generations)
		}
	}
	if got := record.Steps["again"]; got.Status != string(spec.StatusSucceeded) {
		t.Errorf("the second attempt is %s: %s", got.Status, got.Error)
	}
}

// TestStepOnPoolEnds: a cancel and a used up budget leave no process, and say what was paid.
func TestStepOnPoolEnds(t *testing.T) {
	const steps = `steps:
  waits: {run: {pool: one, script: "echo waiting; exec sleep 98765"}}
`
	t.Run("canceled", func(t *testing.T) {
		s := onPool(t, "{local: {nodes: 1}, usd_per_hour: {on_demand: 36}}", steps)
		c := s.run()
		c.awaitProcess("sleep", "98765")
		s.start("cancel", c.runID()).expect(0)
		c.wait()
		account, cost := s.accountOf("waits")
		if got := s.show().Steps["waits"].Status; got != string(spec.StatusCanceled) || account.Generations[0].End != spec.EndCanceled || cost <= 0 {
			t.Errorf("it is %s, cost %g, with generations %+v", got, cost, account.Generations)
		}
		if left := append(s.processes("98765"), s.processes("sluice-agent")...); len(left) > 0 {
			t.Errorf("processes are left: %v", left)
		}
	})
	t.Run("budget", func(t *testing.T) {
		s := onPool(t, "{local: {nodes: 1}, usd_per_hour: {on_demand: 3600}}", "budget: {usd: 2}\n"+steps)
		if code := s.run().wait(); code == 0 {
			t.Error("the run succeeded")
		}
		account, cost := s.accountOf("waits")
		if got := s.show().Steps["waits"]; got.ErrorType != "budget" || account.Generations[0].End != spec.EndBudget || cost < 2 {
			t.Errorf("it is %s by a %s error, cost %g, with generations %+v", got.Status, got.ErrorType, cost, account.Generations)
		}
		if left := s.processes("98765"); len(left) > 0 {
			t.Errorf("processes are left: %v", left)
		}
	})
}

// TestStepOnPoolGoesOn: a run that saves checkpoints goes on from the last of them when its run is done again. Instances of a matrix share
// the pool, and their costs add up.
func TestStepOnPoolGoesOn(t *testing.T) {
	s := onPool(t, "{local: {nodes: 2}, usd_per_hour: {on_demand: 3600}}", `steps:
  count:
    run:
      pool: one
      outputs: {made: {type: int}}
      script: |
        step=0
        if [ -n "${SLUICE_RESUME_DIR-}" ]; then read -r step < "$SLUICE_RESUME_DIR/step"; fi
        while [ $step -lt 4 ]; do
          step=$((step+1))
          echo $step >> "$MARKS/made"
          if [ $step = 3 ] && ! [ -e "$MARKS/mended" ]; then exit 1; fi
          mkdir "$SLUICE_CHECKPOINT_DIR/part"
          echo $step > "$SLUICE_CHECKPOINT_DIR/part/step"
          mv "$SLUICE_CHECKPOINT_DIR/part" "$SLUICE_CHECKPOINT_DIR/step-$step"
        done
        echo "{\"made\": $step}" > "$SLUICE_OUTPUT_DIR/outputs.json"
    secrets: {MARKS: marks}
  each:
    needs: [count]
    matrix: {n: [1, 2, 3]}
    run:
      pool: one
      outputs: {n: {type: int}}
      script: |
        echo "{\"n\": $N}" > "$SLUICE_OUTPUT_DIR/outputs.json"
    env: {N: "${matrix.n}"}
    gate: n > 0
`)
	s.run().expect(3)
	failed := s.show()
	if account, _ := s.accountOf("count"); account.Generations[0].CommittedStep != 2 {
		t.Fatalf("the first run left %+v, want a checkpoint of step 2", account.Generations)
	}
	write(t, filepath.Join(s.dir, "mended"), "")
	s.start("rerun", failed.Run).expect(0)
	if diff := cmp.Diff(map[string]int{"1": 1, "2": 1, "3": 2, "4": 1}, s.ledger("made")); diff != "" {
		t.Errorf("steps made (-want +got):\n%s", diff)
	}
	if account, _ := s.accountOf("count"); account.Generations[0].FromStep != 2 {
		t.Errorf("the rerun began with %+v, want the checkpoint of step 2", account.Generations)
	}
	var made []struct{ N int }
	s.show().Steps["each"].decode(t, &made)
	if len(made) != 3 {
		t.Errorf("instances: %+v", made)
	}
	var costs struct {
		CostUSD float64 `json:"cost_usd"`
		Steps   map[string]struct {
			CostUSD float64 `json:"cost_usd"`
		}
	}
	if err := json.Unmarshal([]byte(s.start("show", "--format", "json").expect(0).stdout.String()), &costs); err != nil {
		t.Fatal(err)
	}
	if each := costs.Steps["each"].CostUSD; each <= 0 || costs.CostUSD < each+costs.Steps["count"].CostUSD-0.001 {
		t.Errorf("costs %+v: those of the steps do not add up to that of the run", costs)
	}
}
