package dsl

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/advice"
	"github.com/sluiceml/sluice/dsl/decode"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/suggest"
)

// Params checks the parameters that were given for a run on a command line, and fills in defaults. Values are plain JSON: string (also for
// a duration, a timestamp and an enum), int64, float64, bool, []any and map[string]any.
func (p *Program) Params(given map[string]string) (map[string]any, document.Diagnostics) {
	values := make(map[string]any, len(given))
	for name, text := range given {
		values[name] = spec.Typed(text)
	}
	return p.ChildParams(values)
}

// ChildParams checks the parameters that a parent pipeline passes, in their JSON form, and fills in defaults. Datasets and models are an
// artifact.Ref, or its JSON form.
func (p *Program) ChildParams(given map[string]any) (map[string]any, document.Diagnostics) {
	var diags document.Diagnostics
	bad := func(hint, format string, args ...any) {
		diags = append(diags, document.Diagnostic{Severity: document.SeverityError, Code: "param", Message: fmt.Sprintf(format, args...), Hint: hint})
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if _, ok := p.pipeline.Params[name]; !ok {
			bad(suggest.Hint(name, slices.Collect(maps.Keys(p.pipeline.Params))), "`%s` is not a parameter of %s", name, p.pipeline.Name)
		}
	}
	out := make(map[string]any, len(p.pipeline.Params))
	for _, name := range slices.Sorted(maps.Keys(p.pipeline.Params)) {
		decl := p.pipeline.Params[name]
		value, isGiven := given[name]
		_, byHand := value.(spec.Typed)
		switch {
		case !isGiven && decl.Optional():
			continue
		case !isGiven && decl.Default == nil:
			bad(fmt.Sprintf("give it with -p %s=VALUE", name), "the parameter `%s` (%s) has no default and was not given", name, decl.Type)
			continue
		case byHand && expr.IsArtifact(decl.Type):
			bad("", "the parameter `%s` is a %s, which only a parent pipeline can pass", name, decl.Type)
			continue
		case !isGiven:
			value = decl.Default
		}
		v, message := convertParam(decl, value, p.env)
		if message != "" {
			bad("", "the parameter `%s` %s", name, message)
			continue
		}
		out[name] = v
	}
	return out, diags
}

// convertParam reads a value as a parameter's type, and finds the secret that it names; message says why it cannot.
func convertParam(decl spec.Param, value any, env *spec.Environment) (v any, message string) {
	v, message = decl.Convert(value)
	if message != "" || !decl.Secret {
		return v, message
	}
	if _, ok := env.Secrets[fmt.Sprint(v)]; !ok {
		return nil, fmt.Sprintf("names the secret %q, which the environment `%s` does not have", v, env.Name)
	}
	return v, ""
}

// checkParams checks declarations and reports parameters nothing reads.
func (c *checker) checkParams() {
	node := document.Lookup(c.root, "params")
	// What could not be read may be what reads the parameter, as may be a script that an expression was written into.
	unread := slices.ContainsFunc(c.src.Findings, func(d document.Diagnostic) bool {
		return slices.Contains([]string{"syntax", "interpolation", "name", "tag", "unknown-key", "type", "reserved", "script", "literal", "duplicate", "kind"}, d.Code) || strings.HasPrefix(d.Hint, givenToChild)
	}) || document.Lookup(c.root, "steps") == nil
	isMeant := func(name string) bool { // by one that there is not
		return slices.ContainsFunc(c.src.Findings, func(d document.Diagnostic) bool {
			return (d.Code == "param" || d.Code == "template") && strings.Contains(d.Hint, name)
		})
	}
	for name, p := range c.pipeline.Params {
		at := document.Lookup(node, name)
		if at == nil {
			continue
		}
		if c.checkParam(name, p) && p.Default != nil && !c.d.HoldsMisspelt(document.Lookup(at, "default")) {
			if _, message := p.Convert(p.Default); message != "" {
				c.src.Errorf(document.Lookup(at, "default"), "param", likelyDefault(document.Lookup(at, "default"), p.Type), "the default of `%s` %s", name, message)
			}
		}
		if !c.usedParams[name] && !unread && !isMeant(name) {
			c.src.Warnf(document.KeyNode(node, name), "unused-param", "remove it, or read it as params."+name, "nothing reads the parameter `%s`", name)
		}
	}
}

