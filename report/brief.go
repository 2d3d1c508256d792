package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/store/record"
)

// Brief says in one line what a step handed on; empty when it handed nothing on.
func Brief(step record.StepRecord) string {
	if step.Of > 0 {
		return step.Summary // its outputs are a list of those of its instances
	}
	var parts []string
	if step.Summary != "" {
		parts = append(parts, step.Summary) // what the pipeline itself says of the step
	}
	if brief := kinds[step.Kind].brief; brief != nil && len(step.Outputs) > 0 {
		parts = append(parts, brief(step.Outputs)...)
	}
	if len(step.Account) > 0 {
		parts = append(parts, briefAccount(decode[spec.TrainOutput](step.Account))...)
	}
	return strings.Join(parts, " · ")
}

func briefClean(out spec.CleanOutput) []string {
	r := out.Rows
	parts := []string{fmt.Sprintf("kept %s of %s", human.Count(r.Kept), human.Plural(r.Read, "row"))}
	if r.Dropped > 0 {
		parts = append(parts, "dropped "+human.Count(r.Dropped))
	}
	if r.Rejected > 0 {
		parts = append(parts, "rejected "+human.Count(r.Rejected))
	}
	return parts
}

func briefTrain(out spec.TrainOutput) []string {
	if len(out.Generations) == 0 { // it ended before any
		return nil
	}
	ends, failures := map[spec.GenerationEnd]int64{}, int64(0)
	for _, g := range out.Generations {
		ends[g.End]++
		if isFailure(g) {
			failures++
		}
	}
	count := human.Plural(int64(len(out.Generations)), "generation")
	if last := out.Generations[len(out.Generations)-1]; len(out.Generations) > 1 && last.FromStep > 0 {
		count += ", the last began at step " + human.Count(last.FromStep+1)
	}
	parts := []string{human.Plural(out.Steps, "step"), count}
	lost := ends[spec.EndNotice] + ends[spec.EndNodeLost]
	if lost > 0 {
		parts = append(parts, fmt.Sprintf("%s (%d with notice)", human.Plural(lost, "interruption"), ends[spec.EndNotice]))
	}
	if failures > 0 {
		parts = append(parts, human.Plural(failures, "failed attempt"))
	}
	damaged := ends[spec.EndDamaged]
	if damaged > 0 {
		parts = append(parts, human.Plural(damaged, "damaged checkpoint"))
	}
	if began := notResumed(out.Generations); began > 0 {
		parts = append(parts, human.Plural(began, "generation")+" did not resume")
	}
	if lost+failures+damaged > 0 {
		parts = append(parts, atLeast(out.StepsAtLeast, human.Plural(out.StepsLost, "step"))+" lost", human.Count(out.StepsRepeated)+" repeated")
	}
	if last := out.Generations[len(out.Generations)-1]; last.End != spec.EndFinished && last.CommittedStep > 0 {
		parts = append(parts, "saved at step "+human.Count(last.CommittedStep)+", `sluice rerun` resumes from its newest checkpoint")
	}
	if out.Late {
		parts = append(parts, "after its deadline")
	}
	return append(append(parts, bought(out.Ledger)...), texts(fields(out.Metrics))...)
}

// notResumed counts the generations whose script did not resume from its checkpoint.
func notResumed(generations []spec.Generation) (n int64) {
	for _, g := range generations {
		if g.NotResumed {
			n++
		}
	}
	return n
}

// briefAccount says of a step that is no training what became of its nodes.
func briefAccount(out spec.TrainOutput) []string {
	var parts []string
	if n := int64(len(out.Generations)); n > 1 {
		parts = append(parts, human.Plural(n, "generation"))
	}
	return append(parts, bought(out.Ledger)...)
}

// bought says how long nodes of each capacity were paid for, where both were.
func bought(ledger []spec.LedgerLine) []string {
	seconds := map[string]float64{}
	for _, line := range ledger {
		seconds[line.Capacity] += line.NodeSeconds
	}
	if len(seconds) < 2 {
		return nil
	}
	return []string{
		human.Seconds(seconds[spec.CapacitySpot]) + " of spot", human.Seconds(seconds[spec.CapacityOnDemand]) + " of on-demand",
	}
}

func briefCompile(out spec.CompileOutput) []string {
	v := out.Variants[out.Selected.Name]
	if out.Selected.Name == "" {
		return nil
	}
	parts := []string{"selected " + out.Selected.Name, human.Bytes(v.Bytes)}
	if v.IsMeasured() {
		parts = append(parts, "p99 "+human.Number(v.Latency.P99MS)+" ms", "cosine "+human.Number(v.Parity.Cosine))
	} else {
		parts = append(parts, "not measured")
	}
	for _, name := range slices.Sorted(maps.Keys(out.Variants)) {
		if same := out.Variants[name].Parity.Batched; same != nil && *same < 1 && (*same > 0 || isSteady(out.Source)) {
			parts = append(parts, name+" is not batched by default: parity.batched is "+human.Precise(*same))
		}
	}
	return parts
}

// isSteady reports whether a model gives any answer among other rows that it gives alone: it takes several rows at once.
func isSteady(v spec.VariantOutput) bool { return v.Parity.Batched != nil && *v.Parity.Batched > 0 }

func briefRollout(out spec.RolloutOutput) []string {
	switch out.Decision {
	case "promoted":
		parts := []string{out.Target + " serves " + out.Version, out.URL}
		if out.Synthetic() {
			parts = append(parts, "tested with replayed rows")
		}
		return parts
	case "rolled_back":
		return []string{"rolled back to " + cmp.Or(out.Previous, "nothing"), human.Line(out.Reason)}
	}
	return nil
}

// briefApproval says who approved, and what they filled in; Decided says the rest.
func briefApproval(raw json.RawMessage) []string {
	var fields spec.Values
	if json.Unmarshal(raw, &fields) != nil {
		return nil
	}
	by, _ := fields["by"].(string)
	parts := []string{"by " + cmp.Or(by, "default")}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if name != "by" && name != "at" && name != "reason" {
			parts = append(parts, name+" "+human.Value(fields[name]))
		}
	}
	return parts
}

// briefValues lists declared outputs: artifacts by size, values as they are.
func briefValues(raw json.RawMessage) []string {
	return texts(outputFields(raw, func(ref artifact.Ref) string { return human.Bytes(ref.Bytes) }))
}

// texts are fields in words: "f1 0.97".
func texts(all []field) []string {
	parts := make([]string, len(all))
	for i, f := range all {
		parts[i] = f.Name + " " + f.Value
	}
	return parts
}
