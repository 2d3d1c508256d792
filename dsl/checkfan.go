package dsl

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/traits"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/decode"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/internal/suggest"
)

// checkFan reports mistakes, beyond wrong types, in steps that run more than once.
func (c *checker) checkFan(s *step) {
	var fans []*yaml.Node
	for _, name := range []spec.Fan{spec.FanMatrix, spec.FanForeach, spec.FanRepeat} {
		if document.Lookup(s.node, string(name)) != nil {
			fans = append(fans, document.KeyNode(s.node, string(name)))
		}
	}
	if len(fans) > 1 {
		c.src.Errorf(fans[1], "one-of", "keep one of them", "`matrix`, `foreach` and `repeat` cannot be combined, and `%s` already has `%s`", s.ID, fans[0].Value)
	}
	if s.matrix != nil {
		c.checkMatrix(s)
	}
	if s.foreach != nil {
		c.checkConstantList(s.foreach)
	}
	c.checkUntil(s)
	// A default that does not apply to a step is not a mistake of the step.
	for _, name := range []string{"max_parallel", "require"} {
		if document.Lookup(s.own, name) != nil && !s.listed() && c.excuseFan(s) == nil {
			c.src.Errorf(document.KeyNode(s.own, name), "instances", "remove it, or add `matrix` or `foreach`", "`%[2]s` has no effect: `%[1]s` has neither `matrix` nor `foreach`", s.ID, name)
		} else if document.Lookup(s.own, name) != nil && s.fan == spec.FanRepeat {
			c.src.Errorf(document.KeyNode(s.own, name), "instances", "remove it", "`%s` has a `repeat`, which runs one iteration at a time: `%s` is only allowed with a `matrix` or a `foreach`", s.ID, name)
		}
	}
	if s.fan == spec.FanRepeat && isA[*spec.Rollout](s) {
		c.src.Errorf(document.KeyNode(s.node, "repeat"), "instances", "repeat the step that makes the model, or use `retry`", "a rollout cannot be repeated: one that is rolled back fails its step")
	}
	if s.listed() && s.ContinueOnError {
		c.checkContinue(s)
	}
	if s.listed() && len(s.Publish) > 0 {
		c.src.Errorf(document.KeyNode(s.node, "publish"), "instances", "publish from a step that picks one instance: ${steps."+s.ID+".best(x, ...)}",
			"the instances of `%s` would publish under the same name", s.ID)
	}
	if child := c.compiled[s]; s.listed() && child != nil && child.effects.publishes {
		c.src.Errorf(s.kindKey(), "instances", "publish from a step of this pipeline that picks one instance: ${steps."+s.ID+".best(x, ...)}",
			"the instances of `%s` would publish under the same name, in their child", s.ID)
	}
}

// checkContinue warns if other steps read the instances of a step that may fail without failing the run: they would be skipped.
func (c *checker) checkContinue(s *step) {
	for _, other := range c.steps {
		for _, r := range other.references() {
			if other != s && r.Step() == s.ID && !r.Path[1].Optional {
				c.src.Warnf(document.KeyNode(s.node, "continue_on_error"), "instances", "write `require: 50%` to continue with the instances that passed",
					"if any instance of `%s` fails, `%s` is skipped and cannot use the results of the others", s.ID, other.ID)
				return
			}
		}
	}
}

// checkNone warns of the best of a list that may be empty, and of a condition on all of it.
func (c *checker) checkNone(s *step) {
	for _, e := range s.exprs {
		then, hint := "there is no best one", "write `when: steps.%[1]s.size() > 0`, or `require: 10%%` at `%[1]s`"
		if strings.Contains(e.Text, ".all(") && !strings.Contains(e.Text, "size(") {
			then, hint = "`all` says nothing", "write `steps.%[1]s.size() > 0 && ...`, or `require: 10%%` at `%[1]s`"
		} else if s.when != nil || !strings.Contains(e.Text, ".best(") || strings.Contains(e.Text, "optMap") {
			continue
		}
		for _, r := range e.Refs {
			if of := c.byID[r.Step()]; of != nil && of.listed() && of.Require == 0 {
				e.AddAtReference(c.src, document.SeverityWarning, r, "instances", fmt.Sprintf(hint, of.ID), "with `require: 0%` no instance of `"+of.ID+"` need pass, and then "+then)
				return
			}
		}
	}
}

