package dsl

import (
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
)

// checkCompare reports rules that say nothing, and keys that a rule has no use for.
func checkCompare(c *checker, s *step, rules []spec.Compare) {
	at := document.Lookup(s.body, "compare")
	if at == nil {
		return
	}
	nodes := document.Items(at)
	if len(nodes) == 0 {
		c.src.Errorf(at, "compare", "for example {rule: top1}", "there are no rules")
	}
	if len(nodes) != len(rules) {
		return // one was too broken to be read, and was reported
	}
	outputs := map[string]bool{}
	for i, rule := range rules {
		n := nodes[i]
		if outputs[rule.Output] {
			c.src.Errorf(document.PlaceOf(n, "output"), "compare", "give each output one rule", "the output `%s` is compared twice", rule.Output)
		}
		outputs[rule.Output] = true
		for _, key := range []struct{ name, rule string }{{"atol", spec.CompareTolerance}, {"rtol", spec.CompareTolerance}, {"threshold", spec.CompareThreshold}} {
			if document.Lookup(n, key.name) != nil && rule.Rule != key.rule {
				c.src.Errorf(document.KeyNode(n, key.name), "compare", "add `rule: "+key.rule+"`", "`%s` has no effect without `rule: %s`", key.name, key.rule)
			}
		}
		if rule.Rule == spec.CompareTolerance && rule.ATol == 0 && rule.RTol == 0 {
			c.src.Errorf(document.PlaceOf(n, "rule"), "compare", "add `atol` (absolute) or `rtol` (relative), or write `rule: exact`",
				"`rule: tolerance` does not say how much answers may differ")
		}
	}
}

// checkLoss reports a loss test of answers that are no numbers, and limits beyond what a loss can be.
func checkLoss(c *checker, s *step, sp *spec.Rollout) {
	at := document.Lookup(s.body, "tests", "loss")
	if at == nil || sp.Tests.Loss == nil {
		for i, stage := range sp.Stages {
			for j, check := range stage.Checks {
				if place := document.Lookup(s.body, "stages", i, "checks", j); place != nil && at == nil && readsLoss.MatchString(string(check)) {
					c.src.Errorf(place, "compare", "add for example `tests: {loss: {bound: 50}}`", "losses are only measured with `tests.loss`")
				}
			}
		}
		return
	}
	if len(sp.Compare) == 0 || sp.Compare[0].Rule != spec.CompareTolerance {
		c.src.Errorf(document.KeyNode(document.Lookup(s.body, "tests"), "loss"), "compare", "for example `compare: {rule: tolerance, rtol: 0.1}`",
			"a loss test needs `rule: tolerance` in the first rule of `compare`: a loss is the difference of two numbers")
	}
	for _, key := range []struct {
		name  string
		value float64
	}{{"margin", sp.Tests.Loss.Margin}, {"max_mean", sp.Tests.Loss.MaxMean}} {
		if bound := sp.Tests.Loss.Bound; bound > 0 && key.value >= bound {
			c.src.Errorf(document.PlaceOf(at, key.name), "range", "", "`%s` must be less than `bound`, %v: no mean loss exceeds it", key.name, bound)
		}
	}
}
