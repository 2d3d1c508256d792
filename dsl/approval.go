package dsl

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/internal/nearest"
)

// Approval waits for a person. A rejection fails the step with the error type gate.
type Approval struct {
	// Who may answer: names of `people` in the environment, or user:NAME. Empty: anyone.
	Who []string `json:"who,omitempty" dsl:"literal"`
	// Message is what the person is asked.
	Message string `json:"message,omitempty"`
	// Fields are what the person fills in, by name; they are outputs of the step.
	Fields map[string]Field `json:"fields,omitempty" dsl:"literal,names"`
	// Timeout is how long to wait; 0s waits for ever. Default 72h.
	Timeout *Duration `json:"timeout,omitempty" dsl:"default=72h"`
	// Default is the answer when nobody gave one in time: approve or reject (default).
	Default string `json:"default,omitempty" dsl:"literal,default=reject,enum=approve|reject"`
}

// Kind implements Spec.
func (*Approval) Kind() Kind { return KindApproval }

// Field is one entry of an approval's form.
type Field struct {
	// Type: string, int, double, bool, or enum, which has `values`.
	Type string `json:"type" dsl:"enum=string|int|double|bool|enum"`
	// Values are what an enum may be.
	Values []string `json:"values,omitempty"`
	// Default is the value of a field that was left empty.
	Default any `json:"default,omitempty"`
	// Required refuses an approval that leaves the field empty.
	Required bool `json:"required,omitempty"`
	// Description says what is asked for.
	Description string `json:"description,omitempty" dsl:"raw"`
}

// ApprovalOutput is what an approval hands on, beside its fields. A field that was left empty is absent.
type ApprovalOutput struct {
	// By is who answered; empty when nobody did in time.
	By string `json:"by"`
	// At is when.
	At time.Time `json:"at"`
	// Reason is what the person gave as one.
	Reason string `json:"reason"`
}

func approvalOutputs(ts *typeSystem, _ string, spec *Approval) map[string]*cel.Type {
	fields := ts.structFields(reflect.TypeFor[ApprovalOutput]())
	for name, f := range spec.Fields {
		if t := fieldCELType(f); t != nil && fields[name] == nil {
			fields[name] = t
		}
	}
	return fields
}

func fieldCELType(f Field) *cel.Type {
	switch f.Type {
	case "string", "enum":
		return cel.StringType
	case "int":
		return cel.IntType
	case "double":
		return cel.DoubleType
	case "bool":
		return cel.BoolType
	}
	return nil
}

func checkApproval(c *checker, s *step, spec *Approval) {
	c.checkWho(document.Lookup(s.body, "who"))
	reserved := fieldNames(fieldsOf(reflect.TypeFor[ApprovalOutput]()))
	for key, n := range document.Entries(s.body, "fields") {
		f, ok := spec.Fields[key.Value]
		switch {
		case slices.Contains(reserved, key.Value):
			c.src.Errorf(key, "reserved", "call it something else", "`%s` is an output of every approval", key.Value)
		case ok && n.Kind == yaml.MappingNode:
			checkField(c, key, n, f)
		}
	}
}

func checkField(c *checker, key, n *yaml.Node, f Field) {
	values, byDefault := document.Lookup(n, "values"), document.Lookup(n, "default")
	switch {
	case f.Type == "enum" && len(f.Values) == 0 && (values == nil || values.Kind == yaml.SequenceNode):
		c.src.Errorf(key, "field", "add `values: [a, b]`", "the enum `%s` has no values", key.Value)
	case f.Type != "enum" && f.Type != "" && values != nil:
		c.src.Errorf(document.KeyNode(n, "values"), "field", "write `type: enum`", "`values` are those of an enum, and `%s` is %s", key.Value, article(f.Type))
	case byDefault != nil && f.Required:
		c.src.Errorf(document.KeyNode(n, "required"), "field", "remove one of them", "`%s` is required and has a default", key.Value)
	case byDefault != nil && fieldCELType(f) != nil:
		if _, err := f.convert(written(f.Default)); err != nil {
			c.src.Errorf(byDefault, "field", "", "the default of `%s` is %s", key.Value, err)
		}
	}
}

// FieldNames are the names of the form's fields, in order.
func (spec *Approval) FieldNames() []string { return slices.Sorted(maps.Keys(spec.Fields)) }

// CheckFields checks a form that a person filled in, and fills in defaults. Values are string, int64, float64 or bool. What was left
// empty and has no default is absent. The error tells everything that is wrong.
func (spec *Approval) CheckFields(given map[string]string) (map[string]any, error) {
	var bad []error
	names := spec.FieldNames()
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if _, ok := spec.Fields[name]; !ok {
			message := fmt.Sprintf("`%s` is not a field of this approval", name)
			if hint := nearest.Hint(name, names); hint != "" {
				message += ": " + hint
			}
			bad = append(bad, errors.New(message))
		}
	}
	out := map[string]any{}
	for _, name := range names {
		f := spec.Fields[name]
		text := strings.TrimSpace(given[name])
		switch {
		case text == "" && f.Default != nil:
			text = written(f.Default)
		case text == "" && f.Required:
			bad = append(bad, fmt.Errorf("the field `%s` (%s) must be given", name, f.what()))
			continue
		case text == "":
			continue
		}
		v, err := f.convert(text)
		if err != nil {
			bad = append(bad, fmt.Errorf("the field `%s` is %w", name, err))
			continue
		}
		out[name] = v
	}
	if len(bad) > 0 {
		return nil, errors.Join(bad...)
	}
	return out, nil
}

// maxField bounds what a person may write into a field, in bytes: it travels in the run's history.
const maxField = 10_000

// convert reads what was written into a field.
func (f Field) convert(text string) (any, error) {
	var v any
	var err error
	switch f.Type {
	case "int":
		v, err = strconv.ParseInt(text, 10, 64)
	case "double":
		var number float64
		number, err = strconv.ParseFloat(text, 64)
		if math.IsNaN(number) || math.IsInf(number, 0) {
			err = strconv.ErrRange
		}
		v = number
	case "bool":
		v = text == "true"
		if text != "true" && text != "false" {
			err = strconv.ErrSyntax
		}
	case "enum":
		v = text
		if !slices.Contains(f.Values, text) {
			err = strconv.ErrRange
		}
	default:
		v = text
	}
	switch {
	case len(text) > maxField:
		return nil, fmt.Errorf("longer than %d bytes", maxField)
	case err != nil:
		return nil, fmt.Errorf("%q, and must be %s", text, f.what())
	}
	return v, nil
}

func (f Field) what() string {
	if f.Type == "enum" {
		return "one of " + strings.Join(f.Values, ", ")
	}
	return article(f.Type)
}
