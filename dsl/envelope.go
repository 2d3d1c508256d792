package dsl

import (
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"

	"github.com/sluiceml/sluice/dsl/decode"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/suggest"
)

// checkEnvelope reports what types alone do not say of the keys every step has.
func (c *checker) checkEnvelope(s *step) {
	c.checkFan(s)
	c.checkNone(s)
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
	c.checkPublished(s)
}

// checkPublished reports what is no dataset and no model, and what is not a name.
func (c *checker) checkPublished(s *step) {
	outputs, all := c.ts.Lookup("steps."+s.ID), expr.ObjectNamed("steps."+s.ID)
	for _, name := range slices.Sorted(maps.Keys(s.Publish)) {
		t, key := c.ts.At(all, name), document.KeyNode(document.Lookup(s.node, "publish"), name)
		switch {
		case t == cel.DynType: // what it is could not be read
		case t == nil:
			c.src.Errorf(key, "output", suggest.Hint(name, c.ts.Paths(all)), "`%s` is not %s", name, outputs.What)
		case expr.TypeName(t) != "dataset" && expr.TypeName(t) != "model":
			below := c.ts.Paths(t)
			for i := range below {
				below[i] = name + "." + below[i]
			}
			hint := ""
			if len(below) > 0 {
				hint = "publish what is in it: " + strings.Join(below, ", ")
			}
			c.src.Errorf(key, "type", hint, "only a dataset or a model can be published, but `%s` is %s", name, spec.Article(expr.TypeName(t)))
		case !documentName.MatchString(s.Publish[name]):
			c.src.Errorf(document.Lookup(s.node, "publish", name), "name", documentNameHint, "%q is not a valid name in the registry", s.Publish[name])
		}
	}
}

// maxName is how many bytes the store takes for a part of a key.
const maxName = 200

// checkLength reports an ID that the store could not keep records under: of the step, as STEP.json, and of what nameOf says.
func (c *checker) checkLength(s *step) {
	run := len(c.pipeline.Name + "-20060102-150405-5cbf28")
	for trigger := range c.pipeline.Triggers {
		run = max(run, len(c.pipeline.Name+"-"+trigger+"-20060102T150405Z"))
	}
	most := maxName - len(".json")
	if below := c.nameOf(s); below > 0 {
		most = min(most, maxName-run-(below-len(s.ID)))
	}
	if len(s.ID) > most {
		c.src.Errorf(s.key, "name", "use a shorter one, or shorter ones in what it runs", "the name of this step has %d bytes, but %d is the maximum here", len(s.ID), max(0, most))
	}
}

// nameOf is how many bytes the step adds at most to the name of a run, in that of a child, RUN.STEP.INDEX-ATTEMPT, and of those below it, and in
// that of a published version, RUN-STEP.json; 0 where there are none.
func (c *checker) nameOf(s *step) (most int) {
	if isA[*spec.ChildPipeline](s) {
		most = len("." + s.ID + "-99")
		if s.fan != "" {
			most += len(".9999")
		}
		if child := c.compiled[s]; child != nil {
			most += child.longest
		}
	}
	if len(s.Publish) > 0 {
		most = max(most, len("-"+s.ID+".json"))
	}
	return most
}

// longestName is nameOf for the step that adds most.
func (c *checker) longestName() (most int) {
	for _, s := range c.steps {
		most = max(most, c.nameOf(s))
	}
	return most
}
