package dsl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
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
		return nil, fmt.Errorf("this is no JSON Schema: %s", causes(unlike))
	case errors.As(err, &elsewhere):
		return nil, fmt.Errorf("%s is another document; the schema must hold all it refers to", elsewhere.URL)
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
	var unlike *jsonschema.ValidationError
	if errors.As(err, &unlike) {
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
