package dsl

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/internal/artifact"
)

const schemaFile = "schema.json"

// TestSchema keeps schema.json (JSON Schema, draft 2020-12) what the spec structs say.
func TestSchema(t *testing.T) {
	s := &schemaWriter{comments: comments(t), examples: keyExamples(t), defs: map[string]any{}}
	root := map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"title":   "Sluice pipelines and environments",
		"if":      map[string]any{"properties": map[string]any{"sluice": map[string]any{"const": "environment/v1"}}, "required": []string{"sluice"}},
		"then":    s.of(reflect.TypeFor[spec.Environment](), spec.Rules{}, true),
		"else":    s.of(reflect.TypeFor[spec.Pipeline](), spec.Rules{}, false),
		"$defs":   s.defs,
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(root); err != nil {
		t.Fatal(err)
	}
	generated(t, schemaFile, b.Bytes())
}

// generated compares a generated file with what is in the repository; -update writes it.
func generated(t *testing.T, path string, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is stale (%v): run `make generate`", path, err)
	}
}

type schemaWriter struct {
	comments map[string]string
	examples map[string]example
	defs     map[string]any
}

// Types that may be written in more than one way, and are not known by a name in the compiler.
var (
	refType          = reflect.TypeFor[artifact.Ref]()
	rawType          = reflect.TypeFor[json.RawMessage]()
	transformType    = reflect.TypeFor[spec.Transform]()
	inputsType       = reflect.TypeFor[spec.TransformInputs]()
	groupOutputsType = reflect.TypeFor[spec.GroupOutputs]()
	aggregatesType   = reflect.TypeFor[map[string]transform.Aggregate]()
)

var expressionSchema = map[string]any{"type": "string", "pattern": `\$\{`}

// of is the schema of a value; fixed means that no ${} may stand in it.
func (s *schemaWriter) of(t reflect.Type, r spec.Rules, fixed bool) any {
	fixed = (fixed || r.Literal) && t != refType
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case stepsType:
		return map[string]any{"type": "object", "minProperties": 1, "propertyNames": nameSchema, "additionalProperties": s.step()}
	case gateType:
		gate := map[string]any{"anyOf": []any{map[string]any{"type": []string{"string", "boolean"}}, s.structure(reflect.TypeFor[spec.Gate](), true)}}
		return map[string]any{"anyOf": []any{gate, map[string]any{"type": "array", "items": gate}}}
	case needsType:
		words := map[string]any{"enum": r.Enum}
		return map[string]any{"anyOf": []any{
			map[string]any{"type": "array", "items": map[string]any{"type": "string"}, "uniqueItems": true},
			map[string]any{"type": "string"},
			map[string]any{"type": "object", "additionalProperties": words},
		}}
	case groupOutputsType:
		name := map[string]any{"type": "string"}
		return map[string]any{"anyOf": []any{name, map[string]any{"type": "object", "additionalProperties": name}}}
	case aggregatesType:
		fn := s.of(reflect.TypeFor[string](), spec.Rules{Enum: spec.KeysOf(reflect.TypeFor[transform.Aggregate]())[1].Rules.Enum}, fixed)
		short := map[string]any{"type": "object", "properties": map[string]any{"type": fn}, "required": []string{"type"}, "additionalProperties": false}
		s.structure(t.Elem(), fixed)
		whole := s.defs["Aggregate"].(map[string]any)["properties"].(map[string]any)["fn"].(map[string]any)
		delete(whole, "enum")
		whole["anyOf"] = []any{fn, short}
		return map[string]any{"type": "object", "additionalProperties": map[string]any{"anyOf": []any{fn, short, s.structure(t.Elem(), fixed)}}}
	case inputsType:
		name := map[string]any{"type": "string"}
		return map[string]any{"anyOf": []any{
			name,
			map[string]any{"type": "array", "items": name},
			map[string]any{"type": "object", "additionalProperties": name},
		}}
	case cacheType:
		return map[string]any{"anyOf": []any{map[string]any{"type": "boolean"}, s.structure(t, true)}}
	case matrixType:
		return s.matrix()
	case defaultsType:
		return s.defaults()
	case filesType:
		return map[string]any{"anyOf": []any{map[string]any{"type": "array", "items": map[string]any{"type": "string"}}, map[string]any{"const": "none"}}}
	case nodesType:
		return map[string]any{"anyOf": []any{s.of(reflect.TypeFor[int](), spec.Rules{Min: new(1.0)}, fixed), s.structure(t, fixed)}}
	case transformType:
		return s.transform()
	case spec.ExprType:
		return map[string]any{"type": []string{"string", "boolean"}}
	case refType:
		return expressionSchema
	case rawType:
		return true
	case spec.TimeType:
		return map[string]any{"type": "string", "format": "date-time"}
	}
	switch t.Kind() {
	case reflect.Interface:
		return true
	case reflect.Struct:
		return s.structure(t, fixed)
	case reflect.Map:
		item := r
		item.Names, item.Labels, item.Metrics = false, false, false
		m := map[string]any{"type": "object", "additionalProperties": s.of(t.Elem(), item, fixed)}
		if r.Labels {
			m["propertyNames"] = labelSchema
		}
		if r.Names {
			m["propertyNames"] = nameSchema
		}
		return s.orExpression(m, fixed)
	case reflect.Slice:
		item := r
		item.Names, item.Labels, item.Metrics = false, false, false
		list := map[string]any{"type": "array", "items": s.of(t.Elem(), item, fixed)}
		if r.Single {
			return s.orExpression(map[string]any{"anyOf": []any{list["items"], list}}, fixed)
		}
		return s.orExpression(list, fixed)
	}
	return s.scalar(t, r, fixed)
}

