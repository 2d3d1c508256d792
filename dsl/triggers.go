package dsl

import (
	"fmt"
	"maps"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/cel-go/common/types"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/cron"
	"github.com/sluiceml/sluice/dsl/decode"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/environment"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/objectstore"
	"github.com/sluiceml/sluice/internal/suggest"
)

// startForms reads what is written around the steps: its expressions see other names than theirs.
func startForms(d *decode.Decoder) {
	d.Forms[reflect.TypeFor[*spec.MetricTrigger]()] = d.FormIn(expr.ScopeValue, reflect.TypeFor[spec.MetricTrigger]())
	d.Forms[reflect.TypeFor[spec.Concurrency]()] = func(n *yaml.Node, _ spec.Rules) (expr.Value, bool) {
		before := len(d.Expressions)
		v := d.Structure(n, reflect.TypeFor[spec.Concurrency](), nil)
		for _, e := range d.Expressions[before:] {
			e.Scope = expr.ScopeParams // the group is known before the run starts
		}
		return v, true
	}
}

// checkTriggers reports what types alone do not say of the triggers.
func (c *checker) checkTriggers() {
	for key, n := range document.Entries(c.root, "triggers") {
		t, ok := c.pipeline.Triggers[key.Value]
		if !ok || n.Kind != yaml.MappingNode {
			continue
		}
		kind := decode.ExactlyOne[spec.Trigger](c.src, key, n, "a trigger")
		switch at := document.Lookup(n, kind); {
		case at == nil || at.Kind != yaml.MappingNode:
		case t.Schedule != nil && kind == "schedule":
			c.checkSchedule(document.KeyNode(n, kind), at, t.Schedule)
		case t.Data != nil && kind == "data":
			c.checkData(at, t.Data)
		case t.Metric != nil && kind == "metric":
			c.checkMetric(document.KeyNode(n, kind), at, t.Metric)
		case t.Pipeline != nil && kind == "pipeline":
			c.checkPipelineTrigger(at, t.Pipeline)
		}
		c.checkTriggerParams(key, n)
	}
}

func (c *checker) checkSchedule(key, n *yaml.Node, s *spec.ScheduleTrigger) {
	kind := decode.ExactlyOne[spec.ScheduleTrigger](c.src, key, n, "a schedule")
	cron.Check(c.src, document.Lookup(n, "cron"), s.Timezone)
	c.atLeast(n, "every", time.Second)
	c.atLeast(n, "catchup", 10*time.Second)
	if at := document.Lookup(n, "offset"); at != nil && kind == "cron" {
		c.src.Errorf(document.KeyNode(n, "offset"), "one-of", "write the time into `cron`", "`offset` has no effect: it is only used with `every`")
	} else if kind == "every" && s.Every > 0 && s.Offset >= s.Every {
		c.src.Errorf(at, "range", "", "the offset %s is not shorter than `every` %s", s.Offset, s.Every)
	}
	if at := document.Lookup(n, "timezone"); at != nil && kind == "every" {
		c.src.Errorf(document.KeyNode(n, "timezone"), "one-of", "remove it", "`timezone` has no effect: it is only used with `cron`")
	} else if at != nil {
		cron.CheckTimezone(c.src, at)
	}
	if at := document.Lookup(n, "end"); at != nil && !s.Start.IsZero() && !s.End.IsZero() && !s.Start.Before(s.End) {
		c.src.Errorf(at, "range", "", "the schedule ends at %s, before it begins at %s", at.Value, document.Lookup(n, "start").Value)
	}
}

// atLeast reports a duration that was given and is too short.
func (c *checker) atLeast(n *yaml.Node, key string, least time.Duration) {
	at := document.Lookup(n, key)
	if at == nil {
		return
	}
	if d, err := spec.ParseDuration(at.Value); err == nil && time.Duration(d) < least {
		c.src.Errorf(at, "range", "", "%s is less than the minimum, %s", at.Value, spec.Duration(least))
	}
}

func (c *checker) checkData(n *yaml.Node, d *spec.DataTrigger) {
	if at := document.Lookup(n, "url"); at != nil && d.URL != "" {
		c.checkPlace(at, d.URL)
	}
	if at := document.Lookup(n, "glob"); at != nil {
		if _, err := path.Match(d.Glob, ""); err != nil {
			c.src.Errorf(at, "glob", "escape a bracket with `\\`", "%q is not a valid pattern", d.Glob)
		} else if strings.HasPrefix(d.Glob, "./") {
			c.src.Errorf(at, "glob", "write "+strings.TrimPrefix(d.Glob, "./"), "no path below the folder begins with `./`")
		} else if notGlob.MatchString(d.Glob) {
			c.src.Warnf(at, "glob", "write for example *.csv or 2026-*/*.csv; for several patterns, write a trigger for each",
				"only `*`, `?` and `[a-z]` are special in a pattern, and they match no slash")
		}
	}
	c.atLeast(n, "settle", time.Second)
	c.atLeast(n, "every", time.Second)
}

