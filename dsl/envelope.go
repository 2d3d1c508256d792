package dsl

import (
	"maps"
	"slices"

	"github.com/google/cel-go/cel"

	"github.com/sluiceml/sluice/dsl/decode"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/nearest"
)

// checkEnvelope reports what types alone do not say of the keys every step has.
func (c *checker) checkEnvelope(s *step) {
	c.checkFan(s)
	c.checkBest(s)
	c.checkHolds(s)
	c.checkCache(s)
	c.checkVariables(s)
	c.checkSecrets(s)
	c.checkTimes(s)
	c.checkInputPaths(s)
	c.checkSluiceVariables(s)
	c.checkLength(s)
	retry := document.Lookup(s.node, "retry")
	decode.Positive(c.src, retry, "backoff")
	decode.Positive(c.src, retry, "max_backoff")
	if s.Retry.MaxBackoff < s.Retry.Backoff {
		c.src.Errorf(document.PlaceOf(s.node, "retry", "max_backoff"), "range", "", "`max_backoff` %s is shorter than `backoff` %s", s.Retry.MaxBackoff, s.Retry.Backoff)
	}
	if at := document.Lookup(s.own, "timeout"); at != nil && isA[*spec.Approval](s) {
		c.src.Errorf(document.KeyNode(s.own, "timeout"), "approval-timeout", "write it under `approval`, with the `default` that applies then",
			"a timeout on the step `%s` would fail it, and its `default` would never apply", s.ID)
	}
	if at := document.Lookup(s.node, "timeout"); at != nil {
		if d, err := spec.ParseDuration(at.Value); err == nil && d == 0 {
			help := "remove it for no limit"
			if limit := s.Kind.DefaultTimeout(); limit > 0 {
				help = "remove it for the default of " + limit.String() + ", or set a longer one"
			}
			c.src.Errorf(at, "range", help, "a timeout of %s ends every attempt immediately", at.Value)
		}
	}
	outputs := c.ts.Lookup("steps." + s.ID)
	for _, name := range slices.Sorted(maps.Keys(s.Publish)) {
		t, ok := outputs.Fields[name]
		at := document.Lookup(s.node, "publish", name)
		switch {
		case !ok:
			c.src.Errorf(document.KeyNode(document.Lookup(s.node, "publish"), name), "output", nearest.Hint(name, outputs.FieldNames()), "`%s` is not %s", name, outputs.What)
		case t == cel.DynType: // what it is could not be read
		case expr.TypeName(t) != "dataset" && expr.TypeName(t) != "model":
			c.src.Errorf(document.KeyNode(document.Lookup(s.node, "publish"), name), "type", "", "only a dataset or a model can be published, but `%s` is %s", name, spec.Article(expr.TypeName(t)))
		case !isDocumentName(s.Publish[name]):
			c.src.Errorf(at, "name", "use letters, digits, `-`, `_` and `.`, beginning with a letter, at most 63", "%q is not a valid name in the registry", s.Publish[name])
		}
	}
}

// checkLength reports an ID that the store could not keep a record under: at most 200 bytes of STEP.json, of the run of a child, RUN.STEP, and
// of a published version, RUN-STEP.json.
func (c *checker) checkLength(s *step) {
	const part, suffix = 200, len(".json")
	run := len(c.pipeline.Name) + len("-20060102-150405-1f3a.")
	most := part - suffix
	if isA[*spec.ChildPipeline](s) {
		most = min(most, part-run)
	}
	if len(s.Publish) > 0 {
		most = min(most, part-suffix-run)
	}
	if len(s.ID) > most {
		c.src.Errorf(s.key, "name", "use a shorter one", "the name of this step has %d bytes, but %d is the maximum here", len(s.ID), most)
	}
}
