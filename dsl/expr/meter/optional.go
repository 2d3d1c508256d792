package meter

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// orElse is a call of `or` or `orValue`: what they are given is evaluated only where the optional value is none. CEL's library of
// optional types plans them like this, too, but for the programs that CEL itself makes.
type orElse struct {
	id              int64
	optional, other interpreter.InterpretableV2
	unwrap          bool // `orValue`
}

// planOrElse is a decorator of plans.
func planOrElse(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, ok := i.(interpreter.InterpretableCall)
	if !ok || call.Function() != "or" && call.Function() != "orValue" {
		return i, nil
	}
	args := call.Args()
	return &orElse{id: call.ID(), optional: args[0], other: args[1], unwrap: call.Function() == "orValue"}, nil
}

// ID implements interpreter.Interpretable.
func (o *orElse) ID() int64 { return o.id }

// Eval implements interpreter.Interpretable.
func (o *orElse) Eval(vars interpreter.Activation) ref.Val { return o.Exec(interpreter.AsFrame(vars)) }

// Exec implements interpreter.InterpretableV2.
func (o *orElse) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	v := o.optional.Exec(frame)
	if types.IsUnknownOrError(v) {
		return v
	}
	optional, ok := v.(*types.Optional)
	switch {
	case !ok:
		return types.NoSuchOverloadErr()
	case !optional.HasValue():
		return o.other.Exec(frame)
	case o.unwrap:
		return optional.GetValue()
	}
	return optional
}
