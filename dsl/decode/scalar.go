package decode

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/suggest"
)

// scalar reads a literal.
func (d *Decoder) scalar(n *yaml.Node, t reflect.Type, r spec.Rules) expr.Value {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		d.Source.Errorf(n, "type", d.textHint(n, t), "expected %s, not %s", expr.Expected{Type: t}, document.NodeKind(n))
		return nil
	}
	switch t {
	case spec.DurationType, spec.ShareType, spec.SizeType, spec.TimeType:
		v, err := spec.ParseScalar(t, n.Value)
		if err != nil {
			d.Source.Errorf(n, map[reflect.Type]string{
				spec.DurationType: "duration", spec.ShareType: "share", spec.SizeType: "size", spec.TimeType: "timestamp",
			}[t], cmp.Or(d.durationHint(n, t), LikelyHint(n, t)), "%s", err)
			return nil
		}
		return expr.Literal{Value: v}
	}
	v, err := d.plain(n, t)
	if err != nil {
		d.Source.Errorf(n, "type", cmp.Or(spellingHint(err), d.gpuHint(n), numberHint(n, t), LikelyHint(n, t)), "%s", err)
		return nil
	}
	if s, ok := v.(string); ok {
		if !d.inEnum(n, s, r) {
			return nil
		}
		d.checkLiteral(n, r)
	}
	if !d.inRange(n, v, r) {
		return nil
	}
	return expr.Literal{Value: v}
}

// durationHint is a hint for a word in the place of a duration.
func (d *Decoder) durationHint(n *yaml.Node, t reflect.Type) string {
	switch word := strings.TrimPrefix(n.Value, "@"); {
	case t != spec.DurationType:
	case d.key == "every" && slices.Contains([]string{"hourly", "daily", "weekly", "monthly", "yearly"}, word):
		return "write `cron: \"@" + word + "\"` in place of `every`"
	case d.key == "backoff" && slices.Contains([]string{"exponential", "linear"}, word):
		return "write the delay before the second attempt, such as 5s: it doubles for each further one"
	}
	return ""
}

// plain reads a string, bool or number. A string may be written as a number or a bool, as it often is in `env` and `command`.
func (d *Decoder) plain(n *yaml.Node, t reflect.Type) (any, error) {
	mismatch := fmt.Errorf("expected %s, not %s", expr.Expected{Type: t}, document.NodeKind(n))
	switch t.Kind() {
	case reflect.String:
		return n.Value, nil
	case reflect.Bool:
		if n.Tag != "!!bool" {
			return nil, mismatch
		}
		return strings.EqualFold(n.Value, "true"), nil
	case reflect.Int, reflect.Int64:
		if decimal := decimalOf(n); decimal != "" {
			return nil, &spec.SpellingError{Written: n.Value, Decimal: decimal}
		}
		v, err := strconv.ParseInt(n.Value, 0, 64)
		if errors.Is(err, strconv.ErrRange) {
			return nil, fmt.Errorf("%s is too large", n.Value)
		}
		if n.Tag != "!!int" || err != nil {
			return nil, mismatch
		}
		return v, nil
	case reflect.Float64:
		if decimal := decimalOf(n); decimal != "" {
			return nil, &spec.SpellingError{Written: n.Value, Decimal: decimal}
		}
		v, err := strconv.ParseFloat(n.Value, 64)
		if n.Tag != "!!float" && n.Tag != "!!int" || err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, mismatch
		}
		return v, nil
	}
	return nil, mismatch
}

func (d *Decoder) inEnum(n *yaml.Node, s string, r spec.Rules) bool {
	switch {
	case len(r.Enum) == 0 || slices.Contains(r.Enum, s):
		return true
	case len(r.Enum) == 1:
		d.Source.Errorf(n, "enum", "", "this must be %s, not %q", r.Enum[0], s)
	default:
		d.Source.Errorf(n, "enum", cmp.Or(enumHint(s, r.Enum), suggest.DidYouMean(s, r.Enum)), "%q is not one of %s", s, strings.Join(r.Enum, ", "))
	}
	return false
}

func (d *Decoder) inRange(n *yaml.Node, v any, r spec.Rules) bool {
	var x float64
	switch v := v.(type) {
	case int64:
		x = float64(v)
	case float64:
		x = v
	default:
		return true
	}
	switch {
	case r.Min != nil && x < *r.Min:
		d.Source.Errorf(n, "range", "", "%s is less than the minimum, %s", n.Value, spec.FormatDouble(*r.Min))
	case r.Max != nil && x > *r.Max:
		d.Source.Errorf(n, "range", "", "%s is more than the maximum, %s", n.Value, spec.FormatDouble(*r.Max))
	default:
		return true
	}
	return false
}

// stringInside is a string of CEL.
var stringInside = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'`)

// wholeInBraces is an expression in braces, and nothing beside it.
var wholeInBraces = regexp.MustCompile(`^\s*\$\{+\s*([^{}$]*?)\s*\}+\s*$`)

