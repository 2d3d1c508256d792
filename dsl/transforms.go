package dsl

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
)

// transformInfo is a line of the list of transforms: what the language knows of one beside the methods of its config.
type transformInfo struct {
	// config is one with nothing in it. For its methods see Checker, RowChecker, Shaper and Counter.
	config any
	// takes is what the fields hold that the config names.
	takes fieldValues
}

// fieldValues is what a transform works on.
type fieldValues int

const (
	anything fieldValues = iota
	takesTexts
	takesLists
)

// transforms are all that a clean step can have, by the types that documents have for them. No other code writes these types but
// pipelines/transform, which lists how rows are transformed. Types and keys are Beam YAML's where Beam YAML has them; expressions are CEL
// over `row` and `params`.
var transforms = map[string]transformInfo{
	"ReadFromJson":       {config: ReadFromJSON{}},
	"ReadFromText":       {config: ReadFromText{}},
	"ReadFromParquet":    {config: ReadFromParquet{}},
	"ReadFromAvro":       {config: ReadFromAvro{}},
	"ReadFromCsv":        {config: ReadFromCSV{}},
	"MapToFields":        {config: MapToFields{}},
	"AssertEqual":        {config: AssertEqual{}},
	"Explode":            {config: Explode{}, takes: takesLists},
	"Exec":               {config: Exec{}},
	"Combine":            {config: Combine{}},
	"Flatten":            {config: Flatten{}},
	"Partition":          {config: Partition{}},
	"Filter":             {config: Filter{}},
	"DecodeMail":         {config: DecodeMail{}, takes: takesTexts},
	"Decontaminate":      {config: Decontaminate{}, takes: takesTexts},
	"DetectLanguage":     {config: DetectLanguage{}, takes: takesTexts},
	"HtmlToText":         {config: HTMLToText{}, takes: takesTexts},
	"NormalizeText":      {config: NormalizeText{}, takes: takesTexts},
	"Deduplicate":        {config: Deduplicate{}},
	"MaskPII":            {config: MaskPII{}, takes: takesTexts},
	"ValidateWithSchema": {config: ValidateWithSchema{}},
	"Profile":            {config: ProfileRows{}},
	"QualityFilter":      {config: QualityFilter{}, takes: takesTexts},
	"Sample":             {config: Sample{}},
	"Split":              {config: Split{}},
	"WriteToCsv":         {config: WriteToCSV{}},
	"WriteToJson":        {config: WriteToJSON{}},
	"WriteToParquet":     {config: WriteToParquet{}},
	"WriteToText":        {config: WriteToText{}},
}

// TransformTypes are the types of transforms that there are, sorted.
func TransformTypes() []string { return slices.Sorted(maps.Keys(transforms)) }

// Config returns the config of a transform with nothing in it, or nil when there is no transform of that type.
func Config(typ string) any { return transforms[typ].config }

// Is reports whether C is the config of a transform of that type: Is[Exec](t.Type).
func Is[C any](typ string) bool {
	_, ok := Config(typ).(C)
	return ok
}

// TypeOf returns the type of the transform whose config is a C, as documents write it.
func TypeOf[C any]() string {
	for typ := range transforms {
		if Is[C](typ) {
			return typ
		}
	}
	var config C
	panic(fmt.Sprintf("dsl: %T is the config of no transform", config)) // a mistake in the code, found by any test
}

// IsReader reports whether a transform of that type reads files.
func IsReader(typ string) bool { return strings.HasPrefix(typ, "ReadFrom") }

// IsWriter reports whether a transform of that type writes files.
func IsWriter(typ string) bool { return strings.HasPrefix(typ, "WriteTo") }

// MapToFields computes fields. An expression that cannot be evaluated, such as one over a missing field, rejects the row.
type MapToFields struct {
	// Fields by name, each a CEL expression over the row as it came in.
	Fields map[string]spec.Expr `json:"fields,omitempty"`
	// Append keeps the row's other fields. Default: the row has the computed fields only.
	Append bool `json:"append,omitempty"`
	// Drop lists fields to leave out of those that `append` keeps.
	Drop []string `json:"drop,omitempty"`
	// Language of the expressions: cel.
	Language string `json:"language,omitempty" dsl:"enum=cel"`
	ErrorKeys
}

// Filter drops the rows its expression is false for. The transform's name is the rule they are counted under.
type Filter struct {
	// Keep is a bool CEL expression over the row.
	Keep spec.Expr `json:"keep" dsl:"bool"`
	// Language of the expression: cel.
	Language string `json:"language,omitempty" dsl:"enum=cel"`
	ErrorKeys
}

// Counts implements Counter.
func (Filter) Counts(to Counts, label string, _ *yaml.Node) { to.add("rules", label) }

// DecodeMail parses a raw e-mail message (RFC 5322, MIME) and sets the fields subject, from, date (RFC 3339 in UTC, null when
// unreadable), body and content_type (text/plain or text/html). Transfer encodings and charsets are decoded, broken ones as far
// as they can be. A message that cannot be parsed is rejected.
type DecodeMail struct {
	// Field holds the raw message. It is removed from the row.
	Field string `json:"field"`
	ErrorKeys
}

