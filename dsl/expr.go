package dsl

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
)

// maxCost bounds one evaluation of an expression of a pipeline, in operations: about 100 ms.
const maxCost = 1_000_000

// maxListCost bounds an expression that is evaluated once and may make a long list.
const maxListCost = 50 * maxCost

// scope says which names an expression sees.
type scope int

const (
	scopePlain  scope = iota // params, steps, run, last, serving; inputs where the step has any
	scopeGate                // these and the step's own outputs
	scopeUntil               // as a gate's: the end of a repeat
	scopeOnce                // as plain, before there are instances: when, foreach, matrix
	scopeSecret              // as plain: the one place for secret parameters
	scopeRow                 // row and params
	scopeStage               // candidate, stable and delta
	scopeValue               // value
	scopeParams              // params
)

// expression is one CEL expression of a document.
type expression struct {
	text  string
	node  *yaml.Node // the scalar it stands in
	start int        // where it begins in the scalar's value, in characters
	scope scope
	want  want

	tree    *ast.AST // nil when the text is no CEL
	program *meteredProgram
	refs    []reference
	tried   bool // compiled, whatever came of it
	ok      bool
}

// baseEnv has the functions of every expression of a pipeline, whose names are part of the language; onceEnv has those of scopeOnce.
var (
	baseEnv = sync.OnceValues(func() (*functionSet, error) { return envWithin(maxCost) })
	onceEnv = sync.OnceValues(func() (*functionSet, error) { return envWithin(maxListCost) })
)

// envWithin has the same functions for expressions that may cost no more than limit.
func envWithin(limit uint64) (*functionSet, error) {
	library, matches := matching(limit)
	env, err := cel.NewCustomEnv(
		cel.StdLib(cel.StdLibSubset(library)), matches,
		cel.OptionalTypes(),
		cel.CrossTypeNumericComparisons(true),
		cel.EnableMacroCallTracking(),
		cel.ParserExpressionSizeLimit(10_000),
		cel.ExpressionNestingDepthLimit(50),
		ext.Strings(), ext.Math(), lists(), ext.Encoders(),
		best(),
	)
	if err != nil {
		return nil, err
	}
	return newFunctionSet(env, limit)
}

// newEnv makes an environment with the given variables.
func newEnv(ts *typeSystem, vars map[string]*cel.Type) (*cel.Env, error) {
	base, err := baseEnv()
	if err != nil {
		return nil, err
	}
	options := []cel.EnvOption{cel.CustomTypeProvider(ts), cel.CustomTypeAdapter(ts)}
	return extend(base.Env, vars, options...)
}

func extend(env *cel.Env, vars map[string]*cel.Type, options ...cel.EnvOption) (*cel.Env, error) {
	for name, t := range vars {
		options = append(options, cel.Variable(name, t))
	}
	return env.Extend(options...)
}

// compile checks e in env and readies it for evaluation. Errors go to src.
func (e *expression) compile(src *document.Source, ts *typeSystem, env *cel.Env, vars map[string]*cel.Type) {
	e.tried = true
	parsed, issues := env.Parse(e.text)
	if issues.Err() != nil {
		e.reportSyntax(src, issues)
		return
	}
	e.tree = parsed.NativeRep()
	e.refs = references(e.tree)
	checked, issues := check(env, parsed)
	if issues.Err() != nil {
		(&explainer{src: src, ts: ts, vars: vars, e: e}).report(issues)
		return
	}
	e.tree = checked.NativeRep()
	if message, hint := e.want.accepts(checked.OutputType()); message != "" {
		e.reportStart(src, "type", hint, message)
		return
	}
	if !e.checkAbsent(src, ts) {
		return
	}
	functions := baseEnv
	if e.scope == scopeOnce {
		functions = onceEnv
	}
	base, err := functions()
	if err == nil {
		e.program, err = base.meter(env, checked)
	}
	if err != nil {
		e.report(src, 0, "expression", "", err.Error())
		return
	}
	e.ok = true
	e.lint(src)
}

// report adds an error at a character of the expression.
func (e *expression) report(src *document.Source, offset int, code, hint, message string) {
	line, col := src.Locate(e.node, e.start+offset)
	src.Add(document.SeverityError, line, col, code, hint, message)
}

