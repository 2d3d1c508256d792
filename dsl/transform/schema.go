package transform

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/sluiceml/sluice/dsl/document"
)

// RowSchema is a compiled JSON Schema of rows. It may be used from several goroutines.
type RowSchema struct{ schema *jsonschema.Schema }

// CompileRowSchema compiles a JSON Schema, which must hold all that it refers to.
func CompileRowSchema(raw json.RawMessage) (*RowSchema, error) {
	const self = "mem:row-schema"
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(noLoader{})
	compiler.AssertFormat()
	if err := compiler.AddResource(self, doc); err != nil {
		return nil, err
	}
	schema, err := compiler.Compile(self)
	var bad *jsonschema.SchemaValidationError
	var unlike *jsonschema.ValidationError
	var elsewhere *jsonschema.LoadURLError
	switch {
	case err == nil:
		return &RowSchema{schema}, nil
	case errors.As(err, &bad) && errors.As(bad.Err, &unlike):
		return nil, fmt.Errorf("this is not a valid JSON Schema: %s", causes(unlike))
	case errors.As(err, &elsewhere):
		return nil, fmt.Errorf("%s is another document; the schema must contain everything that it refers to", elsewhere.URL)
	}
	return nil, errors.New(strings.ReplaceAll(err.Error(), self+"#", ""))
}

// noLoader refuses references to other documents: a cleaning depends on its spec and its input alone.
type noLoader struct{}

func (noLoader) Load(string) (any, error) { return nil, errors.New("it is another document") }

// RowSchemaError says where a row differs from a schema: `at "/text": minLength: got 3, want 10`.
type RowSchemaError struct{ causes string }

func (e *RowSchemaError) Error() string { return e.causes }

// Check returns a *RowSchemaError for a row that the schema does not accept.
func (s *RowSchema) Check(row map[string]any) error {
	err := s.schema.Validate(row)
	if unlike, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		return &RowSchemaError{causes(unlike)}
	}
	return err
}

// causes lists where a value differs from the schema, each as deep as it can be said.
func causes(e *jsonschema.ValidationError) string {
	var list []string
	var visit func(*jsonschema.ValidationError)
	visit = func(e *jsonschema.ValidationError) {
		if len(e.Causes) == 0 {
			at := ""
			for _, token := range e.InstanceLocation {
				at += "/" + token
			}
			list = append(list, fmt.Sprintf("at %q: %s", at, e.ErrorKind.LocalizedString(english)))
		}
		for _, cause := range e.Causes {
			visit(cause)
		}
	}
	visit(e)
	return strings.Join(list, "; ")
}

var english = message.NewPrinter(language.English)

// ValidateWithSchema rejects the rows that a JSON Schema does not accept. It sees them as JSON has them, so that decimals, times, durations
// and bytes are strings.
type ValidateWithSchema struct {
	// Schema is a JSON Schema (draft 2020-12 unless it names another). It must be complete: external references are not loaded.
	Schema json.RawMessage `json:"schema"`
	ErrorKeys
}

// Check demands a JSON Schema.
func (ValidateWithSchema) Check(r document.Reporter, _ StepFacts, config *yaml.Node) {
	at := document.Lookup(config, "schema")
	if at == nil {
		return
	}
	var schema any
	if err := at.Decode(&schema); err != nil {
		return // reported where it stands
	}
	raw, err := json.Marshal(schema)
	if err == nil {
		_, err = CompileRowSchema(raw)
	}
	if err != nil {
		r.Errorf(at, "row-schema", "", "%s", err)
		return
	}
	others, properties := document.Lookup(at, "additionalProperties"), document.Lookup(at, "properties")
	if others == nil || others.Value != "false" || document.Lookup(at, "patternProperties") != nil || document.Lookup(at, "$ref") != nil {
		return
	}
	for n := range document.Scalars(document.Lookup(at, "required")) {
		if document.Lookup(properties, n.Value) == nil {
			r.Errorf(n, "row-schema", "add it to `properties`, or remove it here",
				"no row has this schema: `%s` is required, and `additionalProperties: false` allows only `properties`", n.Value)
		}
	}
}

// Shape implements Shaper. A JSON Schema may demand of each row properties of some types, and that there are no others.
func (ValidateWithSchema) Shape(in Shape, config *yaml.Node, _ ExprTypes) Shape {
	schema := document.Lookup(config, "schema")
	properties := document.Lookup(schema, "properties")
	if properties == nil || properties.Kind != yaml.MappingNode {
		return in
	}
	required := map[string]bool{}
	for n := range document.Scalars(document.Lookup(schema, "required")) {
		required[n.Value] = true
	}
	out := in
	if others := document.Lookup(schema, "additionalProperties"); others != nil && others.Value == "false" && document.Lookup(schema, "patternProperties") == nil {
		out = Shape{Fields: map[string]*cel.Type{}}
	}
	for key, property := range document.Entries(properties) {
		name, t := key.Value, in.typeOf(key.Value)
		switch {
		case t == nil: // no row can have it
			continue
		case t.Kind() == types.DynKind && required[name]:
			t = schemaType(property)
		}
		out = out.with(name, t)
	}
	return out
}

// CheckRows implements RowChecker: a property that a field is known not to be rejects every row.
func (ValidateWithSchema) CheckRows(r document.Reporter, in Shape, _, config *yaml.Node) {
	schema := document.Lookup(config, "schema")
	required := valuesBelow(document.Lookup(schema, "required"))
	for key, property := range document.Entries(schema, "properties") {
		got, typ := in.typeOf(key.Value), document.Lookup(property, "type")
		_, known := in.Fields[key.Value]
		if got == nil || typ == nil || typ.Kind != yaml.ScalarNode || !known && !slices.Contains(required, key.Value) {
			continue
		}
		if got.Kind() == types.StringKind && slices.Contains([]string{"integer", "number", "boolean", "array", "object"}, typ.Value) {
			r.Errorf(typ, "row-schema", "write `type: string`, or convert it before with MapToFields", "no row has this schema: `%s` is a string here", key.Value)
		}
	}
}

// schemaType is the type that a JSON Schema gives a value. A `number` may be an int or a double.
func schemaType(schema *yaml.Node) *cel.Type {
	switch document.TextAt(schema, "type") {
	case "string":
		return cel.StringType
	case "boolean":
		return cel.BoolType
	case "object":
		return cel.MapType(cel.StringType, cel.DynType)
	case "array":
		return cel.ListType(schemaType(document.Lookup(schema, "items")))
	}
	return cel.DynType
}
