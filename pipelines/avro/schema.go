package avro

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/sluiceml/sluice/pipelines/columns"
)

// kind is how a value is encoded.
type kind int

const (
	kindNull kind = iota + 1
	kindBool
	kindInt
	kindLong
	kindFloat
	kindDouble
	kindBytes
	kindString
	kindFixed
	kindEnum
	kindArray
	kindMap
	kindUnion
	kindRecord
)

var primitives = map[string]kind{
	"null": kindNull, "boolean": kindBool, "int": kindInt, "long": kindLong, "float": kindFloat, "double": kindDouble,
	"bytes": kindBytes, "string": kindString,
}

// schema is a compiled schema. Named schemas can contain themselves.
type schema struct {
	kind kind
	// typ is the type of the values in a row. It is nil for null, unions, arrays, maps and records.
	typ   *columns.Type
	items *schema // of an array or a map
	parts []*schema
	names []string // of the fields of a record, or of the symbols of an enum
	size  int      // of a fixed
}

// The limits of a schema: the size of its text in bytes, and how deeply it nests.
const (
	maxSchema      = 4 << 20
	maxSchemaDepth = 500
)

// schemaParser compiles schemas.
type schemaParser struct {
	named map[string]*schema
	depth int
}

func parseSchema(text []byte) (*schema, error) {
	if len(text) > maxSchema {
		return nil, fmt.Errorf("it has %d bytes, more than the maximum of %d", len(text), maxSchema)
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return nil, err
	}
	p := schemaParser{named: map[string]*schema{}}
	return p.parse(v, "")
}

// parse compiles a schema within a namespace.
func (p *schemaParser) parse(v any, space string) (*schema, error) {
	if p.depth++; p.depth > maxSchemaDepth {
		return nil, fmt.Errorf("it is nested more than %d deep", maxSchemaDepth)
	}
	defer func() { p.depth-- }()
	switch v := v.(type) {
	case string:
		return p.byName(v, space)
	case []any:
		return p.union(v, space)
	case map[string]any:
		typ, isName := v["type"].(string)
		if !isName {
			return p.parse(v["type"], space)
		}
		return p.object(typ, v, space)
	}
	return nil, fmt.Errorf("a %T is not a schema", v)
}

func (p *schemaParser) byName(name, space string) (*schema, error) {
	if k, ok := primitives[name]; ok {
		return &schema{kind: k, typ: leafType(k, 0, nil)}, nil
	}
	for _, full := range []string{fullName(name, space), name} {
		if s := p.named[full]; s != nil {
			return s, nil
		}
	}
	return nil, fmt.Errorf("it refers to the type %.40q before it is defined", name)
}

// fullName returns a name qualified with its namespace.
func fullName(name, space string) string {
	if space == "" || strings.Contains(name, ".") {
		return name
	}
	return space + "." + name
}

func (p *schemaParser) union(branches []any, space string) (*schema, error) {
	s := &schema{kind: kindUnion}
	for _, b := range branches {
		branch, err := p.parse(b, space)
		if err != nil {
			return nil, err
		}
		if branch.kind == kindUnion {
			return nil, errors.New("a union is in a union")
		}
		s.parts = append(s.parts, branch)
	}
	return s, nil
}

// object compiles a schema that is a JSON object.
func (p *schemaParser) object(typ string, v map[string]any, space string) (s *schema, err error) {
	switch typ {
	case "array", "map":
		s = &schema{kind: kindArray}
		key := "items"
		if typ == "map" {
			s.kind, key = kindMap, "values"
		}
		s.items, err = p.parse(v[key], space)
		return s, err
	case "record", "error":
		return p.record(v, space)
	case "enum":
		s = &schema{kind: kindEnum}
		symbols, _ := v["symbols"].([]any)
		for _, symbol := range symbols {
			name, ok := symbol.(string)
			if !ok {
				return nil, fmt.Errorf("a symbol is a %T", symbol)
			}
			s.names = append(s.names, name)
		}
		s.typ = &columns.Type{Kind: columns.Enum, Symbols: s.names}
		_, err = p.define(s, v, space)
		return s, err
	case "fixed":
		size, ok := v["size"].(float64)
		if !ok || size < 0 || size > maxBlock || size != float64(int(size)) {
			return nil, fmt.Errorf("a fixed has the size %v", v["size"])
		}
		s = &schema{kind: kindFixed, size: int(size)}
		s.typ = leafType(kindFixed, s.size, v)
		_, err = p.define(s, v, space)
		return s, err
	}
	if k, ok := primitives[typ]; ok {
		return &schema{kind: k, typ: leafType(k, 0, v)}, nil
	}
	return p.byName(typ, space)
}

// define registers a named type, and returns the namespace for the names inside it.
func (p *schemaParser) define(s *schema, v map[string]any, space string) (string, error) {
	name, _ := v["name"].(string)
	if own, ok := v["namespace"].(string); ok {
		space = own
	}
	name = fullName(name, space)
	if at := strings.LastIndexByte(name, '.'); at >= 0 {
		space = name[:at]
	}
	if name == "" || p.named[name] != nil {
		return "", fmt.Errorf("the name %.40q is missing or duplicated", name)
	}
	p.named[name] = s
	return space, nil
}

