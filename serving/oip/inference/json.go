package inference

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// JSON is a message in the form that Triton gives it over REST: fields have their names in the .proto file and are there without a value, too,
// unless they are messages. Unlike in protobuf's own form, numbers of 64 bits are numbers.
func JSON(m proto.Message) any { return object(m.ProtoReflect()) }

func object(m protoreflect.Message) map[string]any {
	out := map[string]any{}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		switch {
		case f.IsList():
			list := m.Get(f).List()
			values := make([]any, list.Len())
			for j := range values {
				values[j] = value(f, list.Get(j))
			}
			out[f.TextName()] = values
		case f.Message() == nil || m.Has(f):
			out[f.TextName()] = value(f, m.Get(f))
		}
	}
	return out
}

func value(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch {
	case f.Message() != nil:
		return object(v.Message())
	case f.Enum() != nil:
		return string(f.Enum().Values().ByNumber(v.Enum()).Name())
	}
	return v.Interface()
}
