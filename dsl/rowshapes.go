package dsl

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
)

// after returns the shape of the rows that a transform hands on of those that come to it. computed are the types of the transform's
// expressions. What a transform only drops or rejects keeps its shape.
func (r rowShape) after(typ string, config *yaml.Node, computed map[*yaml.Node]*cel.Type) rowShape {
	switch typ {
	case "ReadFromText":
		return rowShape{fields: map[string]*cel.Type{"text": cel.StringType}}
	case "ReadFromCsv":
		return csvShape(document.Lookup(config, "columns"))
	case "ReadFromJson", "ReadFromParquet", "ReadFromAvro", "Exec":
		return anyRow
	case "Combine":
		return r.afterCombine(config)
	case "DecodeMail":
		return r.afterMail(document.Lookup(config, "field"))
	case "DetectLanguage":
		if as := document.Lookup(config, "as"); as != nil {
			return r.with(as.Value, cel.DynType).with(as.Value+"_confidence", cel.DoubleType) // no language is null
		}
	case "Explode":
		return r.afterExplode(document.Lookup(config, "fields"))
	case "MapToFields":
		return r.afterMap(config, computed)
	case "ValidateWithSchema":
		return r.afterSchema(document.Lookup(config, "schema"))
	}
	return r
}

// rejectedShape is that of the rows in an output of error_handling.
var rejectedShape = rowShape{fields: map[string]*cel.Type{
	"element": cel.DynType, "reason": cel.StringType, "message": cel.StringType, "source": cel.StringType, "offset": cel.IntType,
}}

// joinShapes is the shape of rows of all these shapes together. A field that only some have may be read: a row without is rejected.
func joinShapes(shapes []rowShape) rowShape {
	if len(shapes) == 0 {
		return anyRow
	}
	out := shapes[0]
	for _, other := range shapes[1:] {
		both := rowShape{fields: map[string]*cel.Type{}, rest: joinTypes(out.rest, other.rest)}
		for _, r := range []rowShape{out, other} {
			for name := range r.fields {
				both.fields[name] = joinTypes(out.typeOf(name), other.typeOf(name))
			}
		}
		out = both
	}
	return out
}

// joinTypes is the type of what has one type or the other; nil stands for nothing.
func joinTypes(a, b *cel.Type) *cel.Type {
	switch {
	case a == nil && b == nil:
		return nil
	case a == nil || b == nil || !a.IsExactType(b):
		return cel.DynType
	}
	return a
}

// afterCombine has the fields that make a group, and those that are computed; but for counts these may be null.
func (r rowShape) afterCombine(config *yaml.Node) rowShape {
	out := rowShape{fields: map[string]*cel.Type{}}
	for n := range document.Scalars(document.Lookup(config, "group_by")) {
		if t := r.typeOf(n.Value); t != nil {
			out = out.with(n.Value, t)
		}
	}
	combine := document.Lookup(config, "combine")
	if combine == nil || combine.Kind != yaml.MappingNode {
		return out
	}
	for i := 0; i+1 < len(combine.Content); i += 2 {
		t := cel.DynType
		switch fn := document.Lookup(combine.Content[i+1], "fn"); {
		case fn == nil:
		case fn.Value == "count":
			t = cel.IntType
		case fn.Value == "group":
			t = cel.ListType(cel.DynType)
		}
		out = out.with(combine.Content[i].Value, t)
	}
	return out
}

// csvShape is that of records, whose values are texts.
func csvShape(columns *yaml.Node) rowShape {
	if columns == nil || columns.Kind != yaml.SequenceNode {
		return rowShape{rest: cel.StringType} // each file's first record names them
	}
	shape := rowShape{fields: map[string]*cel.Type{}}
	for n := range document.Scalars(columns) {
		shape.fields[n.Value] = cel.StringType
	}
	return shape
}

func (r rowShape) afterMail(field *yaml.Node) rowShape {
	if field != nil {
		r = r.without(field.Value)
	}
	for _, name := range []string{"subject", "from", "body", "content_type"} {
		r = r.with(name, cel.StringType)
	}
	return r.with("date", cel.DynType) // null where it cannot be read
}

// afterExplode has items in place of lists; where several lists differ in length, nulls too.
func (r rowShape) afterExplode(fields *yaml.Node) rowShape {
	several := fields != nil && len(fields.Content) > 1
	for n := range document.Scalars(fields) {
		t := cel.DynType
		if list := r.fields[n.Value]; list != nil && list.Kind() == types.ListKind && !several {
			t = list.Parameters()[0]
		}
		r = r.with(n.Value, t)
	}
	return r
}

func (r rowShape) afterMap(config *yaml.Node, computed map[*yaml.Node]*cel.Type) rowShape {
	out := rowShape{fields: map[string]*cel.Type{}}
	if keep := document.Lookup(config, "append"); keep != nil && keep.Value == "true" {
		out = r
		for n := range document.Scalars(document.Lookup(config, "drop")) {
			out = out.without(n.Value)
		}
	}
	if fields := document.Lookup(config, "fields"); fields != nil && fields.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(fields.Content); i += 2 {
			t := computed[document.Unalias(fields.Content[i+1])]
			if t == nil {
				t = cel.DynType // it could not be read, which was reported
			}
			out = out.with(fields.Content[i].Value, t)
		}
	}
	if len(out.fields) == 0 && out.rest == nil {
		return anyRow // no such rows are meant, which was reported
	}
	return out
}

// afterSchema knows what a JSON Schema demands of each row: the types of the properties that must be there, and whether there are no
// others.
func (r rowShape) afterSchema(schema *yaml.Node) rowShape {
	properties := document.Lookup(schema, "properties")
	if properties == nil || properties.Kind != yaml.MappingNode {
		return r
	}
	required := map[string]bool{}
	for n := range document.Scalars(document.Lookup(schema, "required")) {
		required[n.Value] = true
	}
	out := r
	if others := document.Lookup(schema, "additionalProperties"); others != nil && others.Value == "false" && document.Lookup(schema, "patternProperties") == nil {
		out = rowShape{fields: map[string]*cel.Type{}}
	}
	for i := 0; i+1 < len(properties.Content); i += 2 {
		name, t := properties.Content[i].Value, r.typeOf(properties.Content[i].Value)
		switch {
		case t == nil: // no row can have it
			continue
		case t.Kind() == types.DynKind && required[name]:
			t = schemaType(properties.Content[i+1])
		}
		out = out.with(name, t)
	}
	return out
}

// schemaType is the type that a JSON Schema gives a value. A `number` may be an int or a double.
func schemaType(schema *yaml.Node) *cel.Type {
	typ := document.Lookup(schema, "type")
	if typ == nil || typ.Kind != yaml.ScalarNode {
		return cel.DynType
	}
	switch typ.Value {
	case "string":
		return cel.StringType
	case "boolean":
		return cel.BoolType
	case "object":
		return cel.MapType(cel.StringType, cel.DynType)
	case "array":
		if items := document.Lookup(schema, "items"); items != nil {
			return cel.ListType(schemaType(items))
		}
		return cel.ListType(cel.DynType)
	}
	return cel.DynType
}
