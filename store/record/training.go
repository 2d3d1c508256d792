package record

import (
	"context"
	"encoding/json"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store"
)

// OnPool reports whether the step is of a kind that nodes of a pool can run, other than a training.
func (in StepInput) OnPool() bool { return onPool[in.Kind] != nil }

// BySluice reports whether on a node of a pool the program sluice itself does the step, and not a program of the user. The worker takes
// over what it has made.
func (in StepInput) BySluice() bool { return in.Kind == spec.KindCompile || in.Kind == spec.KindClean }

// onPool loads a step of another kind as the training that stands for it.
var onPool = map[spec.Kind]func(context.Context, *store.Store, StepInput) (spec.Train, error){
	spec.KindRun:      trainingOf[spec.Run],
	spec.KindEvaluate: trainingOf[spec.Evaluate],
	spec.KindCompile:  trainingOf[spec.CompileModel],
	spec.KindClean:    trainingOf[spec.Clean],
}

// LoadTraining is LoadSpec for a step that nodes of a pool run: a training, or the training that stands for a step of another kind.
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

// Trained returns what nodes of pools did for the step, a spec.TrainOutput. It is nil if they did nothing.
func (s StepRecord) Trained() json.RawMessage {
	if s.Kind == spec.KindTrain {
		return s.Outputs
	}
	return s.Account
}
