package record

import (
	"context"
	"encoding/json"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store"
)

// OnPool reports whether nodes of pools do a step that is no training.
func (in StepInput) OnPool() bool {
	return in.Kind == spec.KindRun || in.Kind == spec.KindEvaluate || in.Kind == spec.KindCompile
}

// Compiles reports whether the step is a compilation. What nodes build for one is judged beside the worker.
func (in StepInput) Compiles() bool { return in.Kind == spec.KindCompile }

// LoadTraining is LoadSpec of a step that nodes of a pool do: a training, or what stands for one of a step of another kind.
func LoadTraining(ctx context.Context, s *store.Store, in StepInput) (spec.Train, error) {
	if in.Kind == spec.KindRun {
		return trainingOf[spec.Run](ctx, s, in)
	}
	if in.Kind == spec.KindEvaluate {
		return trainingOf[spec.Evaluate](ctx, s, in)
	}
	if in.Compiles() {
		return trainingOf[spec.CompileModel](ctx, s, in)
	}
	return LoadSpec[spec.Train](ctx, s, in)
}

func trainingOf[S any, P interface {
	*S
	Train() spec.Train
}](ctx context.Context, s *store.Store, in StepInput) (spec.Train, error) {
	resolved, err := LoadSpec[S](ctx, s, in)
	return P(&resolved).Train(), err
}

// Trained is what nodes of pools did for the step, a spec.TrainOutput; nil where none did anything.
func (s StepRecord) Trained() json.RawMessage {
	if s.Kind == spec.KindTrain {
		return s.Outputs
	}
	return s.Account
}
