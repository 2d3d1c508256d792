package dsl

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
)

// BlockStep is the id of the only step of a program from CompileBlock.
const BlockStep = "clean"

// CompileBlock is Compile for a file that contains only a cleaning: the keys of a clean step's block, and besides them `params`, `env` and
// `secrets`, as in a pipeline and its steps. Findings have positions in that file.
func CompileBlock(block document.File, env document.File, ws document.Workspace) (*Program, document.Diagnostics) {
	return compileRoot(block, env, ws, &loader{block: true})
}

// CompileAlone is Compile, or CompileBlock, for a file of which one cleaning runs by itself on this machine: the keys that concern a pool
// do not apply.
func CompileAlone(file, env document.File, ws document.Workspace, block bool) (*Program, document.Diagnostics) {
	return compileRoot(file, env, ws, &loader{block: block, alone: true})
}

// blockKeys are those that stand in a block and belong to the pipeline and the step around it.
var blockKeys = []string{"params", "env", "secrets"}

// blockPipeline makes the pipeline around a block, which has the name of its file where that can be one.
func blockPipeline(root *yaml.Node, file string) *yaml.Node {
	called := strings.TrimSuffix(path.Base(file), path.Ext(file))
	if !documentName.MatchString(called) {
		called = "block"
	}
	name := func(s string) *yaml.Node { return document.NewScalar(root, s) }
	pipeline := document.NewMapping(root, name("sluice"), name("pipeline/v1"), name("name"), name(called))
	body, step := root, document.NewMapping(root)
	if root.Kind == yaml.MappingNode {
		body = document.NewMapping(root)
		for i := 0; i+1 < len(root.Content); i += 2 {
			at := body
			switch root.Content[i].Value {
			case "params":
				at = pipeline
			case "env", "secrets":
				at = step
			}
			at.Content = append(at.Content, root.Content[i], root.Content[i+1])
		}
	}
	step.Content = append(step.Content, name(string(spec.KindClean)), body)
	pipeline.Content = append(pipeline.Content, name("steps"), document.NewMapping(root, name(BlockStep), step))
	return pipeline
}

// ResolveAlone is Resolve for a step whose pipeline does not run. The step can read the parameters, and the given artifacts as its inputs;
// outputs of other steps, runs and published versions are absent.
func (p *Program) ResolveAlone(id string, params map[string]any, inputs map[string]artifact.Ref) (Resolved, error) {
	s, err := p.step(id)
	if err != nil {
		return Resolved{}, err
	}
	if s.fan != spec.FanNone {
		return Resolved{}, fmt.Errorf("step `%s` has a `matrix`, a `foreach` or a `repeat`, and cannot be run by itself", id)
	}
	alone := *s
	if alone.spec, err = s.withInputs(inputs); err != nil {
		return Resolved{}, err
	}
	out := Resolved{Run: true}
	if err := p.resolveSpec(&alone, p.names(&alone, spec.Vars{Params: params}), &out); err != nil {
		return Resolved{}, fmt.Errorf("step `%s`, by itself: %w", id, err)
	}
	return out, nil
}

// withInputs is the step's spec with artifacts in the place of the expressions under `inputs`.
func (s *step) withInputs(given map[string]artifact.Ref) (expr.Value, error) {
	body, _ := s.spec.(expr.Mapping)
	wanted := expr.Under(body, "inputs")
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(wanted.Keys, name) {
			return nil, fmt.Errorf("step `%s` has no input `%s`", s.ID, name)
		}
	}
	filled := expr.Mapping{Keys: wanted.Keys}
	for _, name := range wanted.Keys {
		ref, ok := given[name]
		if !ok {
			return nil, fmt.Errorf("step `%s` needs a folder for its input `%s`", s.ID, name)
		}
		filled.Values = append(filled.Values, expr.Literal{Value: ref})
	}
	out := expr.Mapping{Keys: slices.Clone(body.Keys), Values: slices.Clone(body.Values)}
	for i, key := range out.Keys {
		if key == "inputs" {
			out.Values[i] = filled
		}
	}
	return out, nil
}
