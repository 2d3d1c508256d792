// Package meter evaluates CEL within a limit of operations. It knows the functions of the language, by what they cost, and nothing of
// pipelines.
package meter

import (
	"errors"
	"fmt"
	"math"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	celfunctions "github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// Functions are the functions of expressions that may cost so much, each call and all together.
type Functions struct {
	*cel.Env
	dispatcher interpreter.Dispatcher
	limit      uint64
}

// New returns the functions of env, whose calls and evaluations may cost no more than limit.
func New(env *cel.Env, limit uint64) (*Functions, error) {
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
	return &Functions{Env: env, dispatcher: dispatcher, limit: limit}, dispatcher.Add(all...)
}

// Program is a checked expression whose evaluations end when they have cost more than a limit. It may be used from several
// goroutines.
//
// cel.CostLimit takes time by the square of a list that is walked through: it keeps the values of all rounds of a comprehension on a
// stack, and searches that whenever a name is read. Besides, it counts nothing in a program that tracks its state, too.
type Program struct {
	plan  *interpreter.ObservableInterpretable
	steps []step // by their ID in the tree
	limit uint64
}

// step is what is known beforehand of a step of an evaluation.
type step struct {
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
	"lists.range": true, "reverse": true, "slice": true, "flatten": true, "distinct": true, "sort": true, SortedBy: true, "split": true,
}

// Plan readies an expression that was checked in env, which has the same functions and variables besides.
func (f *Functions) Plan(env *cel.Env, checked *cel.Ast, options ...interpreter.PlannerOption) (*Program, error) {
	tree := checked.NativeRep()
	p := &Program{steps: make([]step, ast.MaxID(tree)+1), limit: f.limit}
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
			return &Evaluation{Program: p, values: make([]ref.Val, len(p.steps))}
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

// Row readies an expression over a row, which is evaluated often. One without a comprehension makes each of its calls once, and each has a
// limit of its own: it need not be watched as a whole, which takes longer than to evaluate it.
func (f *Functions) Row(env *cel.Env, checked *cel.Ast) (func(cel.Activation) (ref.Val, error), error) {
	if iterates(checked) {
		program, err := f.Plan(env, checked, interpreter.Optimize())
		return func(vars cel.Activation) (ref.Val, error) {
			v, _, err := program.Eval(vars)
			return v, err
		}, err
	}
	program, err := env.Program(checked, cel.CustomDecoratorV2(limitComparisons(math.MaxUint64)), cel.EvalOptions(cel.OptOptimize), cel.OptimizeRegex(constantPatterns(f.limit)...))
	return func(vars cel.Activation) (ref.Val, error) {
		v, _, err := program.Eval(vars)
		return v, costError(err)
	}, err
}

// iterates reports whether an expression has a comprehension.
func iterates(checked *cel.Ast) bool {
	found := false
	ast.PreOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		found = found || e.Kind() == ast.ComprehensionKind
	}))
	return found
}

// note keeps what a step will be counted by.
func (p *Program) note(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
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

// Eval returns the value, and what was seen on the way. An evaluation that costs too much ends with ErrCost.
func (p *Program) Eval(vars cel.Activation) (v ref.Val, seen *Evaluation, err error) {
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
	v = p.plan.ObserveExec(frame, func(state any) { seen, _ = state.(*Evaluation) })
	if failed, ok := v.(*types.Err); ok {
		return nil, seen, failed
	}
	return v, seen, nil
}

// Evaluation is one under way, or done: what it has cost, and the last value of each of its steps.
type Evaluation struct {
	*Program
	spent  uint64
	made   uint64 // places of lists and objects
	values []ref.Val
	args   []ref.Val // of the call that is being counted
}

var _ interpreter.EvalState = (*Evaluation)(nil)

// SetValue implements interpreter.EvalState: it is told of every step that is done, and ends the evaluation when that was one too many.
func (e *Evaluation) SetValue(id int64, v ref.Val) {
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
func (e *Evaluation) Value(id int64) (ref.Val, bool) {
	return e.values[id], e.values[id] != nil
}

// IDs implements interpreter.EvalState.
func (e *Evaluation) IDs() []int64 {
	var all []int64
	for id, v := range e.values {
		if v != nil {
			all = append(all, int64(id))
		}
	}
	return all
}

// Reset implements interpreter.EvalState.
func (e *Evaluation) Reset() {
	clear(e.values)
	e.spent, e.made = 0, 0
}