// notGlob are braces, **, alternatives, and the ends of regular expressions.
var notGlob = regexp.MustCompile(`(^|[^\\])\{|\*\*|[|,]\*|^\^|\$$`)

// checkPlace reports an address that is neither of a folder nor of a bucket.
func (c *checker) checkPlace(at *yaml.Node, url string) {
	const hint = "write file:///folder or s3://bucket/folder"
	folder, isFolder := strings.CutPrefix(url, "file://")
	isBucket := strings.HasPrefix(url, "s3://")
	switch _, err := objectstore.ParseFolder(url); {
	case isBucket && err != nil:
		c.src.Errorf(at, "url", hint, "this bucket cannot be watched: %v", err)
	case !isBucket && (!isFolder || !path.IsAbs(folder)):
		c.src.Errorf(at, "url", hint, "%q cannot be watched", url)
	case environment.IsReplaced(url):
		c.src.Warnf(at, "url", "write the folder as it is called, and a pattern as `glob`", "the URL is taken literally: nothing in it is replaced")
	case isBucket:
		environment.CheckRegion(c.src, at)
	}
}

// checkWebURL reports an address that is not one of the web.
func (c *checker) checkWebURL(n *yaml.Node, key string) {
	if at := document.Lookup(n, key); at != nil && at.Kind == yaml.ScalarNode && !strings.Contains(at.Value, "${") {
		environment.CheckWeb(c.src, at)
	}
}

func (c *checker) checkMetric(key, n *yaml.Node, m *spec.MetricTrigger) {
	kind := decode.ExactlyOne[spec.MetricTrigger](c.src, key, n, "a metric trigger")
	c.checkWebURL(n, "prometheus")
	environment.CheckPrometheus(c.src, document.Lookup(n, "prometheus"))
	c.checkQuery(document.Lookup(n, "query"))
	c.atLeast(n, "every", time.Second)
	if at := document.Lookup(n, "for"); at != nil && m.For > 0 && m.For < m.Every {
		c.src.Warnf(at, "range", "write a longer one, or a shorter `every`", "`for: %s` is shorter than `every: %s`, so the condition must be true at two checks", at.Value, m.Every)
	}
	for _, with := range []struct{ key, kind string }{{"prometheus", "query"}, {"output", "step"}} {
		if document.Lookup(n, with.key) != nil && kind != "" && kind != with.kind {
			c.src.Errorf(document.KeyNode(n, with.key), "one-of", "remove it", "`%s` is used with `%s`, not with `%s`", with.key, with.kind, kind)
		}
	}
	if kind != "step" {
		return
	}
	step, output := document.Lookup(n, "step"), document.Lookup(n, "output")
	switch s := c.byID[m.Step]; {
	case s == nil && slices.Contains(c.unreadable, m.Step):
	case s == nil:
		c.src.Errorf(step, "step", suggest.Hint(m.Step, slices.Collect(maps.Keys(c.byID))), "there is no step `%s`", m.Step)
	case s.listed():
		c.src.Errorf(step, "instances", "read the output of a step that picks one instance", "`%s` is a list of instances, but the trigger needs one number", m.Step)
	case output == nil:
		c.src.Errorf(step, "required", "write `output: NAME`", "`step` does not say which output")
	default:
		c.checkMetricOutput(output, m)
	}
}

// checkQuery reports a query of Prometheus that cannot be answered with one number; variables are replaced in it.
func (c *checker) checkQuery(at *yaml.Node, variables ...string) {
	if at == nil || at.Kind != yaml.ScalarNode || at.Tag == "!!null" || strings.Contains(at.Value, "${") {
		return
	}
	if what, hint := queryMistake(at.Value, variables...); what != "" {
		c.src.Errorf(at, "query", hint, "%s", what)
	}
}