// Expression reads a CEL expression that stands without ${}.
func (d *Decoder) Expression(n *yaml.Node, r spec.Rules) expr.Value {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		d.Source.Errorf(n, "type", d.textHint(n, spec.ExprType), "expected an expression, not %s", document.NodeKind(n))
		return nil
	}
	if before, _, found := strings.Cut(n.Value, "${"); found && !quoteIsOpen(before) {
		hint := "write it without `${` and `}`"
		if m := wholeInBraces.FindStringSubmatch(n.Value); m != nil {
			hint += ": " + m[1]
		}
		d.Source.Errorf(n, "interpolation", hint, "this is an expression already")
		return nil
	}
	if n.Style == 0 && n.LineComment != "" && strings.ContainsAny(stringInside.ReplaceAllString(n.Value, ""), `"'`) {
		d.Source.Errorf(n, "syntax", "quote the whole expression", "the expression ends before `%s`, which YAML takes for a comment", n.LineComment)
		return nil
	}
	if d.key == "foreach" && commaList.MatchString(n.Value) {
		d.Source.Errorf(n, "syntax", "write foreach: '[\""+strings.Join(regexp.MustCompile(`, *`).Split(n.Value, -1), "\", \"")+"\"]'", "this is not an expression that gives a list")
		return nil
	}
	if d.checkForeign(n) {
		return nil
	}
	w := expr.Expected{}
	if r.Bool {
		w.Type = goBool
	}
	d.add(n, n.Value, 0, d.Scope, w)
	return expr.Literal{Value: n.Value}
}

func (d *Decoder) add(n *yaml.Node, text string, start int, s expr.Scope, w expr.Expected) *expr.Expression {
	e := &expr.Expression{Text: text, Node: n, Start: start, Scope: s, Expected: w}
	if d.met++; d.met > maxExprs {
		if d.met == maxExprs+1 {
			d.Source.Errorf(n, "limit", "split it into several pipelines", "the document has more than %d expressions", maxExprs)
		}
		return e // no run starts, so that nobody misses it
	}
	d.Expressions = append(d.Expressions, e)
	return e
}

// Interpolate reads a scalar that holds ${}.
func (d *Decoder) Interpolate(n *yaml.Node, w expr.Expected) expr.Value {
	if len(n.Value) > maxText {
		d.Source.Errorf(n, "limit", "move it to a file", "a string with ${} is longer than %d bytes", maxText)
		return nil
	}
	parts, broken := splitText(n.Value)
	if broken != nil {
		d.Source.AddAt(document.SeverityError, n, broken.offset, "interpolation", "write `$${` for a literal `${`", broken.message)
		return nil
	}
	exprs := slices.ContainsFunc(parts, func(p part) bool { return p.expr != "" })
	switch {
	case exprs && d.fixed:
		d.Source.Errorf(n, "literal", "write the value itself", "this must be known before a run starts, so ${} is not allowed")
		return nil
	case !exprs && w.IsText():
		return expr.Literal{Value: strings.ReplaceAll(n.Value, "$${", "${")}
	case len(parts) == 1 && exprs:
		return expr.Computed{Expr: d.add(n, parts[0].expr, parts[0].offset, expr.ScopePlain, w)}
	case !w.IsText():
		hint := "write the whole value as a single ${}"
		if w.Type != nil && w.Type.Kind() == reflect.Slice {
			hint = d.listHint(n, w.Type.Elem())
		}
		d.Source.Errorf(n, "type", hint, "this is a string, but expected %s", w)
		return nil
	}
	var out expr.Template
	for _, p := range parts {
		if p.expr == "" {
			out = append(out, expr.TemplatePart{Literal: p.literal})
			continue
		}
		out = append(out, expr.TemplatePart{Expr: d.add(n, p.expr, p.offset, expr.ScopePlain, expr.Expected{Type: goString, InText: true})})
	}
	return out
}

// aNumber is a number with what people write around one: a currency, a host, a unit that is no scale.
var aNumber = regexp.MustCompile(`^(?:\$|.*:)?([0-9]+(?:[.,][0-9]+)?) ?(?:(?i)(?:v?cpus?|gpus?|cores?|nodes?|days?|d|runs?|usd|\$|%|times)(?:/h)?)?$`)

// numberHint is how the number in a text is written.
func numberHint(n *yaml.Node, t reflect.Type) string {
	m := aNumber.FindStringSubmatch(n.Value)
	if m == nil || n.Tag != "!!str" {
		return ""
	}
	number := strings.Replace(m[1], ",", ".", 1)
	switch t.Kind() {
	case reflect.Int, reflect.Int64:
		if strings.Contains(number, ".") {
			return ""
		}
	case reflect.Float64:
	default:
		return ""
	}
	if number == n.Value {
		number += ", without quotes"
	}
	return "write " + number
}
