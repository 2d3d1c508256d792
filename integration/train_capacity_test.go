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

// checkLedger checks that the ledger adds up to the node time of the outputs, at the prices of what was bought, and to the generations.
func (b *trainBench) checkLedger(o outputs) {
	b.t.Helper()
	prices := map[string]float64{spec.CapacitySpot: 1, spec.CapacityOnDemand: 3}
	seconds := map[string]float64{}
	var usd, ran float64
	for _, line := range o.Ledger {
		seconds[line.Capacity] += line.NodeSeconds
		usd += line.CostUSD
		if line.End != spec.EndNeverStarted {
			ran += line.CostUSD
		}
	}
	if len(seconds) != 2 {
		b.t.Errorf("bought %v, want spot and on-demand", seconds)
	}
	var time, atPrices, ofGenerations float64
	for capacity, s := range seconds {
		time += s
		atPrices += s / 3600 * prices[capacity]
	}
	for _, g := range o.Generations {
		ofGenerations += g.CostUSD
	}
	if math.Abs(time-o.NodeSeconds) > 1e-6 {
		b.t.Errorf("the ledger has %g s, and the outputs %g s", time, o.NodeSeconds)
	}
	if math.Abs(usd-atPrices) > 1e-9 || math.Abs(o.CostUSD-usd) > 1e-9 || math.Abs(ofGenerations-ran) > 1e-9 {
		b.t.Errorf("the ledger says $%g, of which $%g ran; at the prices that is $%g, and the outputs say $%g and $%g", usd, ran, atPrices, o.CostUSD, ofGenerations)
	}
}

// Spot is interrupted so soon that it would take several times as long as there is time. The policy tries it, and takes on-demand while
// that is in time.
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