// checkVersions warns of numbers on an axis that are likely versions: 3.10 is the number 3.1.
func (c *checker) checkVersions(n *yaml.Node) {
	for key, axis := range document.Entries(n) {
		if key.Value == "include" || key.Value == "exclude" || axis.Kind != yaml.SequenceNode {
			continue
		}
		for _, item := range axis.Content {
			whole, decimals, _ := strings.Cut(item.Value, ".")
			isShorter := func(o *yaml.Node) bool {
				w, d, ok := strings.Cut(o.Value, ".")
				return ok && o.Tag == "!!float" && w == whole && len(d) < len(decimals)
			}
			if item.Tag == "!!float" && strings.HasSuffix(decimals, "0") && len(decimals) > 1 && slices.ContainsFunc(axis.Content, isShorter) {
				c.src.Warnf(item, "matrix", "quote versions: \""+item.Value+"\"", "%s is the number %s", item.Value, strings.TrimRight(item.Value, "0"))
			}
		}
	}
}

// checkConstantList reports a list that is written out and has nothing in it, or the same twice.
func (c *checker) checkConstantList(e *expr.Expression) {
	if !e.OK {
		return
	}
	v, err := e.Eval(cel.NoVars()) // an error where it reads anything
	items, isList := v.(traits.Lister)
	if err != nil || !isList {
		return
	}
	if items.Size() == types.IntZero {
		c.src.Warnf(e.Node, "instances", "write the items, such as '[\"eu\", \"us\"]'", "the list is empty, so the step never runs")
	}
	if n, _ := items.Size().Value().(int64); n > maxInstances {
		e.ReportStart(c.src, "limit", "give each instance several items", "there are "+strconv.FormatInt(n, 10)+" instances, more than 100,000")
		return
	}
	seen := map[string]bool{}
	for it := items.Iterator(); it.HasNext() == types.True; {
		item, err := expr.JSONValue(it.Next())
		raw, err2 := spec.Encode(item)
		if err != nil || err2 != nil {
			return
		}
		if seen[string(raw)] {
			c.src.AddAt(document.SeverityWarning, e.Node, e.Start, "duplicate", "remove one of them", "the list has "+string(raw)+" twice, and an instance for each")
			return
		}
		seen[string(raw)] = true
	}
}

// holdsAtOnce is a condition that holds in the first iteration.
var holdsAtOnce = regexp.MustCompile(`^\s*index\s*(?:<=?\s*[1-9][0-9]*|(?:==|>=|<=)\s*0)\s*$`)

// checkUntil warns of a repeat that ends after its first iteration.
func (c *checker) checkUntil(s *step) {
	if s.until != nil && holdsAtOnce.MatchString(s.until.Text) {
		c.src.AddAt(document.SeverityWarning, s.until.Node, s.until.Start, "range", "write when to stop, such as index >= 4", "this holds after the first iteration already, and `until` then ends the repeat")
	}
}

// checkMatrix reports entries of `exclude` that match no combination, and of `include` that are combined already.
func (c *checker) checkMatrix(s *step) {
	m := s.matrix
	c.checkVersions(m.Node)
	for _, entry := range m.Exclude {
		for _, key := range entry.Entries.Keys {
			if len(m.Axes.Keys) > 0 && !slices.Contains(m.Axes.Keys, key) {
				c.src.Errorf(document.KeyNode(entry.Node, key), "matrix", suggest.Hint(key, m.Axes.Keys), "`%s` is not an axis of the matrix", key)
			} else if at := document.Lookup(entry.Node, key); !m.MayHave(entry, key) {
				values := slices.Collect(document.Scalars(document.Lookup(m.Node, key)))
				hint := suggest.Hint(at.Value, textsOf(values))
				if slices.Contains(textsOf(values), at.Value) {
					hint = "write it as the axis has it: one is a text, and the other is not"
				}
				c.src.Errorf(at, "matrix", hint, "`%s` has no value %s, so nothing is excluded", key, at.Value)
			}
		}
	}
	for _, entry := range m.Include {
		isAxis := func(key string) bool {
			return slices.Contains(m.Axes.Keys, key) && expr.IsKnown(m.Axes.Get(key)) && m.MayHave(entry, key)
		}
		if len(m.Exclude) == 0 && len(m.Axes.Keys) > 0 && expr.IsKnown(entry.Entries) && !slices.ContainsFunc(entry.Entries.Keys, func(key string) bool { return !isAxis(key) }) {
			c.src.Warnf(entry.Node, "matrix", "add a key that the axes lack, or remove it", "`include` adds nothing here: the axes have these values already")
		}
	}
}

func textsOf(nodes []*yaml.Node) (all []string) {
	for _, n := range nodes {
		all = append(all, n.Value)
	}
	return all
}

