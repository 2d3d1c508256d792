package spec

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/exactjson"
)

// Typed is a parameter's value as a person typed it.
type Typed string

// Convert reads a value as the parameter's type: one that was typed, or plain data. message says why it cannot.
func (p Param) Convert(value any) (v any, message string) {
	switch p.Type {
	case "list":
		return p.convertList(value)
	case "map":
		return p.convertMap(value)
	case "dataset", "model":
		return p.convertArtifact(value)
	}
	v, err := convertScalar(p.Type, value)
	if err != nil {
		return nil, "is " + whyNot(err, value, p.what())
	}
	return v, p.bounds(v)
}

// whyNot says why a value cannot be read as what it must be.
func whyNot(err error, value any, must string) string {
	if spelling, ok := errors.AsType[*SpellingError](err); ok {
		return fmt.Sprintf("`%s`, which %s: write %s", spelling.Written, disputed, spelling.Decimal)
	}
	return fmt.Sprintf("%s, but must be %s", quoted(value), must)
}

// what the parameter is, for messages.
func (p Param) what() string {
	switch p.Type {
	case "duration":
		return "a duration such as 90s or 1h30m"
	case "timestamp":
		return "a timestamp such as 2026-01-31T12:00:00Z"
	}
	return Article(p.Type)
}

// bounds says which of the parameter's bounds a value breaks.
func (p Param) bounds(v any) string {
	var number float64
	switch v := v.(type) {
	case int64:
		number = float64(v)
	case float64:
		number = v
	case string:
		if p.Type == "enum" && !slices.Contains(p.Values, v) {
			return fmt.Sprintf("is %q, but must be one of %s", v, strings.Join(p.Values, ", "))
		}
		if p.Pattern != "" && !regexp.MustCompile(`^(?:`+p.Pattern+`)$`).MatchString(v) {
			return fmt.Sprintf("is %q, but must match %s", v, p.Pattern)
		}
		return ""
	default:
		return ""
	}
	switch {
	case p.Min != nil && number < *p.Min:
		return fmt.Sprintf("is %s, but must be at least %s", FormatDouble(number), FormatDouble(*p.Min))
	case p.Max != nil && number > *p.Max:
		return fmt.Sprintf("is %s, but must be at most %s", FormatDouble(number), FormatDouble(*p.Max))
	}
	return ""
}

var errWrongType = errors.New("wrong type")

// convertScalar reads a value as string, int, double, bool, duration or timestamp.
func convertScalar(typ string, value any) (any, error) {
	switch value := value.(type) {
	case Typed:
		if number := typ == "int" || typ == "double"; number {
			if strings.ContainsAny(string(value), "xX") { // ParseFloat reads 0x1p4
				return nil, strconv.ErrSyntax
			}
			decimal := WithoutLeadingZeros(strings.ReplaceAll(string(value), "_", ""))
			if _, err := parseParam(typ, decimal); err == nil && decimal != string(value) {
				return nil, &SpellingError{string(value), decimal}
			}
		}
		return parseParam(typ, string(value))
	case string:
		switch typ {
		case "string", "enum", "duration", "timestamp":
			return parseParam(typ, value)
		}
	case bool:
		switch typ {
		case "bool":
			return value, nil
		case "string", "enum":
			return strconv.FormatBool(value), nil
		}
	case int64:
		switch typ {
		case "int":
			return value, nil
		case "double":
			return float64(value), nil
		case "string", "enum":
			return strconv.FormatInt(value, 10), nil
		}
	case int:
		return convertScalar(typ, int64(value))
	case float64:
		switch {
		case typ == "double" && !math.IsNaN(value) && !math.IsInf(value, 0):
			return value, nil
		case typ == "string" || typ == "enum":
			return FormatDouble(value), nil
		case typ == "int" && value == math.Trunc(value) && math.Abs(value) < 1<<63:
			return int64(value), nil
		}
	case json.Number:
		return parseParam(typ, value.String())
	case Duration:
		if typ == "duration" {
			return value.String(), nil
		}
	}
	return nil, errWrongType
}

// parseParam reads what was typed for a parameter, or for a field of a form.
func parseParam(typ, text string) (any, error) {
	switch typ {
	case "int":
		return strconv.ParseInt(text, 10, 64)
	case "double":
		f, err := strconv.ParseFloat(text, 64)
		if err == nil && (math.IsNaN(f) || math.IsInf(f, 0)) {
			err = strconv.ErrRange
		}
		return f, err
	case "bool":
		if text != "true" && text != "false" {
			return nil, strconv.ErrSyntax
		}
		return text == "true", nil
	case "duration":
		d, err := ParseDuration(text)
		return d.String(), err
	case "timestamp":
		at, err := time.Parse(time.RFC3339Nano, text)
		return at.UTC().Format(time.RFC3339Nano), err
	}
	return text, nil
}

