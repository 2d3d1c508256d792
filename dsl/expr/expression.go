// Package expr is CEL as pipelines use it: the types of what a document declares, expressions that are checked against them with findings at
// their place in the document, values that hold expressions, and their evaluation within a limit of operations. It knows the specs and
// the document, and nothing of steps and their order.
package expr

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr/meter"
	"github.com/sluiceml/sluice/dsl/expr/value"
)

// maxCost bounds one evaluation of an expression of a pipeline, in operations: about 100 ms.
const maxCost = 1_000_000

// maxListCost bounds an expression that is evaluated once and may make a long list.
const maxListCost = 50 * maxCost

// Scope says which names an expression sees.
type Scope int

// The scopes of a pipeline's expressions.
const (
	ScopePlain  Scope = iota // params, steps, run, last, serving; inputs where the step has any
	ScopeGate                // these and the step's own outputs
	ScopeUntil               // as a gate's: the end of a repeat
	ScopeOnce                // as plain, before there are instances: when, foreach, matrix
	ScopeSecret              // as plain: the one place for secret parameters
	ScopeRow                 // row and params
	ScopeStage               // candidate, stable and delta
	ScopeValue               // value
	ScopeParams              // params
)

// Expression is one CEL expression of a document.
type Expression struct {
	Text     string
	Node     *yaml.Node // the scalar it stands in
	Start    int        // where it begins in the scalar's value, in characters
	Scope    Scope
	Expected Expected
	Own      string // the step whose outputs are plain names here
	// Ranges are what is known of values by what they are read as, where their types do not say.
	Ranges map[string]Range

	// Refs are what it reads; they are known once it was compiled, if it is CEL.
	Refs  []Reference
	Tried bool // compiled, whatever came of it
	OK    bool // compiled, and can be evaluated

	tree    *ast.AST // nil when the text is no CEL
	program *meter.Program
}

// baseEnv has the functions of every expression of a pipeline, whose names are part of the language; onceEnv has those of ScopeOnce, and rowEnv
// those of ScopeRow.
var (
	baseEnv = sync.OnceValues(func() (*meter.Functions, error) { return envWithin(maxCost, false) })
	onceEnv = sync.OnceValues(func() (*meter.Functions, error) { return envWithin(maxListCost, false) })
	rowEnv  = sync.OnceValues(func() (*meter.Functions, error) { return envWithin(maxRowCost, true) })
)

// functions returns the functions of the expressions of a scope.
func (s Scope) functions() (*meter.Functions, error) {
	switch s { //nolint:exhaustive // the others have the same
	case ScopeOnce:
		return onceEnv()
	case ScopeRow:
		return rowEnv()
	}
	return baseEnv()
}

// envWithin has the same functions for expressions that may cost no more than limit; over rows, those that compute with the values of rows.
func envWithin(limit uint64, overRows bool) (*meter.Functions, error) {
	library, matches := meter.Matching(limit)
	var arithmetic []cel.EnvOption
	if overRows {
		var err error
		if arithmetic, err = value.Arithmetic(library); err != nil {
			return nil, err
		}
	}
	options := []cel.EnvOption{
		cel.StdLib(cel.StdLibSubset(library)), matches,
		cel.OptionalTypes(),
		cel.CrossTypeNumericComparisons(true),
		cel.EnableMacroCallTracking(),
		cel.ParserExpressionSizeLimit(10_000),
		cel.ExpressionNestingDepthLimit(50),
		ext.Strings(), ext.Math(), ext.Encoders(),
	}
	env, err := cel.NewCustomEnv(slices.Concat(options, arithmetic, lists(), best())...)
	if err != nil {
		return nil, err
	}
	return meter.New(env, limit)
}

// newEnv makes an environment of a scope with the given variables.
func newEnv(scope Scope, ts *TypeSystem, vars map[string]*cel.Type) (*cel.Env, error) {
	base, err := scope.functions()
	if err != nil {
		return nil, err
	}
	return Extend(base.Env, vars, cel.CustomTypeProvider(ts), cel.CustomTypeAdapter(ts))
}

// Extend adds variables to an environment.
func Extend(env *cel.Env, vars map[string]*cel.Type, options ...cel.EnvOption) (*cel.Env, error) {
	for name, t := range vars {
		options = append(options, cel.Variable(name, t))
	}
	return env.Extend(options...)
}

// Compile checks e in env and readies it for evaluation. Errors go to src.
func (e *Expression) Compile(src *document.Source, ts *TypeSystem, env *cel.Env, vars map[string]*cel.Type) {
	e.Tried = true
	parsed, issues := env.Parse(e.Text)
	if issues.Err() != nil {
		e.reportSyntax(src, issues)
		return
	}
	e.tree = parsed.NativeRep()
	readMetrics(e.tree)
	e.Refs = references(e.tree)
	checked, issues := check(env, parsed, e.Scope)
	if issues.Err() != nil {
		(&explainer{src: src, ts: ts, vars: vars, e: e}).report(issues)
		return
	}
	e.tree = checked.NativeRep()
	if message, hint := e.Expected.accepts(checked.OutputType()); message != "" {
		e.ReportStart(src, "type", cmp.Or(e.pathMeant(checked.OutputType()), hint), message)
		return
	}
	base, err := e.Scope.functions()
	if err == nil {
		e.program, err = base.Plan(env, checked)
	}
	if err != nil {
		e.Report(src, 0, "expression", "", err.Error())
		return
	}
	e.OK = true
	src.Judge(func() {
		if e.checkAbsent(src, ts) {
			e.lint(src)
			e.checkPossible(src, ts)
		}
	})
}

