package expr

import (
	"errors"
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	celfunctions "github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// functionSet is the functions of expressions that may cost so much, each call and all together.
type functionSet struct {
	*cel.Env
	dispatcher interpreter.Dispatcher
	limit      uint64
}

func newFunctionSet(env *cel.Env, limit uint64) (*functionSet, error) {
	env, err := limitCalls(env, limit)
	if err != nil {
		return nil, err
	}
	var all []*celfunctions.Overload
	for _, declared := range env.Functions() {
		bound, err := declared.Bindings()
		if err != nil {
			return nil, err
		}
		all = append(all, bound...)
	}
	dispatcher := interpreter.NewDispatcher()
	return &functionSet{Env: env, dispatcher: dispatcher, limit: limit}, dispatcher.Add(all...)
}

// meteredProgram is a checked expression whose evaluations end when they have cost more than a limit. It may be used from several
// goroutines.
//
// cel.CostLimit takes time by the square of a list that is walked through: it keeps the values of all rounds of a comprehension on a
// stack, and searches that whenever a name is read. Besides, it counts nothing in a program that tracks its state, too.
type meteredProgram struct {
	plan  *interpreter.ObservableInterpretable
	steps []meteredStep // by their ID in the tree
	limit uint64
}

// meteredStep is what is known beforehand of a step of an evaluation.
type meteredStep struct {
	constant bool
	function string // that it calls, if any
	args     []int64
	walked   bool   // its value is what a comprehension walks through
	made     uint64 // how many places the list or object has that it writes out, and one for itself
	list     bool   // its function makes a list
}

// maxMade bounds the places of the lists and objects that an evaluation makes. Each takes some 20 to 200 bytes, and most are in memory at once.
const maxMade = 10_000_000

// listMakers are the functions that make a new list.
var listMakers = map[string]bool{
	"lists.range": true, "reverse": true, "slice": true, "flatten": true, "distinct": true, "sort": true, sortedBy: true, "split": true,
}

// meter readies an expression that was checked in env, which has the same functions and variables besides.
func (f *functionSet) meter(env *cel.Env, checked *cel.Ast, options ...interpreter.PlannerOption) (*meteredProgram, error) {
	tree := checked.NativeRep()
	p := &meteredProgram{steps: make([]meteredStep, ast.MaxID(tree)+1), limit: f.limit}
	ast.PostOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.ComprehensionKind {
			p.steps[e.AsComprehension().IterRange().ID()].walked = true
		}
	}))
	before := []interpreter.PlannerOption{
		interpreter.CustomDecoratorV2(planOrElse),
		interpreter.CustomDecoratorV2(limitComparisons(f.limit)),
		interpreter.CustomDecoratorV2(p.note), // before an optimization makes something else of a call
	}
	options = append(before, options...)
	options = append(options,
		interpreter.CompileRegexConstants(constantPatterns(f.limit)...),
		interpreter.EvalStateObserver(interpreter.EvalStateFactory(func() interpreter.EvalState {
			return &evaluation{meteredProgram: p, values: make([]ref.Val, len(p.steps))}
		})))
	provider, adapter := env.CELTypeProvider(), env.CELTypeAdapter()
	attributes := interpreter.NewAttributeFactory(env.Container, adapter, provider)
	plan, err := interpreter.NewInterpreter(f.dispatcher, env.Container, provider, adapter, attributes).NewInterpretable(tree, options...)
	if err != nil {
		return nil, err
	}
	observable, ok := plan.(*interpreter.ObservableInterpretable)
	if !ok {
		return nil, errors.New("the evaluation cannot be observed")
	}
	p.plan = observable
	return p, nil
}

// note keeps what a step will be counted by.
func (p *meteredProgram) note(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	switch i := i.(type) {
	case interpreter.InterpretableConst:
		p.steps[i.ID()].constant = true
	case interpreter.InterpretableCall:
		s := &p.steps[i.ID()]
		s.function, s.args, s.list = i.Function(), nil, listMakers[i.Function()]
		for _, arg := range i.Args() {
			s.args = append(s.args, arg.ID())
		}
	case interpreter.InterpretableConstructor:
		p.steps[i.ID()].made = 1 + uint64(len(i.InitVals()))
	}
	return i, nil
}

// eval returns the value, and what was seen on the way. An evaluation that costs too much ends with ErrCost.
func (p *meteredProgram) eval(vars cel.Activation) (v ref.Val, seen *evaluation, err error) {
	frame, err := interpreter.NewExecutionFrame(vars)
	if err != nil {
		return nil, nil, err
	}
	defer frame.Close()
	defer func() {
		switch r := recover().(type) {
		case nil:
		case interpreter.EvalCancelledError:
			v, err = nil, costError(r)
		default:
			v, err = nil, fmt.Errorf("internal error: %v", r) // as CEL's own programs say it
		}
	}()
	v = p.plan.ObserveExec(frame, func(state any) { seen, _ = state.(*evaluation) })
	if failed, ok := v.(*types.Err); ok {
		return nil, seen, failed
	}
	return v, seen, nil
}

// evaluation is one under way: what it has cost, and the last value of each of its steps.
type evaluation struct {
	*meteredProgram
	spent  uint64
	made   uint64 // places of lists and objects
	values []ref.Val
	args   []ref.Val // of the call that is being counted
}

var _ interpreter.EvalState = (*evaluation)(nil)

// SetValue implements interpreter.EvalState: it is told of every step that is done, and ends the evaluation when that was one too many.
func (e *evaluation) SetValue(id int64, v ref.Val) {
	e.values[id] = v
	step := &e.steps[id]
	if step.constant {
		return
	}
	cost := uint64(1)
	if step.function != "" {
		e.args = e.args[:0]
		for _, arg := range step.args {
			e.args = append(e.args, e.values[arg])
		}
		cost = callCost(step.function, e.args, e.limit)
	}
	if step.walked {
		if object, ok := v.(traits.Mapper); ok {
			cost = sum(cost, product(fieldCost, sizeOf(object))) // its fields are put in order
		}
	}
	e.made += step.made
	if step.list {
		e.made += sizeOf(v)
	}
	if e.spent = sum(e.spent, cost); e.spent > e.limit || e.made > maxMade {
		panic(errCancelled)
	}
}

// Value implements interpreter.EvalState.
func (e *evaluation) Value(id int64) (ref.Val, bool) {
	return e.values[id], e.values[id] != nil
}

// IDs implements interpreter.EvalState.
func (e *evaluation) IDs() []int64 {
	var all []int64
	for id, v := range e.values {
		if v != nil {
			all = append(all, int64(id))
		}
	}
	return all
}

// Reset implements interpreter.EvalState.
func (e *evaluation) Reset() {
	clear(e.values)
	e.spent, e.made = 0, 0
}
