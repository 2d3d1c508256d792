package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/heartbeat"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/training/protocol"
)

// Gather ends a step with instances: its result is the list of outputs of the instances that passed, or the outputs of the last iteration
// of a `repeat`. Each instance has been evaluated separately.
func (e *Engine) Gather(ctx context.Context, in contract.GatherInput) (contract.StepVerdict, error) {
	rec, err := e.recordOf(ctx, in.StepEnd)
	if err != nil {
		return contract.StepVerdict{}, err
	}
	rec.Of, rec.CostUSD, rec.CostUnknown = in.Of, in.CostUSD, in.CostUnknown
	var published []record.Version
	if in.Of > 0 {
		if published, err = e.collect(ctx, in, &rec); err != nil {
			return contract.StepVerdict{}, err
		}
	}
	if err := e.Store.PutJSON(ctx, record.StepKey(in.Run, in.Step), rec, store.WriteOptions{}); err != nil {
		return contract.StepVerdict{}, err
	}
	result, err := e.resultOf(ctx, rec)
	if err != nil {
		return contract.StepVerdict{}, err
	}
	e.results.put(in.Run+"/"+in.Step, result)
	return contract.StepVerdict{
		Status: rec.Status, Error: rec.Error, ErrorType: rec.ErrorType, Summary: rec.Summary, Published: published,
		CostUSD: rec.CostUSD, CostUnknown: rec.CostUnknown,
	}, nil
}

// gathered is how many records of instances are read between two heartbeats.
const gathered = 500

// readInstances reads the records of instances from the first to before the last.
func (e *Engine) readInstances(ctx context.Context, of record.StepRef, first, last int) ([]*record.StepRecord, error) {
	keys := make([]string, 0, last-first)
	for i := first; i < last; i++ {
		of.Instance = &record.Instance{Index: i}
		keys = append(keys, record.Key(of))
	}
	return store.Records[record.StepRecord](ctx, e.Store, keys)
}

// collect reads the instances' records. It returns what they have published.
func (e *Engine) collect(ctx context.Context, in contract.GatherInput, rec *record.StepRecord) (published []record.Version, err error) {
	var list []spec.Instance
	if in.List != "" {
		if list, err = e.list(ctx, in.List); err != nil {
			return nil, err
		}
	}
	run, err := e.record(ctx, in.Run)
	if err != nil {
		return nil, err
	}
	sub, err := e.Submission(ctx, in.Submission)
	if err != nil {
		return nil, err
	}
	results, asides := sha256.New(), run.asides(sub.Program.Listed(in.Step))
	outputs := []json.RawMessage{}
	var cost fault.Costs
	from := map[string]bool{}     // the runs that the results are of, "" for this one
	var some []*record.StepRecord // those of the instances from the last multiple of gathered on
	for i := range in.Of {
		at := in.StepRef
		at.Instance = &record.Instance{Index: i}
		if i%gathered == 0 {
			heartbeat.Show(ctx, func() any {
				return protocol.Progress{Text: fmt.Sprintf("%d of %d read", i, in.Of), Share: float64(i) / float64(in.Of)}
			})
			if some, err = e.readInstances(ctx, in.StepRef, i, min(i+gathered, in.Of)); err != nil {
				return nil, err
			}
		}
		one := some[i%gathered]
		if one != nil {
			cost = cost.Add(fault.Costs{USD: one.CostUSD, Unknown: one.CostUnknown})
		}
		if one == nil || one.Status != spec.StatusSucceeded { // not begun, since others had failed; or failed
			continue
		}
		rec.Passed++
		from[one.ReusedFrom] = true
		for _, words := range one.Published {
			if v := versionOf(words); !slices.Contains(published, v) {
				published = append(published, v)
			}
		}
		if in.Fan == spec.FanRepeat {
			rec.Outputs, rec.Result = one.Outputs, digestOf(*one, one.Outputs)
			continue
		}
		addInstance(results, list[i], asides, *one)
		with, err := withInstance(one.Outputs, list[i])
		if err != nil {
			return nil, fmt.Errorf("outputs of %s: %w", at.ID(), err)
		}
		outputs = append(outputs, with)
	}
	rec.CostUSD, rec.CostUnknown = max(rec.CostUSD, cost.USD), rec.CostUnknown || cost.Unknown // a lost lane tells of no cost
	if all := slices.Collect(maps.Keys(from)); rec.Passed == in.Of && len(all) == 1 {
		rec.ReusedFrom = all[0]
	}
	if in.Fan == spec.FanRepeat {
		rec.Summary = human.Plural(int64(rec.Passed), "iteration")
		return published, nil
	}
	rec.Result = hex.EncodeToString(results.Sum(nil))
	rec.Summary = fmt.Sprintf("%d of %d passed", rec.Passed, in.Of)
	out, err := record.StoreOutputs(ctx, e.Store, outputs)
	rec.Outputs, rec.OutputsRef = out.Outputs, out.OutputsRef
	return published, err
}

// withInstance adds to outputs which instance they are of.
func withInstance(outputs json.RawMessage, of spec.Instance) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if len(outputs) > 0 {
		if err := json.Unmarshal(outputs, &fields); err != nil {
			return nil, err
		}
	}
	if fields == nil { // there are none, or null: a child pipeline without outputs
		fields = map[string]json.RawMessage{}
	}
	fields["index"] = json.RawMessage(strconv.Itoa(of.Index))
	if of.Matrix != nil {
		fields["matrix"] = of.Matrix
	}
	if of.Item != nil {
		fields["item"] = of.Item
	}
	return json.Marshal(fields)
}
