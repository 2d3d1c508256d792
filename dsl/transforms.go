package dsl

import (
	"encoding/json"
	"maps"
	"math"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
)

// transformSpecs are the config structs of the transforms of a clean step, by the transform's type. Names and keys are
// Beam YAML's where Beam YAML has them; expressions are CEL over `row` and `params`.
var transformSpecs = map[string]any{
	"ReadFromJson":       ReadFromJSON{},
	"ReadFromText":       ReadFromText{},
	"ReadFromParquet":    ReadFromParquet{},
	"ReadFromAvro":       ReadFromAvro{},
	"ReadFromCsv":        ReadFromCSV{},
	"MapToFields":        MapToFields{},
	"AssertEqual":        AssertEqual{},
	"Explode":            Explode{},
	"Exec":               Exec{},
	"Combine":            Combine{},
	"Flatten":            Flatten{},
	"Partition":          Partition{},
	"Filter":             Filter{},
	"DecodeMail":         DecodeMail{},
	"Decontaminate":      Decontaminate{},
	"DetectLanguage":     DetectLanguage{},
	"HtmlToText":         HTMLToText{},
	"NormalizeText":      NormalizeText{},
	"Deduplicate":        Deduplicate{},
	"MaskPII":            MaskPII{},
	"ValidateWithSchema": ValidateWithSchema{},
	"Profile":            ProfileRows{},
	"QualityFilter":      QualityFilter{},
	"Sample":             Sample{},
	"Split":              Split{},
	"WriteToCsv":         WriteToCSV{},
	"WriteToJson":        WriteToJSON{},
	"WriteToParquet":     WriteToParquet{},
	"WriteToText":        WriteToText{},
}

// TransformTypes are the types of transforms that there are, sorted.
func TransformTypes() []string { return slices.Sorted(maps.Keys(transformSpecs)) }

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
