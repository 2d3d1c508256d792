package activities

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/artifact"
)

// RunKey is where a run's record is in the store.
func RunKey(run string) string { return "runs/" + run + "/run.json" }

// StepKey is where a step's record is.
func StepKey(run, step string) string { return "runs/" + run + "/steps/" + step + ".json" }

// acceptedKey is where the last accepted run of a pipeline is named.
func acceptedKey(pipeline string) string { return "accepted/" + pipeline + ".json" }

// Run is a run's record with those of its steps, in graph order.
type Run struct {
	contract.RunRecord
	Steps []contract.StepRecord `json:"steps"`
}

// LoadRun reads a run's records. Steps that have not ended have none in the store; they are pending here.
func LoadRun(ctx context.Context, s *store.Store, run string) (Run, error) {
	var r Run
	if err := s.GetJSON(ctx, RunKey(run), &r.RunRecord); err != nil {
		return r, fmt.Errorf("run %s: %w", run, err)
	}
	for _, node := range r.Graph {
		step := contract.StepRecord{Step: node.ID, Kind: node.Kind, Status: dsl.StatusPending}
		if err := s.GetJSON(ctx, StepKey(run, node.ID), &step); err != nil && !errors.Is(err, store.ErrNotFound) {
			return r, err
		}
		r.Steps = append(r.Steps, step)
	}
	return r, nil
}

// Runs reads the records of all runs, newest first.
func Runs(ctx context.Context, s *store.Store) ([]contract.RunRecord, error) {
	var all []contract.RunRecord
	for info, err := range s.Driver().List(ctx, "runs/") {
		if err != nil {
			return nil, err
		}
		if !strings.HasSuffix(info.Key, "/run.json") {
			continue
		}
		var r contract.RunRecord
		if err := s.GetJSON(ctx, info.Key, &r); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b contract.RunRecord) int { return b.StartedAt.Compare(a.StartedAt) })
	return all, nil
}

// accept makes a run its pipeline's last accepted one, unless a newer one is already.
func accept(ctx context.Context, s *store.Store, record contract.RunRecord) error {
	var newest contract.RunRecord
	key := acceptedKey(record.Pipeline)
	if err := s.GetJSON(ctx, key, &newest); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if newest.EndedAt.After(record.EndedAt) {
		return nil
	}
	return s.PutJSON(ctx, key, contract.RunRecord{Run: record.Run, EndedAt: record.EndedAt}, store.WriteOptions{})
}

func lastAccepted(ctx context.Context, s *store.Store, pipeline string) (string, error) {
	var newest contract.RunRecord
	if err := s.GetJSON(ctx, acceptedKey(pipeline), &newest); err != nil && !errors.Is(err, store.ErrNotFound) {
		return "", err
	}
	return newest.Run, nil
}

// Published is one version of a dataset or model under a name.
type Published struct {
	Name     string       `json:"name"`
	Artifact artifact.Ref `json:"artifact"`
	Run      string       `json:"run"`
	Step     string       `json:"step"`
}

// publish registers the outputs a step publishes, one version per run and step, so that a retry writes the same again.
func (e *Engine) publish(
	ctx context.Context, sub *submitted, in contract.JudgeInput, outputs json.RawMessage,
) ([]string, error) {
	steps := sub.program.Pipeline().Steps
	names := steps[slices.IndexFunc(steps, func(s dsl.Step) bool { return s.ID == in.Step })].Publish
	if len(names) == 0 {
		return nil, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(outputs, &fields); err != nil {
		return nil, fmt.Errorf("publish: the outputs of %s: %w", in.Step, err)
	}
	var done []string
	for _, output := range slices.Sorted(maps.Keys(names)) {
		var ref artifact.Ref
		if err := json.Unmarshal(fields[output], &ref); err != nil || ref.IsZero() {
			return nil, contract.Error(contract.ErrInvalid, "publish: output `"+output+"` of "+in.Step+" is no artifact", err)
		}
		key := fmt.Sprintf("registry/%s/%s/%s-%s.json", ref.Type, names[output], in.Run, in.Step)
		version := Published{Name: names[output], Artifact: ref, Run: in.Run, Step: in.Step}
		if err := e.Store.PutJSON(ctx, key, version, store.WriteOptions{}); err != nil {
			return nil, err
		}
		done = append(done, string(ref.Type)+" "+names[output])
	}
	return done, nil
}

// StoreOutputs makes outputs small enough for history.
func StoreOutputs(ctx context.Context, s *store.Store, outputs any) (contract.StepOutput, error) {
	raw, err := json.Marshal(outputs)
	if err != nil {
		return contract.StepOutput{}, fmt.Errorf("encode outputs: %w", err)
	}
	if len(raw) <= inlineLimit {
		return contract.StepOutput{Outputs: raw}, nil
	}
	digest, _, err := s.PutBlob(ctx, bytes.NewReader(raw))
	return contract.StepOutput{OutputsRef: digest}, err
}

// LoadOutputs is the inverse of StoreOutputs.
func LoadOutputs(ctx context.Context, s *store.Store, out contract.StepOutput) (json.RawMessage, error) {
	if out.OutputsRef == "" {
		return out.Outputs, nil
	}
	var raw json.RawMessage
	if err := readBlob(ctx, s, out.OutputsRef, &raw); err != nil {
		return nil, fmt.Errorf("outputs %s: %w", out.OutputsRef, err)
	}
	return raw, nil
}

// LoadSpec returns the resolved spec of a step.
func LoadSpec(ctx context.Context, s *store.Store, in contract.StepInput, spec dsl.Spec) error {
	raw := in.Spec
	if in.SpecRef != "" {
		if err := readBlob(ctx, s, in.SpecRef, &raw); err != nil {
			return fmt.Errorf("spec %s: %w", in.SpecRef, err)
		}
	}
	if err := json.Unmarshal(raw, spec); err != nil {
		return contract.Error(contract.ErrInvalid, "the resolved spec of "+in.Step+" cannot be read", err)
	}
	return nil
}
