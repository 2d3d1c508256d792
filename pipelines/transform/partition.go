package transform

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// partition compiles a Partition.
func (c *Compiled) partition(t spec.Transform, given Deps) (err error) {
	c.Route, err = compilePartition(t, given.Params)
	return err
}

// compilePartition names the output that a row goes to.
func compilePartition(t spec.Transform, params map[string]any) (func(rows.Row) (string, error), error) {
	c, err := rows.DecodeConfig[transform.Partition](t)
	if err != nil {
		return nil, err
	}
	if len(c.Outputs) == 0 {
		return nil, errors.New("outputs: name at least one")
	}
	if e := c.ErrorHandling; e != nil && (slices.Contains(c.Outputs, e.Output) || e.Output != "" && e.Output == c.UnknownOutput) {
		return nil, fmt.Errorf("error_handling: the output %s has other rows already", e.Output)
	}
	by, err := expr.CompileRow(c.By, params)
	if err != nil {
		return nil, fmt.Errorf("by: %w", err)
	}
	return func(r rows.Row) (string, error) {
		v, err := by.Eval(r)
		if err != nil {
			return "", rows.RejectEval("by", err)
		}
		name := ""
		switch v := v.(type) {
		case string:
			name = v
		case bool:
			name = strconv.FormatBool(v)
		case int64:
			name = strconv.FormatInt(v, 10)
		default:
			return "", rows.Reject("expression", "by: got %T, not a text, a bool or an int", v)
		}
		switch {
		case slices.Contains(c.Outputs, name):
			return name, nil
		case c.UnknownOutput != "":
			return c.UnknownOutput, nil
		}
		return "", rows.Reject("unknown_output", "there is no output %q", rows.Clip(name, 100))
	}, nil
}
