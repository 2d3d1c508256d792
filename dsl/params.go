package dsl

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// Params checks the parameters given for a run and fills in defaults. Values are string, int64, float64 or bool.
func (p *Program) Params(given map[string]string) (map[string]any, Diagnostics) {
	var diags Diagnostics
	bad := func(hint, format string, args ...any) {
		diags = append(diags, Diagnostic{Severity: SeverityError, Code: "param", Message: fmt.Sprintf(format, args...), Hint: hint})
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if _, ok := p.params[name]; !ok {
			bad(suggest(name, slices.Collect(maps.Keys(p.params))), "`%s` is not a parameter of %s", name, p.pipeline.Name)
		}
	}
	out := make(map[string]any, len(p.params))
	for _, name := range slices.Sorted(maps.Keys(p.params)) {
		decl := p.params[name]
		value, isGiven := given[name]
		switch {
		case !isGiven && decl.Default == nil:
			bad(fmt.Sprintf("give it with -p %s=VALUE", name), "the parameter `%s` (%s) has no default and was not given", name, decl.Type)
			continue
		case !isGiven:
			value = written(decl.Default)
		}
		v, message := decl.convert(value)
		if message != "" {
			bad("", "the parameter `%s` %s", name, message)
			continue
		}
		out[name] = v
	}
	return out, diags
}

// convert reads a written value as the parameter's type; message says why it cannot.
func (p Param) convert(value string) (v any, message string) {
	var err error
	var number float64
	switch p.Type {
	case "int":
		var n int64
		n, err = strconv.ParseInt(value, 10, 64)
		v, number = n, float64(n)
	case "double":
		number, err = strconv.ParseFloat(value, 64)
		if err == nil && number-number != 0 { // NaN and the infinities
			err = strconv.ErrRange
		}
		v = number
	case "bool":
		v = value == "true"
		if value != "true" && value != "false" {
			err = strconv.ErrSyntax
		}
	default:
		return value, ""
	}
	switch {
	case err != nil:
		return nil, fmt.Sprintf("is %q, and must be %s", value, article(p.Type))
	case p.Type != "bool" && p.Min != nil && number < *p.Min:
		return nil, fmt.Sprintf("is %s, and must be at least %s", value, formatDouble(*p.Min))
	case p.Type != "bool" && p.Max != nil && number > *p.Max:
		return nil, fmt.Sprintf("is %s, and must be at most %s", value, formatDouble(*p.Max))
	}
	return v, ""
}

// written is a default as it would be given on the command line.
func written(v any) string {
	if f, ok := v.(float64); ok {
		return formatDouble(f)
	}
	return fmt.Sprint(v)
}