var labelSchema = map[string]any{"pattern": "^[a-z][a-z0-9_-]*$"}

var nameSchema = map[string]any{"pattern": "^[a-z][a-z0-9_]*$"}

const percentForm = `^[0-9.]+ *%$`

func (s *schemaWriter) scalar(t reflect.Type, r spec.Rules, fixed bool) any {
	m := map[string]any{}
	switch {
	case t == spec.DurationType:
		m["type"], m["pattern"] = "string", `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	case t == spec.ShareType:
		m["anyOf"] = []any{map[string]any{"type": "number", "minimum": 0, "exclusiveMaximum": 1}, map[string]any{"type": "string", "pattern": percentForm}}
	case t == spec.SizeType:
		m["anyOf"] = []any{map[string]any{"type": "integer"}, map[string]any{"type": "string", "pattern": spec.SizeForm.String()}}
	case len(r.Enum) > 0:
		m["enum"] = r.Enum
	case t.Kind() == reflect.String:
		return map[string]any{"type": []string{"string", "number", "boolean"}}
	case t.Kind() == reflect.Bool:
		m["type"] = "boolean"
	case t.Kind() == reflect.Int || t.Kind() == reflect.Int64:
		m["type"] = "integer"
	default:
		m["type"] = "number"
	}
	if r.Min != nil {
		m["minimum"] = *r.Min
	}
	if r.Max != nil {
		m["maximum"] = *r.Max
	}
	return s.orExpression(m, fixed)
}

func (s *schemaWriter) orExpression(m map[string]any, fixed bool) any {
	if fixed {
		return m
	}
	return map[string]any{"anyOf": []any{m, expressionSchema}}
}

// structure defines a struct once and refers to it.
func (s *schemaWriter) structure(t reflect.Type, fixed bool) any {
	name := t.Name()
	ref := map[string]any{"$ref": "#/$defs/" + name}
	if _, ok := s.defs[name]; ok {
		return ref
	}
	s.defs[name] = nil // a struct may hold itself
	properties, required := s.properties(t, fixed)
	def := map[string]any{"type": "object", "description": s.comments[name], "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		def["required"] = required
	}
	var one []any
	for _, key := range spec.Choices(t) {
		one = append(one, map[string]any{"required": []string{key}})
	}
	if len(one) > 0 {
		def["oneOf"] = one
	}
	if t == reflect.TypeFor[spec.Run]() {
		def["not"] = map[string]any{"required": []string{"command", "script"}}
	}
	s.defs[name] = def
	return ref
}

func (s *schemaWriter) properties(t reflect.Type, fixed bool) (properties map[string]any, required []string) {
	properties = map[string]any{}
	for _, f := range spec.KeysOf(t) {
		p := map[string]any{"description": s.comments[goName(t, f)], "examples": []any{s.examples[goName(t, f)].value}}
		if f.Rules.Default != "" {
			p["default"] = f.Rules.Default
		}
		if inner, ok := s.of(f.Type, f.Rules, fixed).(map[string]any); ok {
			maps.Copy(p, inner)
		}
		properties[f.Name] = p
		if f.Required {
			required = append(required, f.Name)
		}
	}
	return properties, required
}

// goName is the name a field's comment is found under: the struct it is declared in may be embedded.
func goName(t reflect.Type, f spec.Key) string {
	for _, i := range f.Index[:len(f.Index)-1] {
		t = t.Field(i).Type
	}
	return t.Name() + "." + t.Field(f.Index[len(f.Index)-1]).Name
}

// step is the envelope with exactly one kind.
func (s *schemaWriter) step() any {
	properties, _ := s.properties(reflect.TypeFor[spec.Envelope](), false)
	var one []any
	for _, k := range kinds {
		properties[string(k.kind)] = s.of(reflect.TypeOf(k.new()).Elem(), spec.Rules{}, false)
		one = append(one, map[string]any{"required": []string{string(k.kind)}})
	}
	s.defs["Step"] = map[string]any{
		"type": "object", "description": s.comments["Step"], "properties": properties, "additionalProperties": false, "oneOf": one,
	}
	return map[string]any{"$ref": "#/$defs/Step"}
}

// matrix is a list, or an expression, for each axis.
func (s *schemaWriter) matrix() any {
	mappings := map[string]any{"type": "array", "items": map[string]any{"type": "object"}}
	s.defs["Matrix"] = map[string]any{
		"type": "object", "description": s.comments["Matrix"], "minProperties": 1, "propertyNames": nameSchema,
		"properties":           map[string]any{"include": mappings, "exclude": mappings},
		"additionalProperties": map[string]any{"anyOf": []any{map[string]any{"type": "array", "minItems": 1}, expressionSchema}},
	}
	return map[string]any{"$ref": "#/$defs/Matrix"}
}

// defaults has the keys of steps and of kinds, none of which must be there.
func (s *schemaWriter) defaults() any {
	part := func(t reflect.Type) any {
		properties, _ := s.properties(t, false)
		return map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	}
	properties := map[string]any{"step": part(reflect.TypeFor[spec.Envelope]())}
	for _, k := range kinds {
		properties[string(k.kind)] = part(reflect.TypeOf(k.new()).Elem())
	}
	s.defs["Defaults"] = map[string]any{
		"type": "object", "description": s.comments["Defaults"], "properties": properties, "additionalProperties": false,
	}
	return map[string]any{"$ref": "#/$defs/Defaults"}
}

// transform ties the shape of `config` to `type`.
func (s *schemaWriter) transform() any {
	if _, ok := s.defs["Transform"]; ok { // a group holds transforms
		return map[string]any{"$ref": "#/$defs/Transform"}
	}
	s.structure(transformType, true)
	def := s.defs["Transform"].(map[string]any)
	types := transform.Types()
	var cases []any
	for _, typ := range types {
		cases = append(cases, map[string]any{
			"if":   map[string]any{"properties": map[string]any{"type": map[string]any{"const": typ}}},
			"then": map[string]any{"properties": map[string]any{"config": s.structure(reflect.TypeOf(transform.Config(typ)), false)}},
		})
	}
	def["allOf"] = cases
	types = append(types, "chain", "composite")
	def["properties"].(map[string]any)["type"] = map[string]any{"enum": types, "description": s.comments["Transform.Type"]}
	return map[string]any{"$ref": "#/$defs/Transform"}
}

// TestSchemaAgreesWithLint asks a validator: what the linter accepts the schema accepts, and what is wrong in form it refuses.
func TestSchemaAgreesWithLint(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	good := goodDocuments(t)
	fannedOut, err := txtar.ParseFile("testdata/lint/fanned_out.txtar")
	if err != nil {
		t.Fatal(err)
	}
	good["fanned_out"] = archive{fannedOut}.file("pipeline.yaml")
	for path, data := range good {
		if err := validate(schema, data); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, name := range []string{
		"unknown_key", "unknown_kind", "no_kind", "two_kinds", "foreign_words", "duration", "size", "share", "types", "step_id", "steps_list",
		"required", "on_fail", "not_yet", "null", "outputs", "transform", "variant", "output_name",
		"matrix", "repeat", "instances", "cache", "hold", "params", "defaults", "defaults_form",
	} {
		a, err := txtar.ParseFile(filepath.Join("testdata/lint", name+".txtar"))
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(schema, archive{a}.file("pipeline.yaml")); err == nil {
			t.Errorf("%s: the schema accepts it", name)
		}
	}
}

// TestSchemaChoices: of keys that exclude each other the schema takes one, as the linter does.
func TestSchemaChoices(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	pipeline := func(text string) string {
		return "sluice: pipeline/v1\nname: p\nsteps: {a: {run: {command: [ls]}}}\n" + text
	}
	environment := func(text string) string { return "sluice: environment/v1\nname: e\n" + text }
	for _, c := range []struct{ one, both, none string }{
		{"triggers: {t: {schedule: {every: 1h}}}", "triggers: {t: {schedule: {every: 1h, cron: '0 1 * * *'}}}", "triggers: {t: {schedule: {}}}"},
		{"triggers: {t: {pipeline: {name: q}}}", "triggers: {t: {pipeline: {name: q}, schedule: {every: 1h}}}", "triggers: {t: {params: {a: b}}}"},
		{"notify: {n: {slack: {url: 'https://x'}}}", "notify: {n: {slack: {url: 'https://x', url_secret: s}}}", "notify: {n: {slack: {}}}"},
		{"notify: {n: {email: {to: a@b}}}", "notify: {n: {email: {to: a@b}, webhook: {url: 'https://x'}}}", "notify: {n: {on: fail}}"},
	} {
		for text, ok := range map[string]bool{c.one: true, c.both: false, c.none: false} {
			if err := validate(schema, []byte(pipeline(text))); (err == nil) != ok {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
	for _, c := range []struct{ one, both, none string }{
		{"pools: {p: {local: {nodes: 2}}}", "pools: {p: {local: {nodes: 2}, kubernetes: {}}}", "pools: {p: {capacity: spot}}"},
		{"targets: {t: {embedded: {port: 1}}}", "targets: {t: {embedded: {port: 1}, kserve: {}}}", "targets: {t: {}}"},
		{"secrets: {s: {env: A}}", "secrets: {s: {env: A, file: b}}", "secrets: {s: {}}"},
		{"people: {'group:x': {users: a}}", "people: {'group:x': {users: a, oidc: b}}", "people: {'group:x': {}}"},
	} {
		for text, ok := range map[string]bool{c.one: true, c.both: false, c.none: false} {
			if err := validate(schema, []byte(environment(text))); (err == nil) != ok {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
	for text, ok := range map[string]bool{
		"{run: {script: ls}}": true, "{run: {script: ls, command: [ls]}}": false,
		"{pipeline: {file: a.yaml}}": true, "{pipeline: {file: a.yaml, steps: {b: {run: {script: ls}}}}}": false, "{pipeline: {params: {a: 1}}}": false,
	} {
		if err := validate(schema, []byte("sluice: pipeline/v1\nname: p\nsteps: {a: "+text+"}\n")); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// goodDocuments are the sound pipelines and environments of the repository.
func goodDocuments(t *testing.T) map[string][]byte {
	t.Helper()
	docs := map[string][]byte{}
	for _, pattern := range []string{"../examples/*/*.yaml", "testdata/examples/*.yaml"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(paths), err)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(data, []byte("sluice: ")) {
				docs[path] = data
			}
		}
	}
	return docs
}

func validate(schema *jsonschema.Schema, data []byte) error {
	var v any
	if err := yaml.Unmarshal(data, &v); err != nil {
		return err
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	instance, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
	if err != nil {
		return err
	}
	return schema.Validate(instance)
}
