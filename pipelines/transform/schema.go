package transform

import (
	"errors"
	"fmt"

	"github.com/sluiceml/sluice/dsl/expr/value"
	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// compileValidate compiles a ValidateWithSchema, which rejects rows that do not match a JSON Schema.
func compileValidate(c transform.ValidateWithSchema, _ map[string]any) (rowFunc, error) {
	schema, err := transform.CompileRowSchema(c.Schema)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	return func(r rows.Row) error {
		if rows.Typed(r) {
			r = value.JSONObject(r)
		}
		err := schema.Check(r)
		if unlike, ok := errors.AsType[*transform.RowSchemaError](err); ok {
			return rows.Reject("schema", "%s", unlike)
		}
		return err
	}, nil
}
