package transform

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/expr/value"
	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// partition compiles a Partition, which chooses the output that a row goes to.
func (c *Compiled) partition(config transform.Partition, given Deps) error {
	if len(config.Outputs) == 0 {
		return errors.New("outputs: name at least one")
	}
	if e := config.ErrorHandling; e != nil && (slices.Contains(config.Outputs, e.Output) || e.Output != "" && e.Output == config.UnknownOutput) {
		return fmt.Errorf("error_handling: the output %s is already used for other rows", e.Output)
	}
	by, err := expr.CompileRow(config.By, given.Params)
	if err != nil {
		return fmt.Errorf("by: %w", err)
	}
	c.Route = func(r rows.Row) (string, error) {
		v, err := by.Eval(r)
		if err != nil {
			return "", rows.RejectEval("by", err)
		}
		name := ""
		switch v := v.(type) {
		case nil:
			if config.UnknownOutput != "" {
				return config.UnknownOutput, nil
			}
			return "", rows.Reject("unknown_output", "there is no output for null")
		case string:
			name = v
		case bool:
			name = strconv.FormatBool(v)
		case int64:
			name = strconv.FormatInt(v, 10)
		default:
			return "", rows.Reject("expression", "by: got a value of type %s, not a string, a bool or an int", value.TypeName(v))
		}
		switch {
		case slices.Contains(config.Outputs, name):
			return name, nil
		case config.UnknownOutput != "":
			return config.UnknownOutput, nil
		}
		return "", rows.Reject("unknown_output", "there is no output %q", rows.Clip(name, 100))
	}
	return nil
}
