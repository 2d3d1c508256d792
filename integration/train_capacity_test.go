package integration

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
)

// bothCapacities makes of the training's pool one that sells spot, which is interrupted like that, and on-demand.
func bothCapacities(interruptions string) string {
	return ", interruptions: {" + interruptions + "}}, capacity: [spot, on_demand], usd_per_hour: {spot: 1, on_demand: 3"
}

// change changes the training's spec.
func (b *trainBench) change(how func(*spec.Train)) {
	b.t.Helper()
	var spec spec.Train
	if err := json.Unmarshal(b.in.Spec, &spec); err != nil {
		b.t.Fatal(err)
	}
	how(&spec)
	raw, err := json.Marshal(spec)
	if err != nil {
		b.t.Fatal(err)
	}
	b.in.Spec = raw
}

// checkLedger checks that the ledger adds up to the generations, by what they bought.
func (b *trainBench) checkLedger(o outputs) {
	b.t.Helper()
	prices := map[string]float64{spec.CapacitySpot: 1, spec.CapacityOnDemand: 3}
	seconds := map[string]float64{}
	var usd float64
	for _, g := range o.Generations {
		spent := float64(g.Nodes) * g.EndedAt.Sub(g.StartedAt).Seconds()
		seconds[g.Capacity] += spent
		usd += spent / 3600 * prices[g.Capacity]
	}
	if len(seconds) != 2 {
		b.t.Errorf("bought %v, want spot and on-demand", seconds)
	}
	var total float64
	for _, line := range o.Ledger {
		seconds[line.Capacity] -= line.NodeSeconds
		total += line.CostUSD
	}
	for capacity, rest := range seconds {
		if math.Abs(rest) > 1e-6 {
			b.t.Errorf("the ledger lacks %g s of %s", rest, capacity)
		}
	}
	if math.Abs(total-usd) > 1e-9 || math.Abs(o.CostUSD-usd) > 1e-9 {
		b.t.Errorf("the generations cost $%g, the ledger says $%g, and the output $%g", usd, total, o.CostUSD)
	}
}

// Spot is interrupted so soon that it would take several times as long as there is time. The policy tries it, and takes on-demand while
// that is in time.
//
// promise: docs/training.md#p-never-too-late
// promise: docs/training.md#p-deadline-kept
// promise: docs/training.md#p-ledger
func TestTrainKeepsItsDeadline(t *testing.T) {
	b := newTrainBench(t, bothCapacities("mean_up: 1s, notice: 1s, without_notice: 100%, gap: 10s"), engineConfig{})
	b.env["STEPS"], b.env["STEP_SECONDS"] = "300", "0.03"
	b.change(func(sp *spec.Train) {
		sp.TotalSteps = 300
		sp.Deadline = &spec.Deadline{Within: spec.Duration(75 * time.Second), Work: spec.Duration(15 * time.Second), OnMiss: spec.OnMissContinue}
	})
	b.execute()
	o := b.result()
	b.checkAccount(o)
	b.checkLedger(o)
	if o.Late {
		t.Errorf("late: %+v", o.Generations)
	}
	if last := o.Generations[len(o.Generations)-1]; last.Capacity != spec.CapacityOnDemand || last.End != spec.EndFinished {
		t.Errorf("the last generation was on %s and %s, want one on on-demand that finished", last.Capacity, last.End)
	}
	b.record("deadline")
}

// Without a deadline a step that may buy either takes what there is, the cheaper first, and leaves on-demand when there is spot again.
//
// promise: docs/training.md#p-moves-to-spot
func TestTrainMovesBackToSpot(t *testing.T) {
	b := newTrainBench(t, bothCapacities("mean_up: 2s, notice: 2s, gap: 4s"), engineConfig{})
	b.env["STEPS"], b.env["STEP_SECONDS"] = "500", "0.03"
	b.execute()
	o := b.result()
	b.checkAccount(o)
	b.checkLedger(o)
	ends := map[spec.GenerationEnd]string{}
	for _, g := range o.Generations {
		ends[g.End] = g.Capacity
	}
	if ends[spec.EndNotice] != spec.CapacitySpot || ends[spec.EndMoved] != spec.CapacityOnDemand {
		t.Errorf("generations %+v, want spot that was interrupted and on-demand that was left", o.Generations)
	}
	b.record("moved")
}

// A training that is to stop at its deadline keeps its last checkpoint.
//
// promise: docs/training.md#p-on-miss
func TestTrainStopsAtItsDeadline(t *testing.T) {
	b := newTrainBench(t, "", engineConfig{})
	b.env["STEPS"], b.env["STEP_SECONDS"] = "100000", "0.02"
	b.change(func(sp *spec.Train) {
		sp.TotalSteps, sp.Deadline = 100000, &spec.Deadline{Within: spec.Duration(15 * time.Second), OnMiss: spec.OnMissStop}
	})
	b.execute()
	err := b.wait()
	if got := fault.TypeOf(err); got != fault.Timeout {
		t.Errorf("ended with %v (%s), want a timeout", err, got)
	}
	ended := b.state().Ended
	if len(ended) != 1 || ended[0].End != spec.EndDeadline || ended[0].CommittedStep == 0 {
		t.Errorf("generations %+v, want one that ended at the deadline with a checkpoint", ended)
	}
}