func (p *schemaParser) record(v map[string]any, space string) (*schema, error) {
	s := &schema{kind: kindRecord}
	space, err := p.define(s, v, space)
	if err != nil {
		return nil, err
	}
	fields, ok := v["fields"].([]any)
	if !ok {
		return nil, errors.New("a record has no fields")
	}
	known := map[string]bool{}
	for _, f := range fields {
		field, _ := f.(map[string]any)
		name, ok := field["name"].(string)
		if !ok || known[name] {
			return nil, fmt.Errorf("the name of the field %.40q of a record is missing or duplicated", name)
		}
		known[name] = true
		part, err := p.parse(field["type"], space)
		if err != nil {
			return nil, err
		}
		s.names, s.parts = append(s.names, name), append(s.parts, part)
	}
	return s, nil
}

// logicalTimes are the logical types of dates and times, with their encodings.
var logicalTimes = map[string]struct {
	kind kind
	typ  columns.Type
}{
	"date":                   {kindInt, columns.Type{Kind: columns.Date}},
	"time-millis":            {kindInt, columns.Type{Kind: columns.Time, Unit: columns.Millis}},
	"time-micros":            {kindLong, columns.Type{Kind: columns.Time, Unit: columns.Micros}},
	"timestamp-millis":       {kindLong, columns.Type{Kind: columns.Timestamp, Unit: columns.Millis, UTC: true}},
	"timestamp-micros":       {kindLong, columns.Type{Kind: columns.Timestamp, Unit: columns.Micros, UTC: true}},
	"timestamp-nanos":        {kindLong, columns.Type{Kind: columns.Timestamp, Unit: columns.Nanos, UTC: true}},
	"local-timestamp-millis": {kindLong, columns.Type{Kind: columns.Timestamp, Unit: columns.Millis}},
	"local-timestamp-micros": {kindLong, columns.Type{Kind: columns.Timestamp, Unit: columns.Micros}},
	"local-timestamp-nanos":  {kindLong, columns.Type{Kind: columns.Timestamp, Unit: columns.Nanos}},
}

// logicalJSON marks strings that hold JSON in files that this package writes. Other readers read them as strings, since they ignore unknown
// logical types.
const logicalJSON = "json"

// leafType returns the type of values that do not consist of others. Unknown or invalid logical types are ignored, as the specification
// requires.
func leafType(k kind, size int, v map[string]any) *columns.Type {
	logical, _ := v["logicalType"].(string)
	if at, ok := logicalTimes[logical]; ok && at.kind == k {
		return &at.typ
	}
	switch k { //nolint:exhaustive // the others have parts, or no values
	case kindBool:
		return &columns.Type{Kind: columns.Bool}
	case kindInt:
		return &columns.Type{Kind: columns.Int, Bits: 32}
	case kindLong:
		return &columns.Type{Kind: columns.Int, Bits: 64}
	case kindFloat:
		return &columns.Type{Kind: columns.Float, Bits: 32}
	case kindDouble:
		return &columns.Type{Kind: columns.Float, Bits: 64}
	case kindString:
		switch logical {
		case "uuid":
			return &columns.Type{Kind: columns.UUID}
		case logicalJSON:
			return &columns.Type{Kind: columns.JSON}
		}
		return &columns.Type{Kind: columns.Text}
	case kindBytes, kindFixed:
		if logical == "decimal" {
			precision, _ := v["precision"].(float64)
			scale, _ := v["scale"].(float64)
			if t := columns.NewDecimal(int(precision), int(scale)); t != nil {
				return t
			}
		}
		if logical == "uuid" && size == 16 {
			return &columns.Type{Kind: columns.UUID}
		}
		return &columns.Type{Kind: columns.Bytes, Size: size}
	}
	return nil
}

// maxTypes bounds the size of a type: a named type can be used in many places.
const maxTypes = 10_000

// rowType returns the type of a schema's values. It is nil if the type must be derived from the values.
func (s *schema) rowType() *columns.Type {
	left := maxTypes
	return s.typeIn(map[*schema]bool{}, &left)
}

func (s *schema) typeIn(within map[*schema]bool, left *int) *columns.Type {
	if *left--; *left < 0 || within[s] {
		return nil
	}
	within[s] = true
	defer delete(within, s)
	switch s.kind { //nolint:exhaustive // the others have no parts
	case kindNull:
		return &columns.Type{Kind: columns.Null}
	case kindArray:
		return &columns.Type{Kind: columns.List, Items: s.items.typeIn(within, left)}
	case kindMap:
		return &columns.Type{Kind: columns.Map, Key: &columns.Type{Kind: columns.Text}, Items: s.items.typeIn(within, left)}
	case kindRecord:
		out := &columns.Type{Kind: columns.Struct}
		for i, name := range s.names {
			out.With(name, s.parts[i].typeIn(within, left))
		}
		return out
	case kindUnion:
		var one *schema
		for _, part := range s.parts {
			if part.kind != kindNull {
				if one != nil {
					return nil
				}
				one = part
			}
		}
		if one == nil {
			return &columns.Type{Kind: columns.Null}
		}
		return one.typeIn(within, left)
	}
	return s.typ
}
