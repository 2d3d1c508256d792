package spec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Key is a key of a document, as a field of a spec struct says it. Such a struct says what a document may hold: the json tag names a
// key, the Go type its value, and the dsl tag its rules, as in `dsl:"default=1,min=1"`. A key whose json tag has no omitempty or omitzero
// must be there. The rules:
//
//	default=X   the value when it is absent
//	enum=a|b    the values allowed
//	min=, max=  bounds of a number
//	literal     no ${}: it must be known before a run starts; artifacts below it cannot be, and are not meant
//	raw         ${} is not special: the text belongs to another language
//	names       the map's keys, or the list's items, are identifiers
//	labels      the map's keys are identifiers that may have hyphens, since no expression reads them
//	metrics     the list's items are names of metrics
//	bool        an expression that must be a bool
//	choice      one of a struct's keys with this rule must be there, and no other of them
//	single      one value may stand for a list of one
//	artifact=T  only an artifact of that type
//
// A dsl tag of "-" means that the field is no key of a document.
type Key struct {
	Name  string
	Index []int
	Type  reflect.Type
	Rules Rules
	// Required: the key must be there.
	Required bool
}

// Rules are those of a field's dsl tag; Key lists them.
type Rules struct {
	Literal, Raw, Names, Labels, Metrics, Bool, Choice, Single bool
	Default                                                    string
	Enum                                                       []string
	Min, Max                                                   *float64
	Artifact                                                   string
}

func parseRules(tag string) (Rules, error) {
	var r Rules
	if tag == "" {
		return r, nil
	}
	flags := map[string]*bool{
		"literal": &r.Literal, "raw": &r.Raw, "names": &r.Names, "labels": &r.Labels, "metrics": &r.Metrics, "bool": &r.Bool, "choice": &r.Choice, "single": &r.Single,
	}
	for item := range strings.SplitSeq(tag, ",") {
		key, value, _ := strings.Cut(item, "=")
		if flag := flags[key]; flag != nil {
			*flag = true
			continue
		}
		switch key {
		case "default":
			r.Default = value
		case "enum":
			r.Enum = strings.Split(value, "|")
		case "artifact":
			r.Artifact = value
		case "min", "max":
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return r, fmt.Errorf("%s: %w", item, err)
			}
			if key == "min" {
				r.Min = &v
			} else {
				r.Max = &v
			}
		default:
			return r, fmt.Errorf("unknown rule %q", item)
		}
	}
	return r, nil
}

var fieldCache sync.Map // reflect.Type to []field

// KeysOf lists the keys of a spec struct in the order of its fields, those of embedded structs in their place.
func KeysOf(t reflect.Type) []Key {
	if cached, ok := fieldCache.Load(t); ok {
		return cached.([]Key)
	}
	var fields []Key
	for sf := range t.Fields() {
		if !sf.IsExported() {
			continue
		}
		if sf.Anonymous {
			for _, inner := range KeysOf(sf.Type) {
				inner.Index = append(slices.Clone(sf.Index), inner.Index...)
				fields = append(fields, inner)
			}
			continue
		}
		name, options, _ := strings.Cut(sf.Tag.Get("json"), ",")
		if name == "" || name == "-" || sf.Tag.Get("dsl") == "-" {
			continue
		}
		r, err := parseRules(sf.Tag.Get("dsl"))
		if err != nil {
			panic(fmt.Sprintf("dsl: %s.%s: %v", t, sf.Name, err)) // a mistake in this package, found by any test
		}
		fields = append(fields, Key{Name: name, Index: sf.Index, Type: sf.Type, Rules: r, Required: !strings.HasPrefix(options, "omit")})
	}
	fieldCache.Store(t, fields)
	return fields
}

// Choices are the names of a spec struct's keys of which exactly one must be there.
func Choices(t reflect.Type) (names []string) {
	for _, f := range KeysOf(t) {
		if f.Rules.Choice {
			names = append(names, f.Name)
		}
	}
	return names
}

// KeyNames are the names of keys, in their order.
func KeyNames(fields []Key) []string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.Name
	}
	return names
}

// SetDefaults fills what is zero and has a default, at any depth.
func SetDefaults(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			SetDefaults(v.Elem())
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Struct {
			for i := range v.Len() {
				SetDefaults(v.Index(i))
			}
		}
	case reflect.Map:
		if v.Type().Elem().Kind() != reflect.Struct {
			return
		}
		for _, key := range v.MapKeys() {
			elem := reflect.New(v.Type().Elem()).Elem()
			elem.Set(v.MapIndex(key))
			SetDefaults(elem)
			v.SetMapIndex(key, elem)
		}
	case reflect.Struct:
		for _, f := range KeysOf(v.Type()) {
			target := v.FieldByIndex(f.Index)
			if f.Rules.Default != "" && target.IsZero() {
				setDefault(target, f.Rules.Default)
			}
			SetDefaults(target)
		}
	}
}

// DefaultsOf returns a spec struct with the defaults of its keys; what is decoded into it overrides them, also with zero.
func DefaultsOf[S any]() S {
	var spec S
	SetDefaults(reflect.ValueOf(&spec))
	return spec
}

func setDefault(v reflect.Value, text string) {
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if v.Kind() == reflect.Slice { // of one
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		v = v.Index(0)
	}
	parsed, err := ParseScalar(v.Type(), text)
	if err != nil {
		panic(fmt.Sprintf("dsl: default %q of a %s: %v", text, v.Type(), err)) // a mistake in this package, found by any test
	}
	v.Set(reflect.ValueOf(parsed).Convert(v.Type()))
}

// The types of values that have a written form of their own.
var (
	DurationType = reflect.TypeFor[Duration]()
	ShareType    = reflect.TypeFor[Share]()
	SizeType     = reflect.TypeFor[Size]()
	ExprType     = reflect.TypeFor[Expr]()
	TimeType     = reflect.TypeFor[time.Time]()
)

// ParseScalar reads the written form of a value of type t.
func ParseScalar(t reflect.Type, text string) (any, error) {
	switch t {
	case DurationType:
		return ParseDuration(text)
	case ShareType:
		return ParseShare(text)
	case SizeType:
		return ParseSize(text)
	case TimeType:
		return parseTimestamp(text)
	}
	switch t.Kind() {
	case reflect.String:
		return text, nil
	case reflect.Bool:
		return strconv.ParseBool(text)
	case reflect.Int, reflect.Int64:
		return strconv.ParseInt(text, 10, 64)
	case reflect.Float64:
		return strconv.ParseFloat(text, 64)
	}
	return nil, fmt.Errorf("a %s has no written form", t)
}

// Encode writes JSON without escaping <, > and &: commands and patterns stay readable in history.
func Encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// Fill sets target from plain data, as encoding/json would.
func Fill(target any, data any) error {
	raw, err := json.Marshal(data)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	return dec.Decode(target)
}
