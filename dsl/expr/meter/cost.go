package meter

import (
	"errors"
	"math/bits"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// ErrCost is what an evaluation ends with that would take too long. It is counted in operations and never by the clock, so that the
// same values have the same end on every machine.
var ErrCost = errors.New("the evaluation takes too many operations")

// errCancelled is what CEL recovers from with an error.
var errCancelled = interpreter.EvalCancelledError{Message: ErrCost.Error(), Cause: interpreter.CostLimitExceeded}

// costError returns ErrCost for what CEL says of an evaluation whose cost was too high, else the error itself.
func costError(err error) error {
	if cancelled, ok := errors.AsType[interpreter.EvalCancelledError](err); ok && cancelled.Cause == interpreter.CostLimitExceeded {
		return ErrCost
	}
	return err
}

// The functions behind macros of the language: `sortBy`, a list in the order of the values in another that is as long, and `best`, the
// element of a list whose value in such another is the largest.
const (
	SortedBy = "@sortedBy"
	BestOf   = "@best"
)

// Ordered is a map that is walked through in the order of its keys.
type Ordered interface{ Unordered() traits.Mapper }

// costly are the functions that may do or make far more than their arguments are long: by squares, by repeating one in another, or
// because elements of a list may all be the same large value. Their cost is counted before they are called.
var costly = []string{
	"replace", "join", "format", "indexOf", "lastIndexOf", "flatten", "distinct", "sort", SortedBy, BestOf,
	"sets.contains", "sets.intersects", "sets.equivalent", "json.encode",
}

// limitCalls makes calls of the costly functions of env fail that cost more than limit.
func limitCalls(env *cel.Env, limit uint64) (*cel.Env, error) {
	var options []cel.EnvOption
	for _, name := range costly {
		f, ok := env.Functions()[name]
		if !ok {
			continue
		}
		bound, err := f.Bindings()
		if err != nil {
			return nil, err
		}
		var overloads []cel.FunctionOpt
		if name == "flatten" {
			overloads = append(overloads, decls.DisableTypeGuards(true)) // it looks itself, and the two must agree
		}
		for _, o := range f.OverloadDecls() {
			declare := cel.Overload
			if o.IsMemberFunction() {
				declare = cel.MemberOverload
			}
			for _, b := range bound {
				if b.Operator != o.ID() {
					continue
				}
				call := b.Function
				switch {
				case b.Unary != nil:
					call = func(args ...ref.Val) ref.Val { return b.Unary(args[0]) }
				case b.Binary != nil:
					call = func(args ...ref.Val) ref.Val { return b.Binary(args[0], args[1]) }
				}
				overloads = append(overloads, declare(o.ID(), o.ArgTypes(), o.ResultType(), limited(name, len(o.ArgTypes()), limit, call)))
			}
		}
		options = append(options, cel.Function(name, overloads...))
	}
	return env.Extend(options...)
}

// limited binds a call that ends the evaluation when it would cost more than limit.
func limited(name string, args int, limit uint64, call func(...ref.Val) ref.Val) cel.OverloadOpt {
	counted := func(args ...ref.Val) ref.Val {
		if callCost(name, args, limit) > limit {
			panic(errCancelled)
		}
		return call(args...)
	}
	switch args {
	case 1:
		return cel.UnaryBinding(func(a ref.Val) ref.Val { return counted(a) })
	case 2:
		return cel.BinaryBinding(func(a, b ref.Val) ref.Val { return counted(a, b) })
	}
	return cel.FunctionBinding(counted)
}

// callCost is what a call takes at most, in the units of CEL: 1 for an operation and for a byte that is made, 0.1 for one that is read.
// It is not counted on once it is over the limit.
func callCost(function string, args []ref.Val, limit uint64) uint64 {
	m := meter{spent: 1, limit: limit}
	switch function {
	case operators.In:
		m.all(args[0])
		if _, ok := args[1].(traits.Mapper); !ok { // which is not walked through
			m.all(args[1])
		}
	case "distinct", "sets.contains", "sets.intersects", "sets.equivalent", "json.encode", "format", "flatten", BestOf:
		for _, a := range args {
			m.all(a)
		}
	case operators.Equals, operators.NotEquals:
		m.all(smaller(args))
	case "sort", SortedBy:
		keys := args[len(args)-1]
		m.all(keys)
		m.spent = product(m.spent, uint64(bits.Len64(sizeOf(keys))))
	case operators.Add:
		m.add(textSize(args[0]) + textSize(args[1]))
	case "join":
		m.all(args[0])
		m.add(product(m.spent, 10))
		if len(args) > 1 {
			m.add(product(sizeOf(args[0]), textSize(args[1])))
		}
	case "replace":
		text, old, with := stringOf(args[0]), stringOf(args[1]), textSize(args[2])
		m.add(uint64(len(text)))
		m.add(product(uint64(strings.Count(text, old)), with))
	case "indexOf", "lastIndexOf":
		m.add(product(textSize(args[0]), max(10, textSize(args[1]))) / 10)
	case "matches":
		m.spent = patternOf(stringOf(args[1])).cost(args[0])
	case "reverse", "lists.range", "slice":
		m.add(sizeOf(args[len(args)-1]))
	default:
		for _, a := range args {
			m.add(textSize(a) / 10)
		}
	}
	return m.spent
}

// smaller is the argument of two that has fewer elements: two that are not as long are found unequal at once.
func smaller(args []ref.Val) ref.Val {
	return slices.MinFunc(args, func(a, b ref.Val) int { return int(sizeOf(a)) - int(sizeOf(b)) })
}

// meter adds up, and stops when it is over its limit.
type meter struct{ spent, limit uint64 }

func (m *meter) add(n uint64) { m.spent = sum(m.spent, n) }

// fieldCost is what a field of an object costs more than an element of a list: it takes about as much longer to look up, or to put in order.
const fieldCost = 30

// all adds what reading a value costs with all that is in it.
func (m *meter) all(v ref.Val) {
	if isCollection(v) {
		switch native := v.Value().(type) {
		case map[string]any, []any:
			m.native(native) // which is walked through faster
			return
		}
	}
	m.add(1 + textSize(v)/10)
	switch v := v.(type) {
	case traits.Lister:
		for it := v.Iterator(); m.spent <= m.limit && it.HasNext() == types.True; {
			m.all(it.Next())
		}
	case traits.Mapper:
		if ordered, ok := v.(Ordered); ok {
			v = ordered.Unordered() // any order will do
		}
		for it := v.Iterator(); m.spent <= m.limit && it.HasNext() == types.True; {
			key := it.Next()
			m.add(fieldCost)
			m.all(key)
			m.all(v.Get(key))
		}
	case *types.Optional:
		if v.HasValue() {
			m.all(v.GetValue())
		}
	}
}

// native is all, of a value as a row has it.
func (m *meter) native(v any) {
	m.add(1)
	switch v := v.(type) {
	case string:
		m.add(uint64(len(v)) / 10)
	case []any:
		for _, element := range v {
			if m.spent > m.limit {
				return
			}
			m.native(element)
		}
	case map[string]any:
		for key, value := range v {
			if m.spent > m.limit {
				return
			}
			m.add(fieldCost + 1 + uint64(len(key))/10)
			m.native(value)
		}
	case ref.Val:
		m.all(v)
	}
}

// sum is a+b, or the largest number.
func sum(a, b uint64) uint64 {
	if c, carry := bits.Add64(a, b, 0); carry == 0 {
		return c
	}
	return ^uint64(0)
}

// product is a*b, or the largest number.
func product(a, b uint64) uint64 {
	if high, low := bits.Mul64(a, b); high == 0 {
		return low
	}
	return ^uint64(0)
}

// stringOf is a text, or "" of what is none.
func stringOf(v ref.Val) string {
	s, _ := v.(types.String)
	return string(s)
}

// textSize is how many bytes a text has; 0 of what is none.
func textSize(v ref.Val) uint64 {
	switch v := v.(type) {
	case types.String:
		return uint64(len(v))
	case types.Bytes:
		return uint64(len(v))
	}
	return 0
}

// sizeOf is how many elements or bytes a value has: 1 of what has none.
func sizeOf(v ref.Val) uint64 {
	if n := textSize(v); n > 0 {
		return n
	}
	if sizer, ok := v.(traits.Sizer); ok {
		if n, ok := sizer.Size().(types.Int); ok && n >= 0 {
			return uint64(n)
		}
	}
	if n, ok := v.(types.Int); ok && n > 0 {
		return uint64(n) // of lists.range, and the end of a slice
	}
	return 1
}
