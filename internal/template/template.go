// Package template reads those parts of an environment that are written in the words of another program: of Kubernetes, of EC2, of KServe.
package template

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	strict "sigs.k8s.io/json"
)

// FieldError says what is wrong of a field.
type FieldError struct {
	// Field is its path, such as spec.tolerations[0].key. Of a wrong type within a list it ends at the list.
	Field string
	// Unknown is set for a field that the other program does not have.
	Unknown bool
	what    string
}

// Error implements error.
func (e *FieldError) Error() string { return e.what }

// Errorf makes the error of a field. Its text begins with the field.
func Errorf(field, format string, args ...any) *FieldError {
	return &FieldError{Field: field, what: field + ": " + fmt.Sprintf(format, args...)}
}

// Read decodes a template, which may be nil, into a struct of the other program. What is wrong of fields are FieldErrors, joined where
// there are several.
func Read(document map[string]any, into any) error {
	raw, err := json.Marshal(document)
	if err != nil {
		return err
	}
	unknown, err := strict.UnmarshalStrict(raw, into)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return Errorf(written(document, wrong.Field), "it is of the type %s, but has to be %s", wrong.Value, kindOf(wrong.Type))
	}
	for i, err := range unknown {
		if at, ok := errors.AsType[strict.FieldError](err); ok {
			unknown[i] = &FieldError{Field: at.FieldPath(), Unknown: true, what: err.Error()}
		}
	}
	return errors.Join(append(unknown, err)...)
}

// written is the path of a field without the names of embedded structs, which no document has.
func written(document map[string]any, field string) string {
	var path []string
	at := []any{document}
	for key := range strings.SplitSeq(field, ".") {
		var below []any
		found := false
		for _, item := range at {
			mapping, _ := item.(map[string]any)
			value, there := mapping[key]
			found = found || there
			if list, ok := value.([]any); ok {
				below = append(below, list...)
			} else {
				below = append(below, value)
			}
		}
		if found {
			path, at = append(path, key), below
		}
	}
	return strings.Join(path, ".")
}

// Errors are those that Read has joined.
func Errors(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	} else if err != nil {
		return []error{err}
	}
	return nil
}

// kindOf names what a field takes.
func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.String:
		return "a string"
	case reflect.Slice:
		return "a list"
	}
	return "a mapping"
}