// convertList reads a list: JSON, or a,b,c when it was typed.
func (p Param) convertList(value any) (any, string) {
	var items []any
	switch given := value.(type) {
	case []any:
		items = given
	case Typed:
		text := strings.TrimSpace(string(given))
		if !strings.HasPrefix(text, "[") {
			items = splitList(text)
			break
		}
		if err := exactjson.Unmarshal([]byte(text), &items); err != nil {
			return nil, fmt.Sprintf("is not a list: %s; write [1, 2] as JSON, or 1,2", err)
		}
	default:
		return nil, fmt.Sprintf("is %s, but must be a list", quoted(value))
	}
	out := make([]any, len(items))
	for i, item := range items {
		v, err := convertScalar(p.items(), item)
		if err != nil {
			return nil, "holds " + whyNot(err, item, "a list of "+p.items())
		}
		out[i] = v
	}
	return out, ""
}

func splitList(text string) []any {
	if text == "" {
		return nil
	}
	var items []any
	for item := range strings.SplitSeq(text, ",") {
		items = append(items, Typed(strings.TrimSpace(item)))
	}
	return items
}

// convertMap reads a map: JSON when it was typed.
func (p Param) convertMap(value any) (any, string) {
	var entries map[string]any
	switch given := value.(type) {
	case map[string]any:
		entries = given
	case Typed:
		if err := exactjson.Unmarshal([]byte(given), &entries); err != nil || entries == nil {
			return nil, fmt.Sprintf("is %q, but must be a map, written as JSON: {\"a\": 1}", string(given))
		}
		if key, twice := exactjson.RepeatedKey([]byte(given)); twice {
			return nil, fmt.Sprintf("has the key `%s` twice", key)
		}
	default:
		return nil, fmt.Sprintf("is %s, but must be a map", quoted(value))
	}
	out := make(map[string]any, len(entries))
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		v, err := convertScalar(p.items(), entries[key])
		if err != nil {
			return nil, fmt.Sprintf("has %s for %q, but must be a map of %s", quoted(entries[key]), key, p.items())
		}
		out[key] = v
	}
	return out, ""
}

func (p Param) items() string {
	if p.Items == "" {
		return "string"
	}
	return p.Items
}

// convertArtifact reads a reference to an artifact.
func (p Param) convertArtifact(value any) (any, string) {
	ref, ok := value.(artifact.Ref)
	if !ok {
		if err := Fill(&ref, value); err != nil {
			return nil, fmt.Sprintf("must be a %s", p.Type)
		}
	}
	if string(ref.Type) != p.Type || ref.Digest == "" {
		return nil, fmt.Sprintf("must be a %s", p.Type)
	}
	return ref, ""
}

// quoted shows a value in a message.
func quoted(value any) string {
	switch value := value.(type) {
	case nil:
		return "null"
	case Typed:
		return strconv.Quote(string(value))
	case string:
		return strconv.Quote(value)
	case float64:
		return FormatDouble(value)
	case []any:
		return "a list"
	case map[string]any:
		return "a map"
	}
	return fmt.Sprint(value)
}

var lookaround = regexp.MustCompile(`^\(\?<?[=!]`)

// RegexpProblem is what is wrong with a regular expression, without the words of the library.
func RegexpProblem(err error) string {
	if problem, ok := errors.AsType[*syntax.Error](err); ok {
		if lookaround.MatchString(problem.Expr) {
			return fmt.Sprintf("RE2 has no lookahead and no lookbehind: `%s`", problem.Expr)
		}
		return fmt.Sprintf("%s: `%s`", problem.Code, problem.Expr)
	}
	return err.Error()
}

// Written is a plain value as it would be typed on the command line.
func Written(v any) string {
	switch v := v.(type) {
	case float64:
		return FormatDouble(v)
	case []any, map[string]any:
		if raw, err := Encode(v); err == nil {
			return string(raw)
		}
	}
	return fmt.Sprint(v)
}

// SpellingError is a number that readers of YAML do not agree on: 010 is 8 in YAML 1.1 and 10 in YAML 1.2, 1_000 is a number in the one
// and a text in the other.
type SpellingError struct{ Written, Decimal string }

const disputed = "is read as different numbers by different YAML parsers"

func (e *SpellingError) Error() string { return fmt.Sprintf("`%s` %s", e.Written, disputed) }

var leadingZero = regexp.MustCompile(`^[-+]?0[0-9]`)

// WithoutLeadingZeros drops the zeros that a number begins with.
func WithoutLeadingZeros(number string) string {
	for leadingZero.MatchString(number) {
		number = strings.Replace(number, "0", "", 1)
	}
	return number
}