// Report adds an error at a character of the expression.
func (e *Expression) Report(src *document.Source, offset int, code, hint, message string) {
	src.AddAt(document.SeverityError, e.Node, e.Start+offset, code, hint, message)
}

// ReportReference adds an error where a reference of the expression begins.
func (e *Expression) ReportReference(src *document.Source, r Reference, code, hint, message string) {
	e.Report(src, e.offset(r.root), code, hint, message)
}

// ReportStart adds an error where the expression begins.
func (e *Expression) ReportStart(src *document.Source, code, hint, message string) {
	e.Report(src, len(e.Text)-len(strings.TrimLeft(e.Text, " \n\t")), code, hint, message)
}

// AddAtReference adds a finding where a reference of the expression begins.
func (e *Expression) AddAtReference(src *document.Source, sev document.Severity, r Reference, code, hint, message string) {
	src.AddAt(sev, e.Node, e.Start+e.offset(r.root), code, hint, message)
}

// warn adds a warning at a part of the expression.
func (e *Expression) warn(src *document.Source, x ast.Expr, code, hint, message string) {
	src.AddAt(document.SeverityWarning, e.Node, e.Start+e.offset(x.ID()), code, hint, message)
}

// offset returns where an AST node is written, in characters of the expression. CEL places an operator's call at the operator and a
// selection at its dot.
func (e *Expression) offset(id int64) int {
	location := e.tree.SourceInfo().GetStartLocation(id)
	return charOffset(e.Text, location.Line(), location.Column())
}

// charOffset turns CEL's line (from 1) and column (from 0) into a character offset.
func charOffset(text string, line, col int) int {
	offset := 0
	for _, r := range text {
		if line <= 1 {
			break
		}
		if r == '\n' {
			line--
		}
		offset++
	}
	return offset + max(col, 0)
}

// Eval returns the value of e. The activation answers by name when asked.
func (e *Expression) Eval(vars cel.Activation) (ref.Val, error) {
	v, _, err := e.watch(vars)
	if err != nil {
		return nil, fmt.Errorf("`%s`: %w", strings.TrimSpace(e.Text), e.explain(err))
	}
	return v, nil
}

// Knower is an activation that can say of references that what they read is not known to it, which is not the same as absent.
type Knower interface {
	Knows(refs []Reference) error
}

// watch evaluates e, unless its names lack a step that it reads, and returns what was seen on the way, too.
func (e *Expression) watch(vars cel.Activation) (ref.Val, *meter.Evaluation, error) {
	if n, ok := vars.(Knower); ok {
		if err := n.Knows(e.Refs); err != nil {
			return nil, nil, err
		}
	}
	return e.program.Eval(vars)
}

// explain names the whole path of what was absent.
func (e *Expression) explain(err error) error {
	var absent *absentError
	if !errors.As(err, &absent) {
		return e.explainPublished(err)
	}
	for _, r := range e.Refs {
		for i, seg := range r.Path {
			if seg.Name == absent.field && !seg.Optional && i > 0 {
				return &absentError{field: absent.field, path: Reference{Path: r.Path[:i+1]}.String()}
			}
		}
	}
	return err
}

// explainPublished names the dataset or model that is not there.
func (e *Expression) explainPublished(err error) error {
	for _, r := range e.Refs {
		if root := r.Path[0].Name; (root == "datasets" || root == "models") && len(r.Path) > 1 && err.Error() == "no such key: "+r.Path[1].Name {
			return fmt.Errorf("there is no published %s `%s`: %w", strings.TrimSuffix(root, "s"), r.Path[1].Name, &absentError{field: r.Path[1].Name})
		}
	}
	return err
}

// OutputType is the type of a checked expression.
func (e *Expression) OutputType() *cel.Type {
	if !e.OK {
		return cel.DynType // what is wrong with it was reported
	}
	return e.tree.GetType(e.tree.Expr().ID())
}

// ReferencesIn lists what an expression reads before it is compiled; nothing when it cannot be read.
func (e *Expression) ReferencesIn(env *cel.Env) []Reference {
	parsed, issues := env.Parse(e.Text)
	if issues.Err() != nil {
		return nil
	}
	return references(parsed.NativeRep())
}

// lint reports what fails whenever it is evaluated, and warns about what is allowed and seldom meant. `int(a / b)` says that it is meant.
func (e *Expression) lint(src *document.Source) {
	meant := map[int64]bool{}
	ast.PreOrderVisit(e.tree.Expr(), ast.NewExprVisitor(func(x ast.Expr) {
		e.checkConstant(src, x)
		e.checkTextInside(src, x)
		if x.Kind() != ast.CallKind {
			return
		}
		args := x.AsCall().Args()
		switch x.AsCall().FunctionName() {
		case overloads.TypeConvertInt:
			meant[args[0].ID()] = true
		case operators.Divide:
			isInt := func(x ast.Expr) bool { return e.tree.GetType(x.ID()).Kind() == types.IntKind }
			if isInt(args[0]) && isInt(args[1]) && !meant[x.ID()] && args[1].AsLiteral() != types.Int(0) {
				e.warn(src, x, "int-division", "write double(a) / double(b) for an exact quotient, or int(a / b) if this is intended",
					"an int divided by an int drops the remainder")
			}
		}
	}))
}

// MustEnv makes an environment of a scope with names that are fixed.
func MustEnv(scope Scope, ts *TypeSystem, vars map[string]*cel.Type) *cel.Env {
	env, err := newEnv(scope, ts, vars)
	if err != nil {
		panic(fmt.Sprintf("dsl: %v", err))
	}
	return env
}
