package spec

import (
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/stepargs"
)

// CleanMade is the only output, and its folder, of a cleaning on a node of a pool: what it made.
const CleanMade = "made"

// Complete drops what does not apply.
func (spec *Clean) Complete() { spec.clear() }

// Train is the training of one node that cleans; it has pools. What its only output holds is taken apart beside the worker.
func (spec *Clean) Train() Train {
	return spec.train(Command{
		Command: stepargs.Command(stepargs.Clean, spec.Inputs), Inputs: spec.Inputs, Runtime: spec.Runtime,
		Outputs: map[string]OutputDecl{CleanMade: {Type: string(artifact.Dataset), Path: CleanMade}},
	}, nil)
}
