package meter

import (
	"math"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"

	"github.com/sluiceml/sluice/dsl/expr/value"
)

// comparison is `==`, `!=` or `in`. A list of lists may hold the same one many times over, and so have far more elements than were ever
// made: what is compared with it is counted before.
type comparison struct {
	interpreter.InterpretableCall
	function    string
	left, right interpreter.InterpretableV2
	limit       uint64
}

// limitComparisons returns a decorator of plans: CEL has no functions for these operators that others could take the place of. They compare decimals
// too. CEL looks for what is `in` a constant list by its hash, which is left to it for lists of texts.
func limitComparisons(limit uint64) interpreter.InterpretableDecoratorV2 {
	return func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		call, ok := i.(interpreter.InterpretableCall)
		if !ok {
			return i, nil
		}
		switch function := call.Function(); function {
		case operators.Equals, operators.NotEquals, operators.In:
			args := call.Args()
			c := &comparison{InterpretableCall: call, function: function, left: args[0], right: args[1], limit: limit}
			if list, ok := args[1].(interpreter.InterpretableConst); ok && function == operators.In && !onlyTexts(list.Value()) {
				return membership{c}, nil
			}
			return c, nil
		}
		return i, nil
	}
}

// membership is an `in` that CEL does not take for one.
type membership struct{ interpreter.InterpretableV2 }

func onlyTexts(v ref.Val) bool {
	list, ok := v.(traits.Lister)
	if !ok {
		return true
	}
	for it := list.Iterator(); it.HasNext() == types.True; {
		if it.Next().Type() != types.StringType {
			return false
		}
	}
	return true
}

// Eval implements interpreter.Interpretable.
func (c *comparison) Eval(vars interpreter.Activation) ref.Val {
	return c.Exec(interpreter.AsFrame(vars))
}

// Exec implements interpreter.InterpretableV2.
func (c *comparison) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	a := c.left.Exec(frame)
	if types.IsUnknownOrError(a) {
		return a
	}
	b := c.right.Exec(frame)
	if types.IsUnknownOrError(b) {
		return b
	}
	if c.limit < math.MaxUint64 && isCollection(b) && c.tooLarge(a, b) {
		panic(errCancelled)
	}
	switch c.function {
	case operators.Equals:
		return value.Equal(a, b)
	case operators.NotEquals:
		return types.Bool(value.Equal(a, b) != types.True)
	}
	if in, ok := b.(traits.Container); ok {
		return types.LabelErrNode(c.ID(), in.Contains(a))
	}
	return types.NewErrWithNodeID(c.ID(), "no such overload")
}

// tooLarge reports whether it would cost too much to compare a value with a collection. A list is as long as it says, and one value is
// not compared with what is in its elements.
func (c *comparison) tooLarge(a, b ref.Val) bool {
	if isCollection(a) {
		return callCost(c.function, []ref.Val{a, b}, c.limit) > c.limit
	}
	return c.function == operators.In && sizeOf(b) > c.limit
}

// isCollection reports whether a value is a list or a map.
func isCollection(v ref.Val) bool {
	switch v.(type) {
	case types.String, types.Int, types.Double, types.Bool, types.Null: // which is found faster
		return false
	case traits.Lister, traits.Mapper:
		return true
	}
	return false
}
