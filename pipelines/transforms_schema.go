package pipelines

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/sluiceml/sluice/dsl"
)

// compileValidate rejects rows that a JSON Schema does not accept.
func compileValidate(c dsl.ValidateWithSchema, _ map[string]any) (rowFunc, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(c.Schema))
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	const self = "mem:row-schema"
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(noLoader{})
	compiler.AssertFormat()
	if err := compiler.AddResource(self, doc); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	schema, err := compiler.Compile(self)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	return func(r row) error {
		err := schema.Validate(map[string]any(r))
		var invalid *jsonschema.ValidationError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &invalid):
			return reject("schema", "%s", causes(invalid))
		}
		return fmt.Errorf("validate a row: %w", err)
	}, nil
}

// noLoader refuses references to other documents: a cleaning depends on its spec and its input alone.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s is another document; the schema must hold all it refers to", url)
}

// causes lists where a row differs from the schema: "at /text: minLength: got 3, want 10".
func causes(e *jsonschema.ValidationError) string {
	var list []string
	for _, unit := range e.BasicOutput().Errors {
		if unit.Error != nil {
			list = append(list, fmt.Sprintf("at %q: %s", unit.InstanceLocation, unit.Error))
		}
	}
	return strings.Join(list, "; ")
}
