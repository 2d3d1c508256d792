package dsl

import (
	"reflect"

	"github.com/google/cel-go/cel"

	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
)

func evaluateOutputs(ts *expr.TypeSystem, id string, sp *spec.Evaluate) map[string]*cel.Type {
	fields := ts.StructFields(reflect.TypeFor[spec.EvaluateOutput]())
	fields["metrics"] = metricsType(ts, id, sp.Metrics)
	return declaredOutputs(fields, sp.Outputs)
}

func checkEvaluate(c *checker, s *step, spec *spec.Evaluate) {
	requireCommand(c, s)
	checkCommand(c, s, &spec.Command)
}
