package record

import (
	"context"
	"encoding/json"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store"
)

// OnPool reports whether nodes of pools do a step that is no training.
func (in StepInput) OnPool() bool { return onPool[in.Kind] != nil }

// BySluice reports whether the program sluice does the step on a node of a pool, and not one of the user's. What it makes there is taken
// over beside the worker.
func (in StepInput) BySluice() bool { return in.Kind == spec.KindCompile || in.Kind == spec.KindClean }

// onPool loads what stands for a training of a step of another kind.
var onPool = map[spec.Kind]func(context.Context, *store.Store, StepInput) (spec.Train, error){
	spec.KindRun:      trainingOf[spec.Run],
	spec.KindEvaluate: trainingOf[spec.Evaluate],
	spec.KindCompile:  trainingOf[spec.CompileModel],
	spec.KindClean:    trainingOf[spec.Clean],
}

// LoadTraining is LoadSpec of a step that nodes of a pool do: a training, or what stands for one of a step of another kind.
func LoadTraining(ctx context.Context, s *store.Store, in StepInput) (spec.Train, error) {
	if load := onPool[in.Kind]; load != nil {
		return load(ctx, s, in)
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
