package spec

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluiceml/sluice/internal/suggest"
)

// Approval waits for a person to decide. A rejection fails the step with the error type gate.
type Approval struct {
	// Who may decide: names of `people` in the environment, or user:NAME. Empty: anyone.
	Who []string `json:"who,omitempty" dsl:"literal"`
	// Message is the question to the person.
	Message string `json:"message,omitempty"`
	// Fields are the fields of the form, by name; they become outputs of the step.
	Fields map[string]Field `json:"fields,omitempty" dsl:"literal,names"`
	// Timeout is how long to wait; 0s waits forever. Default 72h.
	Timeout *Duration `json:"timeout,omitempty" dsl:"default=72h"`
	// Default is the decision if nobody decides in time: approve or reject (default).
	Default string `json:"default,omitempty" dsl:"literal,default=reject,enum=approve|reject"`
}

// Field is one entry of an approval's form.
type Field struct {
	// Type: string, int, double, bool, or enum, which has `values`.
	Type string `json:"type" dsl:"enum=string|int|double|bool|enum"`
	// Values are the values of an enum.
	Values []string `json:"values,omitempty"`
	// Default is the value of a field that is left empty.
	Default any `json:"default,omitempty"`
	// Required refuses an approval that leaves the field empty.
	Required bool `json:"required,omitempty"`
	// Description is a description of the field.
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
			if hint := suggest.Hint(name, names); hint != "" {
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
			text = Written(f.Default)
		case text == "" && f.Required:
			bad = append(bad, fmt.Errorf("the field `%s` (%s) must be given", name, f.what()))
			continue
		case text == "":
			continue
		}
		v, err := f.Convert(text)
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

// MaxField bounds what a person may write into a field, in bytes: it travels in the run's history.
const MaxField = 10_000

// Convert reads what was written into a field.
func (f Field) Convert(text string) (any, error) {
	v, err := parseParam(f.Type, text)
	if f.Type == "enum" && !slices.Contains(f.Values, text) {
		err = strconv.ErrRange
	}
	switch {
	case len(text) > MaxField:
		return nil, fmt.Errorf("longer than %d bytes", MaxField)
	case err != nil:
		return nil, fmt.Errorf("%q, but must be %s", text, f.what())
	}
	return v, nil
}

func (f Field) what() string {
	if f.Type == "enum" {
		return "one of " + strings.Join(f.Values, ", ")
	}
	return Article(f.Type)
}
