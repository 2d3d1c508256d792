package dsl

import (
	"reflect"

	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
)

func evaluateOutputs(ts *expr.TypeSystem, id string, sp *spec.Evaluate) expr.ObjectType {
	fields := ts.StructFields(reflect.TypeFor[spec.EvaluateOutput]())
	fields["metrics"] = metricsType(ts, id, sp.Metrics)
	return expr.ObjectType{Fields: declaredOutputs(fields, sp.Outputs)}
}

func checkEvaluate(c *checker, s *step, spec *spec.Evaluate) {
	requireCommand(c, s)
	checkCommand(c, s, &spec.Command)
	c.checkReserved(s, evaluateOutputType)
	checkPlacement(c, s, spec.Train())
}