// checkHolds reports people who do not exist, and a `hold` that has no effect.
func (c *checker) checkHolds(s *step) {
	gates := document.Items(document.Lookup(s.node, "gate"))
	if len(gates) != len(s.Gate) {
		return // a check was too broken to be read, and was reported
	}
	for i, g := range s.Gate {
		at := gates[i]
		hold := document.Lookup(at, "hold")
		switch {
		case hold == nil:
		case g.OnFail != spec.OnFailHold:
			c.src.Errorf(document.KeyNode(at, "hold"), "hold", "write `on_fail: hold`", "`hold` has no effect: the check has on_fail: %s", g.OnFail)
		default:
			decode.Positive(c.src, hold, "timeout")
			c.checkWho(document.Lookup(hold, "who"))
		}
	}
}

// checkCache reports steps that must not be cached.
func (c *checker) checkCache(s *step) {
	at := document.Lookup(s.own, "cache")
	if at == nil || !s.Cache.Enabled {
		return
	}
	if age := document.Lookup(at, "max_age"); age != nil {
		if d, err := spec.ParseDuration(age.Value); err == nil && d == 0 {
			c.src.Errorf(age, "range", "write `cache: false` to run it every time", "outputs cannot be used for %s", age.Value)
		}
	}
	if s.section != spec.SectionMain {
		c.src.Warnf(document.KeyNode(s.own, "cache"), "cache", "remove it", "steps of `%s` run every time: no earlier result is reused", s.section)
	}
	if s.info().caching(s) == cacheNever {
		c.src.Errorf(document.KeyNode(s.own, "cache"), "cache", "remove it", "the effect of %s is not in its outputs, so the step always runs", spec.Article(string(s.Kind)))
	}
}

// checkVariables reports variables of a step that has no program to read them, except those from `defaults`.
func (c *checker) checkVariables(s *step) {
	programs := s.info().programs
	c.checkVariableNames(s, "env")
	c.checkVariableNames(s, "secrets")
	if programs == programsOnWorker || programs == programsOnPool {
		return
	}
	for _, key := range []string{"env", "secrets"} {
		if document.Lookup(s.own, key) != nil && !(programs == programsInTransforms && transform.ReadsVariables(s.body, key)) {
			hint := "remove it"
			if isA[*spec.ChildPipeline](s) {
				hint = "write it at the child's steps"
			}
			c.src.Errorf(document.KeyNode(s.own, key), "no-program", hint, "%s step runs no program of yours that could read `%s`", spec.Article(string(s.Kind)), key)
		}
	}
}

// checkSecretDefault warns of a parameter that by default names a secret which the environment lacks.
func (c *checker) checkSecretDefault(param string) {
	at := document.Lookup(c.root, "params", param, "default")
	if c.env == nil || at == nil || at.Kind != yaml.ScalarNode {
		return
	}
	if _, ok := c.env.Secrets[at.Value]; !ok {
		c.src.Warnf(at, "secret", suggest.Hint(at.Value, slices.Collect(maps.Keys(c.env.Secrets))), "the environment `%s` has no secret `%s`", c.env.Name, at.Value)
	}
}

// checkSecrets reports secrets that the environment lacks, and values that are not the name of a secret.
func (c *checker) checkSecrets(s *step) {
	secrets, _ := s.secrets.(expr.Mapping)
	for i, variable := range secrets.Keys {
		at := document.Lookup(s.node, "secrets", variable)
		if document.Lookup(s.node, "env", variable) != nil {
			c.src.Errorf(document.KeyNode(document.Lookup(s.node, "secrets"), variable), "duplicate", "remove one of them", "`%s` is also set under `env`", variable)
		}
		switch v := secrets.Values[i].(type) {
		case expr.Literal:
			c.checkSecret(at, at.Value)
		case expr.Computed:
			if r := v.Expr.Refs; v.Expr.OK && (len(r) != 1 || r[0].Path[0].Name != "params" || len(r[0].Path) != 2 || !c.pipeline.Params[r[0].Path[1].Name].Secret) {
				v.Expr.ReportStart(c.src, "secret", "write ${params.NAME}, and `secret: true` where it is declared", "the name of a secret can only come from a secret parameter")
			} else if v.Expr.OK {
				c.checkSecretDefault(r[0].Path[1].Name)
			}
		default:
			c.src.Errorf(at, "secret", "write the name of a secret, or ${params.NAME}", "the name of a secret cannot be built from parts")
		}
	}
}
