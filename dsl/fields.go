package dsl

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A spec struct says what a document may hold: the json tag names a key, the Go type its value, and the dsl tag its rules, as in
// `dsl:"default=1,min=1"`. A key whose json tag has no omitempty or omitzero must be there. The rules:
//
//	default=X   the value when it is absent
//	enum=a|b    the values allowed
//	min=, max=  bounds of a number
//	literal     no ${}: it must be known before a run starts; artifacts below it cannot be, and are not meant
//	raw         ${} is not special: the text belongs to another language
//	names       the map's keys, or the list's items, are identifiers
//	bool        an expression that must be a bool
//	single      one value may stand for a list of one
//	artifact=T  only an artifact of that type
//
// A dsl tag of "-" means that the field is no key of a document.
type field struct {
	name  string
	index []int
	typ   reflect.Type
	rules rules
	// required: the key must be there.
	required bool
}

type rules struct {
	literal, raw, names, boolean, single, percent bool
	byDefault                                     string
	enum                                          []string
	min, max                                      *float64
	artifact                                      string
}

func parseRules(tag string) (rules, error) {
	var r rules
	if tag == "" {
		return r, nil
	}
	for item := range strings.SplitSeq(tag, ",") {
		key, value, _ := strings.Cut(item, "=")
		switch key {
		case "literal":
			r.literal = true
		case "raw":
			r.raw = true
		case "percent":
			r.percent = true
		case "names":
			r.names = true
		case "bool":
			r.boolean = true
		case "single":
			r.single = true
		case "default":
			r.byDefault = value
		case "enum":
			r.enum = strings.Split(value, "|")
		case "artifact":
			r.artifact = value
		case "min", "max":
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return r, fmt.Errorf("%s: %w", item, err)
			}
			if key == "min" {
				r.min = &v
			} else {
				r.max = &v
			}
		default:
			return r, fmt.Errorf("unknown rule %q", item)
		}
	}
	return r, nil
}

var fieldCache sync.Map // reflect.Type to []field

// fieldsOf lists the keys of a spec struct in the order of its fields, those of embedded structs in their place.
func fieldsOf(t reflect.Type) []field {
	if cached, ok := fieldCache.Load(t); ok {
		return cached.([]field)
	}
	var fields []field
	for sf := range structFields(t) {
		if sf.Anonymous {
			for _, inner := range fieldsOf(sf.Type) {
				inner.index = append(slices.Clone(sf.Index), inner.index...)
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
		fields = append(fields, field{name: name, index: sf.Index, typ: sf.Type, rules: r, required: !strings.HasPrefix(options, "omit")})
	}
	fieldCache.Store(t, fields)
	return fields
}

func structFields(t reflect.Type) func(yield func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if sf := t.Field(i); sf.IsExported() && !yield(sf) {
				return
			}
		}
	}
}

func fieldNames(fields []field) []string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	return names
}

// setDefaults fills what is zero and has a default, at any depth.
func setDefaults(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			setDefaults(v.Elem())
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Struct {
			for i := range v.Len() {
				setDefaults(v.Index(i))
			}
		}
	case reflect.Map:
		if v.Type().Elem().Kind() != reflect.Struct {
			return
		}
		for _, key := range v.MapKeys() {
			elem := reflect.New(v.Type().Elem()).Elem()
			elem.Set(v.MapIndex(key))
			setDefaults(elem)
			v.SetMapIndex(key, elem)
		}
	case reflect.Struct:
		for _, f := range fieldsOf(v.Type()) {
			target := v.FieldByIndex(f.index)
			if f.rules.byDefault != "" && target.IsZero() {
				setDefault(target, f.rules.byDefault)
			}
			setDefaults(target)
		}
	}
}

// DefaultsOf returns a spec struct with the defaults of its keys; what is decoded into it overrides them, also with zero.
func DefaultsOf[S any]() S {
	var spec S
	setDefaults(reflect.ValueOf(&spec))
	return spec
}

func setDefault(v reflect.Value, text string) {
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	parsed, err := parseScalar(v.Type(), text)
	if err != nil {
		panic(fmt.Sprintf("dsl: default %q of a %s: %v", text, v.Type(), err)) // a mistake in this package, found by any test
	}
	v.Set(reflect.ValueOf(parsed).Convert(v.Type()))
}

// The types of values that have a written form of their own.
var (
	durationType = reflect.TypeFor[Duration]()
	shareType    = reflect.TypeFor[Share]()
	sizeType     = reflect.TypeFor[Size]()
	exprType     = reflect.TypeFor[Expr]()
	timeType     = reflect.TypeFor[time.Time]()
)

// parseScalar reads the written form of a value of type t.
func parseScalar(t reflect.Type, text string) (any, error) {
	switch t {
	case durationType:
		return ParseDuration(text)
	case shareType:
		return ParseShare(text)
	case sizeType:
		return ParseSize(text)
	case timeType:
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