// checkMetricOutput follows the path of an output to a number.
func (c *checker) checkMetricOutput(at *yaml.Node, m *spec.MetricTrigger) {
	t, offset := expr.ObjectNamed("steps."+m.Step), 0
	for name := range strings.SplitSeq(m.Output, ".") {
		switch o := c.ts.ObjectType(t); {
		case t.Kind() == types.DynKind:
			return
		case o != nil && o.Fields[name] != nil:
			t = o.Fields[name]
		case o != nil:
			c.src.AddAt(document.SeverityError, at, offset, o.Code, suggest.Hint(name, o.FieldNames()), fmt.Sprintf("`%s` is not %s", name, o.What))
			return
		case t.Kind() == types.MapKind:
			t = t.Parameters()[1]
		default:
			c.src.AddAt(document.SeverityError, at, offset, "output", "", fmt.Sprintf("there is no `%s` in %s", name, spec.Article(expr.TypeName(t))))
			return
		}
		offset += utf8.RuneCountInString(name) + 1
	}
	if k := t.Kind(); k != types.DoubleKind && k != types.IntKind && k != types.DynKind {
		c.src.Errorf(at, "type", "", "the condition needs a number, but `%s` of `%s` is %s", m.Output, m.Step, spec.Article(expr.TypeName(t)))
	}
}

func (c *checker) checkPipelineTrigger(n *yaml.Node, p *spec.PipelineTrigger) {
	c.atLeast(n, "every", time.Second)
	switch at := document.Lookup(n, "name"); {
	case at == nil || at.Kind != yaml.ScalarNode:
	case p.Name == c.pipeline.Name:
		c.src.Errorf(at, "self", "name another pipeline", "`%s` would start itself forever", p.Name)
	case !documentName.MatchString(p.Name):
		c.src.Errorf(at, "name", documentNameHint, "%q is not a valid name for a pipeline", p.Name)
	case slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(p.Name)):
		c.src.Warnf(at, "name", "write its `name`, such as "+strings.TrimSuffix(p.Name, path.Ext(p.Name)), "%q looks like the file of a pipeline", p.Name)
	}
}

// checkTriggerParams checks the params that a trigger gives as those of the command line.
func (c *checker) checkTriggerParams(key, n *yaml.Node) {
	if c.env == nil {
		return
	}
	given := c.pipeline.Triggers[key.Value].Params
	for name, at := range document.Entries(n, "params") {
		decl, ok := c.pipeline.Params[name.Value]
		if !ok {
			c.src.Errorf(name, "param", suggest.Hint(name.Value, slices.Collect(maps.Keys(c.pipeline.Params))), "`%s` is not a parameter of this pipeline", name.Value)
			continue
		}
		if v, ok := given[name.Value]; ok {
			c.checkParamValue(at, name.Value, decl, v)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.pipeline.Params)) {
		if mustBeGiven(c.pipeline.Params[name]) && document.Lookup(n, "params", name) == nil {
			c.src.Errorf(key, "param", "write `params: {"+name+": ...}`, or give it a default", "the parameter `%s` has no default, and the trigger `%s` does not set it", name, key.Value)
		}
	}
}

// checkParamValue checks a value that is written for a parameter.
func (c *checker) checkParamValue(at *yaml.Node, name string, decl spec.Param, v any) {
	if c.env == nil || expr.ParamType(decl) == nil || c.d.HoldsMisspelt(at) {
		return // reported
	}
	if _, message := convertParam(decl, v, c.env); message != "" {
		c.src.Errorf(at, "param", "", "the parameter `%s` %s", name, message)
	}
}

// mustBeGiven reports whether a parameter has no default and cannot be left out.
func mustBeGiven(decl spec.Param) bool {
	return decl.Default == nil && !decl.Optional() && expr.ParamType(decl) != nil
}

// ConcurrencyGroup returns the group of a run with these params; it is empty if the pipeline has none.
func (p *Program) ConcurrencyGroup(params map[string]any) (string, error) {
	group := p.concurrency.Get("group")
	if group == nil {
		return "", nil
	}
	v, err := group.Resolve(p.names(nil, spec.Vars{Params: params}))
	if err != nil {
		return "", fmt.Errorf("concurrency: %w", err)
	}
	name, ok := v.(string)
	if !ok || name == "" || len(name) > maxGroup {
		return "", fmt.Errorf("concurrency: the group is %q: it must be a string of 1 to %d bytes", v, maxGroup)
	}
	return name, nil
}

const maxGroup = 200

// checkConcurrency reports a group that is no name.
func (c *checker) checkConcurrency() {
	if at := document.Lookup(c.root, "concurrency", "group"); at != nil && at.Kind == yaml.ScalarNode && (at.Value == "" || len(at.Value) > maxGroup) {
		c.src.Errorf(at, "name", "", "the name of a group has 1 to %d bytes", maxGroup)
	}
}

// checkKeep reports a `keep` that would keep nothing.
func (c *checker) checkKeep() {
	if at := document.Lookup(c.root, "keep"); at != nil && at.Kind == yaml.MappingNode && len(at.Content) == 0 {
		c.src.Errorf(at, "required", "set `runs`, `days` or both; remove `keep` to keep all runs", "`keep` has neither `runs` nor `days`")
	}
}