// likelyDefault is a hint for a default that is not of the type of its parameter.
func likelyDefault(n *yaml.Node, typ string) string {
	switch {
	case typ == "duration":
		return "write " + advice.Duration(n.Value)
	case n.Kind == yaml.ScalarNode && (n.Value == "None" || n.Value == ""):
		return "write a value, or remove `default`"
	case typ == "list" && n.Kind == yaml.ScalarNode:
		return "write [" + strings.Trim(n.Value, "[] ") + "]"
	}
	of := map[string]reflect.Type{"bool": boolType, "int": reflect.TypeFor[int](), "double": reflect.TypeFor[float64](), "timestamp": spec.TimeType}[typ]
	if of == nil || n.Kind != yaml.ScalarNode {
		return ""
	}
	return decode.LikelyHint(n, of)
}

// checkParam reports keys that do not go with a parameter's type, or with each other.
func (c *checker) checkParam(name string, p spec.Param) bool {
	at := document.Lookup(c.root, "params", name)
	bad := func(key, hint, format string, args ...any) bool {
		c.src.Errorf(document.KeyNode(at, key), "param", hint, format, args...)
		return false
	}
	number := p.Type == "int" || p.Type == "double"
	has := func(key string) bool { return document.Lookup(at, key) != nil }
	switch {
	case p.Type == "":
		return false // reported
	case !number && (has("min") || has("max")):
		key := "min"
		if !has("min") {
			key = "max"
		}
		return bad(key, "remove it", "`min` and `max` are only allowed for an int or a double, and `%s` is %s", name, spec.Article(p.Type))
	case p.Min != nil && p.Max != nil && *p.Min > *p.Max:
		return bad("max", "", "`%s` has `min: %s` and `max: %s`, so no value is allowed", name, spec.FormatDouble(*p.Min), spec.FormatDouble(*p.Max))
	case has("items") && p.Type != "list" && p.Type != "map":
		return bad("items", "remove it", "`items` is only allowed for a list or a map, and `%s` is %s", name, spec.Article(p.Type))
	case has("values") && p.Type != "enum":
		return bad("values", "write `type: enum`", "`values` is only allowed for an enum, and `%s` is %s", name, spec.Article(p.Type))
	case p.Type == "enum" && has("values") && document.Lookup(at, "values").Kind != yaml.SequenceNode:
		return false // reported
	case p.Type == "enum" && len(p.Values) == 0:
		return bad("type", "add `values: [a, b]`", "the enum `%s` has no values", name)
	case has("pattern") && p.Type != "string":
		return bad("pattern", "remove it", "`pattern` is only allowed for a string, and `%s` is %s", name, spec.Article(p.Type))
	case p.Secret && p.Type != "string":
		return bad("secret", "write `type: string`", "a secret parameter holds the name of a secret and is a string, and `%s` is %s", name, spec.Article(p.Type))
	case expr.IsArtifact(p.Type) && has("default"):
		return bad("default", "remove it", "the %s `%s` is passed by a parent pipeline and cannot have a default", p.Type, name)
	case p.Default != nil && p.Required != nil && *p.Required:
		return bad("required", "remove one of them", "`%s` is required, so its default would never be used", name)
	}
	if _, err := regexp.Compile(p.Pattern); err != nil {
		c.src.Errorf(document.Lookup(at, "pattern"), "param", "", "the pattern of `%s` is not a valid regular expression: %s", name, spec.RegexpProblem(err))
		return false
	}
	return true
}
