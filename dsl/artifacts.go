package dsl

import (
	"encoding/json"

	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/internal/artifact"
)

// Artifacts are those among the outputs of a step, or of an instance of one, that other steps can be given. What the outputs merely
// tell of, such as the checkpoints that the generations of a training resumed from, is none of them.
func (p *Program) Artifacts(id string, outputs json.RawMessage) []artifact.Ref {
	return p.ts.Artifacts(expr.ObjectNamed("steps."+id), outputs)
}
