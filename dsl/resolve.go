package dsl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Resolved is what a step is to do, now that what it waits for has ended.
type Resolved struct {
	// Run is false when the step's `when` is.
	Run bool
	// Spec is the JSON of the kind's spec struct, for DecodeSpec.
	Spec json.RawMessage
	// Env are the step's environment variables.
	Env map[string]string
	// Secrets are the environment variables that hold secrets: the name of the secret for each.
	Secrets map[string]string
	// Summary is the step's own line about itself.
	Summary string
	// Values are what `when` read, for people.
	Values map[string]any
	// Cache says whether an earlier run's outputs will do.
	Cache Cache
	// Files are the workspace files in the cache key; none: all of them.
	Files []string
	// Programs reports whether a cleaning runs programs of the user's.
	Programs bool
	// Params are the parameters that a cleaning's expressions over rows read, as JSON with their types. All others are in Spec already.
	Params map[string]string
}

// Resolve evaluates a step's `when`, and then the expressions in its spec and environment. Only the steps these name are read. Of a
// step that fans out, `when` is evaluated without an instance and the rest with one.
func (p *Program) Resolve(id string, v Vars) (Resolved, error) {
	s, err := p.step(id)
	if err != nil {
		return Resolved{}, err
	}
	names := p.names(s, v)
	out := Resolved{Run: true, Cache: s.Cache}
	if v.Instance == nil {
		if out.Run, out.Values, err = s.judgeWhen(names); err != nil {
			return Resolved{}, err
		}
		if !out.Run || s.fan != FanNone {
			return out, nil
		}
	}
	if err := p.resolveSpec(s, names, &out); err != nil {
		return Resolved{}, fmt.Errorf("step `%s`: %w", id, err)
	}
	return out, nil
}

func (p *Program) resolveSpec(s *step, names *names, out *Resolved) error {
	data, err := s.spec.resolve(names)
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
		line, err := s.summary.resolve(names)
		if err != nil {
			return fmt.Errorf("summary: %w", err)
		}
		out.Summary = strings.Join(strings.Fields(fmt.Sprint(line)), " ")
	}
	if command, ok := s.known.(interface{ WorkspaceFiles() []string }); ok {
		out.Files = p.WithIncluded(command.WorkspaceFiles())
	}
	if s.Kind == KindPipeline {
		out.Files = p.childFiles[s.ID]
	}
	if s.Kind == KindClean {
		if out.Params, err = p.rowParams(s, names.vars.Params); err != nil {
			return err
		}
		return out.cleanFiles()
	}
	return nil
}

// rowParams are those of the parameters given that a step's expressions over rows read, each with its type.
func (p *Program) rowParams(s *step, given map[string]any) (map[string]string, error) {
	read := map[string]string{}
	for _, e := range s.exprs {
		if e.scope != scopeRow {
			continue
		}
		for _, name := range e.paramsRead(p.params) {
			decl := p.params[name]
			raw, err := encode([]any{decl.Type, decl.Items, given[name]})
			if err != nil {
				return nil, fmt.Errorf("the parameter `%s`: %w", name, err)
			}
			read[name] = string(raw)
		}
	}
	return read, nil
}

// cleanFiles notes what the programs in a cleaning depend on.
func (r *Resolved) cleanFiles() error {
	var spec Clean
	if err := json.Unmarshal(r.Spec, &spec); err != nil {
		return err
	}
	programs, err := Execs(&spec)
	r.Programs, r.Files = len(programs) > 0, ProgramFiles(programs)
	return err
}

// finish turns resolved data into the JSON of the spec struct, with defaults and what the environment says, and checks the values
// that only now are known.
func (p *Program) finish(s *step, data any) (json.RawMessage, error) {
	spec := kindByName(string(s.Kind)).new()
	if err := fill(spec, data); err != nil {
		return nil, err
	}
	setDefaults(reflect.ValueOf(spec))
	switch spec := spec.(type) {
	case *Train:
		spec.complete(p.env)
	case *ChildPipeline:
		if err := completeChild(spec, s); err != nil {
			return nil, err
		}
	}
	if err := checkBounds(reflect.ValueOf(spec), ""); err != nil {
		return nil, err
	}
	if program, ok := spec.(interface{ CheckProgram() error }); ok {
		if err := program.CheckProgram(); err != nil {
			return nil, err
		}
	}
	return encode(spec)
}

// encode writes JSON without escaping <, > and &: commands and patterns stay readable in history.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

func resolveTexts(texts value, names *names) (map[string]string, error) {
	vars, ok := texts.(entries)
	if !ok {
		return nil, nil
	}
	out := make(map[string]string, len(vars.keys))
	for i, key := range vars.keys {
		v, err := vars.values[i].resolve(names)
		if err != nil {
			return nil, err
		}
		out[key] = fmt.Sprint(v)
	}
	return out, nil
}

// checkBounds checks enums, minima and maxima of a resolved spec: a value that came from an expression was not seen at load.
func checkBounds(v reflect.Value, path string) error {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return checkBounds(v.Elem(), path)
		}
	case reflect.Slice:
		for i := range v.Len() {
			if v.Index(i).Kind() == reflect.Struct {
				if err := checkBounds(v.Index(i), fmt.Sprintf("%s[%d]", path, i)); err != nil {
					return err
				}
			}
		}
	case reflect.Struct:
		for _, f := range fieldsOf(v.Type()) {
			value := v.FieldByIndex(f.index)
			if err := checkBound(value, f); err != nil {
				return fmt.Errorf("%s: %w", path+f.name, err)
			}
			if err := checkBounds(value, path+f.name+"."); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkBound(v reflect.Value, f field) error {
	if v.IsZero() && !f.required {
		return nil
	}
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	var x float64
	switch v.Kind() {
	case reflect.Int, reflect.Int64:
		x = float64(v.Int())
	case reflect.Float64:
		x = v.Float()
	case reflect.String:
		if len(f.rules.enum) > 0 && !slices.Contains(f.rules.enum, v.String()) {
			return fmt.Errorf("%q is not one of %v", v.String(), f.rules.enum)
		}
		return nil
	default:
		return nil
	}
	if f.rules.min != nil && x < *f.rules.min || f.rules.max != nil && x > *f.rules.max {
		return fmt.Errorf("%s is out of range", formatDouble(x))
	}
	return nil
}

// Outputs evaluates the pipeline's outputs. Those that cannot be, such as outputs of a step that did not pass, are left out, and
// the error says why.
func (p *Program) Outputs(v Vars) (map[string]any, error) {
	names := p.names(nil, v)
	out := make(map[string]any, len(p.outputs.keys))
	var failed []error
	for i, key := range p.outputs.keys {
		value, err := p.outputs.values[i].resolve(names)
		if err != nil {
			failed = append(failed, fmt.Errorf("output `%s`: %w", key, err))
			continue
		}
		out[key] = value
	}
	return out, errors.Join(failed...)
}
