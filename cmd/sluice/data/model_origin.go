package data

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/store/registry"
	"github.com/sluiceml/sluice/training/checkpoint"
)

// modelOrigin is what the records of a run say of a model that it made: of the steps before the one that published the model, and after it.
type modelOrigin struct {
	Pipeline  string            `json:"pipeline"`
	StartedAt time.Time         `json:"started_at"`
	Trigger   spec.TriggerFacts `json:"trigger,omitzero"`
	Params    map[string]any    `json:"params,omitempty"`
	Data      []originData      `json:"data"`
	Trainings []originTraining  `json:"trainings"`
	Metrics   []originMetrics   `json:"metrics"`
	Gates     []originGate      `json:"gates"`
	Variants  []originVariant   `json:"variants"`
}

// originData is a dataset that a step made.
type originData struct {
	Step   string `json:"step"`
	Output string `json:"output"`
	// Published is what the dataset is published as, if it is.
	Published string `json:"published,omitempty"`
	// Rows is negative when it is not known.
	Rows     int64        `json:"rows"`
	Artifact artifact.Ref `json:"artifact"`
}

// originTraining is a train step.
type originTraining struct {
	Step        string  `json:"step"`
	Steps       int64   `json:"steps_done"`
	Generations int     `json:"generations"`
	CostUSD     float64 `json:"cost_usd"`
	CostUnknown bool    `json:"cost_unknown"`
	// Checkpoint is the newest that the store still has.
	Checkpoint string `json:"checkpoint,omitempty"`
}

// originMetrics are the metrics of a step.
type originMetrics struct {
	Step   string             `json:"step"`
	Kind   spec.Kind          `json:"kind"`
	Values map[string]float64 `json:"values"`
}

// originGate is a step's gate with what it saw.
type originGate struct {
	Step    string       `json:"step"`
	Verdict spec.Verdict `json:"verdict"`
	Checks  []spec.Check `json:"checks"`
}

// originVariant is a variant that a compile step built.
type originVariant struct {
	Step     string `json:"step"`
	Name     string `json:"name"`
	Selected bool   `json:"selected"`
	// IsThis: it is the model itself.
	IsThis bool `json:"is_this"`
	spec.VariantOutput
}

// loadOrigin reads the records of the run that made a version; nil when they have been removed.
func loadOrigin(ctx context.Context, s *store.Store, v registry.Published) (*modelOrigin, error) {
	run, err := record.LoadRun(ctx, s, v.Run)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	o := &modelOrigin{
		Pipeline: run.Pipeline, StartedAt: run.StartedAt, Trigger: run.Trigger, Params: run.Params,
		Data: []originData{}, Trainings: []originTraining{}, Metrics: []originMetrics{}, Gates: []originGate{}, Variants: []originVariant{},
	}
	published, err := datasetNames(ctx, s, run)
	if err != nil {
		return nil, err
	}
	related := relatedSteps(run.Graph, v.Step)
	for _, step := range run.Steps {
		if !related[step.Step] {
			continue
		}
		if len(step.Checks) > 0 {
			o.Gates = append(o.Gates, originGate{Step: step.Step, Verdict: step.Verdict, Checks: step.Checks})
		}
		if err := o.addOutputs(ctx, s, v, step, published); err != nil {
			return nil, err
		}
	}
	return o, o.addCheckpoints(ctx, s, v.Run)
}

// addOutputs adds what a step has put out. The outputs of a step with several instances are a list, and left out.
func (o *modelOrigin) addOutputs(ctx context.Context, s *store.Store, v registry.Published, step record.StepRecord, published map[string]string) error {
	var outputs map[string]json.RawMessage
	if len(step.Outputs) == 0 || json.Unmarshal(step.Outputs, &outputs) != nil {
		return nil
	}
	var metrics struct {
		Metrics map[string]float64 `json:"metrics"`
	}
	if json.Unmarshal(step.Outputs, &metrics) == nil && len(metrics.Metrics) > 0 {
		o.Metrics = append(o.Metrics, originMetrics{Step: step.Step, Kind: step.Kind, Values: metrics.Metrics})
	}
	var training spec.TrainOutput
	if isTraining(step.Kind) && json.Unmarshal(step.Outputs, &training) == nil {
		o.Trainings = append(o.Trainings, originTraining{
			Step: step.Step, Steps: training.Steps, Generations: len(training.Generations), CostUSD: training.CostUSD, CostUnknown: training.CostUnknown,
		})
	}
	var compiled spec.CompileOutput
	if isCompilation(step.Kind) && json.Unmarshal(step.Outputs, &compiled) == nil {
		for _, name := range slices.Sorted(maps.Keys(compiled.Variants)) {
			built := compiled.Variants[name]
			built.Measured = built.IsMeasured()
			o.Variants = append(o.Variants, originVariant{
				Step: step.Step, Name: name, Selected: name == compiled.Selected.Name, IsThis: built.Model.Digest == v.Artifact.Digest, VariantOutput: built,
			})
		}
	}
	for _, output := range slices.Sorted(maps.Keys(outputs)) {
		var ref artifact.Ref
		if json.Unmarshal(outputs[output], &ref) != nil || ref.Type != artifact.Dataset || ref.IsZero() || output == deadLetterOutput {
			continue
		}
		set := originData{Step: step.Step, Output: output, Published: published[ref.Digest], Rows: -1, Artifact: ref}
		manifest, err := s.Manifest(ctx, ref)
		if err != nil && !errors.Is(err, store.ErrNotFound) { // its files may have been removed
			return err
		}
		if n, err := strconv.ParseInt(manifest.Meta["rows"], 10, 64); err == nil {
			set.Rows = n
		}
		o.Data = append(o.Data, set)
	}
	return nil
}