// reportReference adds an error where a reference of the expression begins.
func (e *expression) reportReference(src *document.Source, r reference, code, hint, message string) {
	e.report(src, e.offset(r.root), code, hint, message)
}

// reportStart adds an error where the expression begins.
func (e *expression) reportStart(src *document.Source, code, hint, message string) {
	e.report(src, leadingSpace(e.text), code, hint, message)
}

// locate returns where a reference of the expression begins.
func (e *expression) locate(src *document.Source, r reference) (line, col int) {
	return src.Locate(e.node, e.start+e.offset(r.root))
}

// offset returns where an AST node is written, in characters of the expression. CEL places an operator's call at the operator and a
// selection at its dot.
func (e *expression) offset(id int64) int {
	location := e.tree.SourceInfo().GetStartLocation(id)
	return charOffset(e.text, location.Line(), location.Column())
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

func leadingSpace(s string) int {
	for i, r := range []rune(s) {
		if r != ' ' && r != '\n' && r != '\t' {
			return i
		}
	}
	return 0
}

// eval returns the value of e. The activation answers by name when asked.
func (e *expression) eval(vars cel.Activation) (ref.Val, error) {
	v, _, err := e.watch(vars)
	if err != nil {
		return nil, fmt.Errorf("`%s`: %w", strings.TrimSpace(e.text), e.explain(err))
	}
	return v, nil
}

// Knower is an activation that can say of references that what they read is not known to it, which is not the same as absent.
type Knower interface {
	Knows(refs []reference) error
}

// watch evaluates e, unless its names lack a step that it reads, and returns what was seen on the way, too.
func (e *expression) watch(vars cel.Activation) (ref.Val, *evaluation, error) {
	if n, ok := vars.(Knower); ok {
		if err := n.Knows(e.refs); err != nil {
			return nil, nil, err
		}
	}
	return e.program.eval(vars)
}

// explain names the whole path of what was absent.
func (e *expression) explain(err error) error {
	var absent *absentError
	if !errors.As(err, &absent) {
		return e.explainPublished(err)
	}
	for _, r := range e.refs {
		for i, seg := range r.path {
			if seg.name == absent.field && !seg.optional && i > 0 {
				return &absentError{field: absent.field, path: reference{path: r.path[:i+1]}.String()}
			}
		}
	}
	return err
}

// explainPublished names the dataset or model that is not there.
func (e *expression) explainPublished(err error) error {
	for _, r := range e.refs {
		if root := r.path[0].name; (root == "datasets" || root == "models") && len(r.path) > 1 && err.Error() == "no such key: "+r.path[1].name {
			return fmt.Errorf("there is no published %s `%s`: %w", strings.TrimSuffix(root, "s"), r.path[1].name, &absentError{field: r.path[1].name})
		}
	}
	return err
}

// outputType is the type of a checked expression.
func (e *expression) outputType() *cel.Type {
	if !e.ok {
		return cel.DynType // what is wrong with it was reported
	}
	return e.tree.GetType(e.tree.Expr().ID())
}

// parsed lists what an expression reads before it is compiled; nothing when it cannot be read.
func (e *expression) parsed(env *cel.Env) []reference {
	parsed, issues := env.Parse(e.text)
	if issues.Err() != nil {
		return nil
	}
	return references(parsed.NativeRep())
}

// lint warns about what is allowed and seldom meant.
func (e *expression) lint(src *document.Source) {
	ast.PreOrderVisit(e.tree.Expr(), ast.NewExprVisitor(func(x ast.Expr) {
		if x.Kind() != ast.CallKind || x.AsCall().FunctionName() != operators.Divide {
			return
		}
		args := x.AsCall().Args()
		if e.tree.GetType(args[0].ID()).Kind() == types.IntKind && e.tree.GetType(args[1].ID()).Kind() == types.IntKind {
			line, col := src.Locate(e.node, e.start+e.offset(x.ID()))
			src.Add(document.SeverityWarning, line, col, "int-division", "write double(a) / double(b) for an exact quotient", "an int divided by an int drops the remainder")
		}
	}))
}
