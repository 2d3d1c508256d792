package dsl

import (
	"fmt"
	"slices"

	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/dsl/transform"
)

// hashKeys are the secrets that the cleanings of a pipeline, and of its children, make hashes with.
type hashKeys struct {
	secrets []string       // by name
	params  map[string]any // those of the pipeline's parameters that name more of them, each with its default
	open    bool           // there may be others, which only the run of a child can tell
}

func (c *checker) hashKeys() hashKeys {
	all := hashKeys{params: map[string]any{}}
	for _, s := range c.steps {
		switch spec := s.known.(type) {
		case *spec.Clean:
			c.addHashKeys(&all, s, spec)
		case *spec.ChildPipeline:
			params := expr.Under(s.spec, "params")
			given := make(map[string]any, len(params.Keys))
			for i, name := range params.Keys {
				given[name] = expr.Known(params.Values[i])
			}
			secrets, open := c.hashKeysOf(s).given(given)
			all.secrets, all.open = append(all.secrets, secrets...), all.open || open
		}
	}
	return all
}

// addHashKeys adds what one cleaning hashes with. The name of a secret is written out or comes from a parameter: see checkSecrets.
func (c *checker) addHashKeys(all *hashKeys, s *step, spec *spec.Clean) {
	variables, err := transform.HashKeys(spec)
	if err != nil {
		all.open = true // reported, or told by the cleaning itself
		return
	}
	named, _ := s.secrets.(expr.Mapping)
	for _, variable := range variables {
		switch v := named.Get(variable).(type) {
		case expr.Literal:
			all.secrets = append(all.secrets, fmt.Sprint(v.Value))
		case expr.Computed:
			for _, name := range v.Expr.Params(c.pipeline.Params) {
				all.params[name] = c.pipeline.Params[name].Default
			}
		}
	}
}

// hashKeysOf are those of the child that a step runs.
func (c *checker) hashKeysOf(s *step) hashKeys {
	if child := c.compiled[s]; child != nil {
		return child.hashKeys
	}
	return hashKeys{open: true}
}

// childHashKeys are those of the children, by the steps that run them.
func (c *checker) childHashKeys() map[string]hashKeys {
	all := map[string]hashKeys{}
	for _, s := range c.steps {
		if isA[*spec.ChildPipeline](s) {
			all[s.ID] = c.hashKeysOf(s)
		}
	}
	return all
}

// given are the secrets of a pipeline that is given parameters. One whose value is no text names a secret that is not known.
func (k hashKeys) given(params map[string]any) (secrets []string, open bool) {
	secrets, open = slices.Clone(k.secrets), k.open
	for param, value := range k.params {
		if v, ok := params[param]; ok {
			value = v
		}
		if name, ok := value.(string); ok {
			secrets = append(secrets, name)
		} else {
			open = true
		}
	}
	slices.Sort(secrets)
	return slices.Compact(secrets), open
}

// ChildHashKeys returns, sorted, the names of the secrets with which the cleanings of a child pipeline, and of its children, make hashes
// when a step of this pipeline runs it with params. open is true if there may be others, which only the child's run can tell.
func (p *Program) ChildHashKeys(id string, params map[string]any) (secrets []string, open bool) {
	return p.hashKeys[id].given(params)
}
