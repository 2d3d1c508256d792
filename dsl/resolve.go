package dsl

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/dsl/decode"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/dsl/transform"
)

// Resolved is a step that is ready to run, because the steps that it waits for have ended.
type Resolved struct {
	// Run is false if the step's `when` is false.
	Run bool
	// Spec is the JSON of the kind's spec struct, for spec.Decode.
	Spec json.RawMessage
	// Env are the step's environment variables.
	Env map[string]string
	// Secrets are the environment variables that hold secrets: the name of the secret for each.
	Secrets map[string]string
	// Summary is the step's own line about itself.
	Summary string
	// Cache says whether an earlier run's outputs may be reused.
	Cache spec.Cache
	// CacheGiven is set if the document sets `cache`, and it is not a default.
	CacheGiven bool
	// InPlace are the patterns of the files that a cleaning reads by their path, not from its inputs.
	InPlace []string
	// Files are the workspace files in the cache key; nil: all of them.
	Files []string
	// Programs reports whether a cleaning runs programs of the user's.
	Programs bool
	// Params are the parameters that the row expressions of a cleaning read, as JSON with their types. All others are already part of Spec.
	Params map[string]string
}

// Resolve evaluates a step's `when`, and then the expressions in its spec and environment. Only the steps that these name are read. For a
// step with instances, `when` is evaluated without an instance and the rest with one.
func (p *Program) Resolve(id string, v spec.Vars) (Resolved, error) {
	s, err := p.step(id)
	if err != nil {
		return Resolved{}, err
	}
	names := p.names(s, v)
	out := Resolved{Run: true, Cache: s.Cache, CacheGiven: document.Lookup(s.node, "cache") != nil}
	if v.Instance == nil {
		if out.Run, _, err = s.evaluateWhen(names); err != nil {
			return Resolved{}, err
		}
		if !out.Run || s.fan != spec.FanNone {
			return out, nil
		}
	}
	if err := p.resolveSpec(s, names, &out); err != nil {
		return Resolved{}, fmt.Errorf("step `%s`: %w", id, err)
	}
	return out, nil
}

func (p *Program) resolveSpec(s *step, names *names, out *Resolved) error {
	data, err := s.spec.Resolve(names)
	if err != nil {
		return err
	}
	if out.Spec, err = p.finish(s, data); err != nil {
		return err
	}
	if out.Env, err = resolveTexts(s.env, names); err != nil {
		return fmt.Errorf("env: %w", err)
	}
	if out.Secrets, err = resolveTexts(s.secrets, names); err != nil {
		return fmt.Errorf("secrets: %w", err)
	}
	if s.summary != nil {
		line, err := s.summary.Resolve(names)
		if err != nil {
			return fmt.Errorf("summary: %w", err)
		}
		out.Summary = strings.Join(strings.Fields(fmt.Sprint(line)), " ")
	}
	switch known := s.known.(type) {
	case interface{ WorkspaceFiles() []string }:
		out.Files = p.WithIncluded(known.WorkspaceFiles())
	case *spec.ChildPipeline:
		out.Files = p.childFiles[s.ID]
	case *spec.Clean:
		return p.completeClean(s, names.vars.Params, out)
	}
	return nil
}

// completeClean puts into the spec of a cleaning the parameters that it reads, and notes what else it depends on: files that it reads in place,
// and those of its programs. Nodes of a pool have no files but those of the step.
func (p *Program) completeClean(s *step, params map[string]any, out *Resolved) error {
	clean, err := spec.Decode[spec.Clean](out.Spec)
	if err != nil {
		return err
	}
	if clean.RowParams, err = p.rowParams(s, params); err != nil {
		return err
	}
	if out.Params, err = encodeRowParams(clean.RowParams); err != nil {
		return err
	}
	if out.Spec, err = spec.Encode(clean); err != nil {
		return err
	}
	if out.InPlace, err = transform.InPlace(&clean); err != nil {
		return err
	}
	programs, err := transform.Execs(&clean)
	if err != nil {
		return err
	}
	out.Programs, out.Files = len(programs) > 0, transform.ProgramFiles(programs)
	if !clean.OnPool() {
		return nil
	}
	if at := slices.IndexFunc(out.InPlace, notOnNodes); at >= 0 {
		return fmt.Errorf("%q: %s", out.InPlace[at], notOnNodesWhy)
	}
	if clean.Runtime.Python != "" {
		out.Files = append(out.Files, p.WithIncluded([]string{clean.Runtime.Python})...)
	}
	return nil
}

// rowParams returns the given parameters that the row expressions of a cleaning read.
func (p *Program) rowParams(s *step, given map[string]any) (map[string]spec.RowParam, error) {
	read := map[string]spec.RowParam{}
	for _, e := range s.exprs {
		if e.Scope != expr.ScopeRow {
			continue
		}
		for _, name := range e.Params(p.pipeline.Params) {
			decl := p.pipeline.Params[name]
			param := spec.RowParam{Type: decl.Type, Items: decl.Items}
			if v := given[name]; v != nil {
				var err error
				if param.Value, err = spec.Encode(v); err != nil {
					return nil, fmt.Errorf("the parameter `%s`: %w", name, err)
				}
			}
			read[name] = param
		}
	}
	return read, nil
}

func encodeRowParams(read map[string]spec.RowParam) (map[string]string, error) {
	encoded := make(map[string]string, len(read))
	for name, param := range read {
		raw, err := spec.Encode([]any{param.Type, param.Items, param.Value})
		if err != nil {
			return nil, fmt.Errorf("the parameter `%s`: %w", name, err)
		}
		encoded[name] = string(raw)
	}
	return encoded, nil
}

// finish turns resolved data into the JSON of the spec struct, with defaults and what the environment says, and checks the values
// that only now are known.
func (p *Program) finish(s *step, data any) (json.RawMessage, error) {
	sp := s.info().new()
	if err := spec.Fill(sp, data); err != nil {
		return nil, err
	}
	spec.SetDefaults(reflect.ValueOf(sp))
	switch spec := sp.(type) {
	case *spec.Train:
		spec.Complete(p.env)
	case interface{ Complete() }:
		spec.Complete()
	case *spec.ChildPipeline:
		if err := completeChild(spec, s); err != nil {
			return nil, err
		}
	}
	if err := decode.CheckBounds(reflect.ValueOf(sp), ""); err != nil {
		return nil, err
	}
	if sp, ok := sp.(interface{ Check() error }); ok {
		if err := sp.Check(); err != nil {
			return nil, err
		}
	}
	return spec.Encode(sp)
}

func resolveTexts(texts expr.Value, names *names) (map[string]string, error) {
	vars, ok := texts.(expr.Mapping)
	if !ok {
		return nil, nil
	}
	out := make(map[string]string, len(vars.Keys))
	for i, key := range vars.Keys {
		v, err := vars.Values[i].Resolve(names)
		if err != nil {
			return nil, err
		}
		out[key] = fmt.Sprint(v)
	}
	return out, nil
}

// Outputs evaluates the pipeline's outputs. Those that cannot be evaluated, such as outputs of a step that did not pass, are left out, and
// the error says why.
func (p *Program) Outputs(v spec.Vars) (map[string]any, error) {
	names := p.names(nil, v)
	out := make(map[string]any, len(p.outputs.Keys))
	var failed []error
	for i, key := range p.outputs.Keys {
		value, err := p.outputs.Values[i].Resolve(names)
		if err != nil {
			failed = append(failed, fmt.Errorf("output `%s`: %w", key, err))
			continue
		}
		out[key] = value
	}
	return out, errors.Join(failed...)
}