// HTMLToText replaces HTML by the text a reader would see in a browser: scripts, styles, templates, frames, text fields and what is for
// browsers without scripts are left out, each up to where a browser takes it to end.
type HTMLToText struct {
	// Fields to convert.
	Fields []string `json:"fields"`
	// When is a bool CEL expression over the row; rows it is false for stay as they are. Default: every row is converted.
	When spec.Expr `json:"when,omitempty" dsl:"bool"`
	ErrorKeys
}

// ValidateWithSchema rejects the rows that a JSON Schema does not accept.
type ValidateWithSchema struct {
	// Schema is a JSON Schema (draft 2020-12 unless it names another). It must be complete: nothing is loaded by reference.
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
	}
}

// Check demands that something is computed or kept.
func (MapToFields) Check(r document.Reporter, _ StepFacts, config *yaml.Node) {
	if keep := document.Lookup(config, "append"); keep != nil && keep.Value == "true" {
		return
	}
	fields := document.Lookup(config, "fields")
	switch drop := document.Lookup(config, "drop"); {
	case config == nil:
	case drop != nil:
		r.Errorf(drop, "required", "add `append: true`", "without `append` no field is kept but those that are computed, and there is none to drop")
	case fields == nil || len(fields.Content) == 0:
		r.Errorf(config, "required", "add `fields: {NAME: EXPRESSION}`", "the rows would have no fields at all")
	}
}

// Split divides the rows into named parts, by a hash of the key: rows with equal keys are in the same part, and a row is in the
// same part in every run. Without it all rows are in the part `all`. Only a transform that writes may follow.
type Split struct {
	// Key is a CEL expression over the row.
	Key spec.Expr `json:"key"`
	// Parts by name with their shares, which add up to 100%.
	Parts map[string]spec.Share `json:"parts" dsl:"literal"`
}

// Check demands that the shares of a split are the whole.
func (Split) Check(r document.Reporter, _ StepFacts, config *yaml.Node) {
	parts := document.Lookup(config, "parts")
	if parts == nil || parts.Kind != yaml.MappingNode {
		return
	}
	var sum float64
	for i := 1; i < len(parts.Content); i += 2 {
		checkPlainName(r, parts.Content[i-1], "a folder of the dataset")
		share, err := spec.ParseShare(parts.Content[i].Value)
		if err != nil {
			return // reported where it stands
		}
		if share <= 0 {
			r.Errorf(parts.Content[i], "share", "", "`%s` must have more than 0%%", parts.Content[i-1].Value)
		}
		sum += float64(share)
	}
	if math.Abs(sum-1) > 1e-9 {
		r.Errorf(parts, "share", "", "the parts add up to %s, not to 100%%", spec.Share(sum))
	}
}

// Shape implements Shaper.
func (DecodeMail) Shape(in Shape, config *yaml.Node, _ ExprTypes) Shape {
	if field := document.Lookup(config, "field"); field != nil {
		in = in.without(field.Value)
	}
	for _, name := range []string{"subject", "from", "body", "content_type"} {
		in = in.with(name, cel.StringType)
	}
	return in.with("date", cel.DynType) // null where it cannot be read
}

// Shape implements Shaper.
func (MapToFields) Shape(in Shape, config *yaml.Node, computed ExprTypes) Shape {
	out := Shape{Fields: map[string]*cel.Type{}}
	if keep := document.Lookup(config, "append"); keep != nil && keep.Value == "true" {
		out = in
		for n := range document.Scalars(document.Lookup(config, "drop")) {
			out = out.without(n.Value)
		}
	}
	if fields := document.Lookup(config, "fields"); fields != nil && fields.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(fields.Content); i += 2 {
			t := computed[document.Unalias(fields.Content[i+1])]
			if t == nil {
				t = cel.DynType // it could not be read, which was reported
			}
			out = out.with(fields.Content[i].Value, t)
		}
	}
	if len(out.Fields) == 0 && out.Rest == nil {
		return anyRow // no such rows are meant, which was reported
	}
	return out
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
	for i := 0; i+1 < len(properties.Content); i += 2 {
		name, t := properties.Content[i].Value, in.typeOf(properties.Content[i].Value)
		switch {
		case t == nil: // no row can have it
			continue
		case t.Kind() == types.DynKind && required[name]:
			t = schemaType(properties.Content[i+1])
		}
		out = out.with(name, t)
	}
	return out
}

// schemaType is the type that a JSON Schema gives a value. A `number` may be an int or a double.
func schemaType(schema *yaml.Node) *cel.Type {
	typ := document.Lookup(schema, "type")
	if typ == nil || typ.Kind != yaml.ScalarNode {
		return cel.DynType
	}
	switch typ.Value {
	case "string":
		return cel.StringType
	case "boolean":
		return cel.BoolType
	case "object":
		return cel.MapType(cel.StringType, cel.DynType)
	case "array":
		if items := document.Lookup(schema, "items"); items != nil {
			return cel.ListType(schemaType(items))
		}
		return cel.ListType(cel.DynType)
	}
	return cel.DynType
}