// addCheckpoints adds to the trainings the newest checkpoints that the store has of them.
func (o *modelOrigin) addCheckpoints(ctx context.Context, s *store.Store, run string) error {
	if len(o.Trainings) == 0 {
		return nil
	}
	all, err := checkpoint.List(ctx, s)
	if err != nil {
		return err
	}
	for i, t := range o.Trainings {
		for _, c := range all { // the newest is last
			if c.Run == run && c.Step == t.Step {
				o.Trainings[i].Checkpoint = c.Name()
			}
		}
	}
	return nil
}

// datasetNames says what datasets are published as, by their digest: those that a run published, and those that it read.
func datasetNames(ctx context.Context, s *store.Store, run record.Run) (map[string]string, error) {
	made, err := registry.PublishedBy(ctx, s, artifact.Dataset, run.Run)
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(run.Datasets)) {
		names[run.Datasets[name].Digest] = name
	}
	for _, v := range made {
		names[v.Artifact.Digest] = v.Name
	}
	return names, nil
}

// relatedSteps are a step, those that it needs, directly or not, and those that need it.
func relatedSteps(graph []spec.Node, step string) map[string]bool {
	before, after := map[string]bool{step: true}, map[string]bool{step: true}
	for range graph { // as often as the longest chain at most
		for _, node := range graph {
			for _, needed := range node.After {
				before[needed] = before[needed] || before[node.ID]
				after[node.ID] = after[node.ID] || after[needed]
			}
		}
	}
	for id, is := range after {
		before[id] = before[id] || is
	}
	return before
}

// modelRelease is a release that a model had, or has, at a target.
type modelRelease struct {
	Target  string `json:"target"`
	Release string `json:"release"`
	// Variant of the model that was released, if it is not the model itself.
	Variant string `json:"variant,omitempty"`
	Run     string `json:"run"`
	Step    string `json:"step"`
	// Decision is how its rollout ended: promoted or rolled_back; empty for one that has not ended.
	Decision string    `json:"decision,omitempty"`
	Reason   string    `json:"reason,omitempty"`
	At       time.Time `json:"at,omitzero"`
	// Synthetic says that rows of a dataset were replayed to decide it.
	Synthetic bool `json:"synthetic,omitempty"`
	// Weight is its share of the traffic now.
	Weight float64 `json:"weight"`
}

// name is the release, with the variant that it released.
func (r modelRelease) name() string {
	if r.Variant == "" {
		return r.Release
	}
	return r.Release + " (" + r.Variant + ")"
}

// modelReleases are the releases of a model and of its variants at all targets, oldest first.
func modelReleases(ctx context.Context, s *store.Store, digest string) ([]modelRelease, error) {
	targets, err := routing.Targets(ctx, s)
	if err != nil {
		return nil, err
	}
	all := []modelRelease{}
	for _, target := range targets {
		releases, err := routing.Releases(ctx, s, target)
		if err != nil {
			return nil, err
		}
		for _, r := range releases {
			var source, variant string
			if r.Model.Digest != digest {
				if source, variant, err = sourceOf(ctx, s, r.Model); err != nil {
					return nil, err
				}
			}
			if r.Model.Digest == digest || source == digest {
				all = append(all, modelRelease{
					Target: target, Release: r.Version, Variant: variant, Run: r.Run, Step: r.Step, Decision: r.End.Decision, Reason: r.End.Reason, At: r.End.At, Synthetic: r.End.Synthetic, Weight: r.Weight,
				})
			}
		}
	}
	return all, nil
}
