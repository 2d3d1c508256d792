package expr

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"

	"github.com/sluiceml/sluice/dsl/advice"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr/meter"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/suggest"
)

// reportSyntax turns CEL's parse errors into diagnostics. Only the first is: the parser's later ones follow from it.
func (e *Expression) reportSyntax(src *document.Source, issues *cel.Issues) {
	first := issues.Errors()[0]
	offset := charOffset(e.Text, first.Location.Line(), first.Location.Column())
	hint := advice.Syntax(e.Text)
	if e.cutAtComma(src) {
		hint = "within { } a comma ends the value: put the expression in quotes"
	}
	e.Report(src, offset, "syntax", hint, "this is not a CEL expression: "+advice.Parser(first.Message))
}

// cutAtComma reports whether the expression is a plain value that ends at a comma before its parentheses are closed.
func (e *Expression) cutAtComma(src *document.Source) bool {
	if e.Node.Style != 0 || strings.Count(e.Text, "(") <= strings.Count(e.Text, ")") {
		return false
	}
	line := src.Characters(e.Node.Line)
	end := e.Node.Column - 1 + utf8.RuneCountInString(e.Text)
	return end < len(line) && line[end] == ','
}

// explainer turns CEL's type errors into diagnostics in the words of the pipeline.
type explainer struct {
	src  *document.Source
	ts   *TypeSystem
	vars map[string]*cel.Type
	e    *Expression
	// bound are the variables of comprehensions.
	bound map[string]*cel.Type
	// offset is where the error is that is explained, and unknown are the parentheses of calls of functions that there are not: what is
	// between them is not told of, since it may be right where the function is.
	offset  int
	unknown [][2]int
}

var (
	undeclared = regexp.MustCompile(`^undeclared reference to '([^']*)'`)
	undefined  = regexp.MustCompile(`^undefined field '([^']*)'`)
	overload   = regexp.MustCompile(`^found no matching overload for '([^']*)' applied to '(.*)'$`)
	mismatch   = regexp.MustCompile(`^expected type '([^']*)' but found '([^']*)'`)
	operator   = regexp.MustCompile(`^_?([^_a-z]+)_$|^_([^_a-z]+)_$`)
)

func (x *explainer) report(issues *cel.Issues) {
	x.findUnknownCalls(issues)
	if x.reportHyphen() {
		return
	}
	unnamed := slices.ContainsFunc(issues.Errors(), func(err *cel.Error) bool {
		return undefined.MatchString(err.Message) || undeclared.MatchString(err.Message)
	})
	for _, err := range issues.Errors() {
		if m := overload.FindStringSubmatch(err.Message); m != nil && unnamed && (strings.Contains(m[2], "!error!") || strings.Contains(m[2], "optional_type(dyn)")) {
			continue // of what is reported
		}
		if len(issues.Errors()) > 1 && strings.Contains(err.Message, "'"+meter.BestOf+"'") {
			continue // what it is given is wrong, and is reported
		}
		offset := charOffset(x.e.Text, err.Location.Line(), err.Location.Column())
		if x.unknownFunction(err.Message, offset) || x.inUnknownCall(offset) {
			continue
		}
		x.offset = offset
		code, message, hint := x.explain(err.Message)
		if message == "" {
			continue // was told of where it is declared
		}
		if _, after := x.around(); undefined.MatchString(err.Message) {
			offset += len(after) - len(x.fromName()) // at the name, not at the dot
		}
		x.e.Report(x.src, offset, code, hint, message)
	}
}

func (x *explainer) explain(message string) (code, text, hint string) {
	if m := undeclared.FindStringSubmatch(message); m != nil {
		return x.undeclaredName(m[1])
	}
	if m := undefined.FindStringSubmatch(message); m != nil {
		return x.undefinedField(m[1])
	}
	if m := overload.FindStringSubmatch(message); m != nil {
		return x.noOverload(m[1], m[2])
	}
	if code, text, hint, ok := notInstance(message, fieldName.FindString(x.fromName())); ok {
		if before, _ := x.around(); hint == "" && wholeItem.MatchString(before) {
			hint = "write `item`: it is the element itself"
		}
		return code, text, hint
	}
	if m := mismatch.FindStringSubmatch(message); m != nil {
		hint := ""
		if strings.HasPrefix(m[2], "optional_type(") {
			hint = "end the optional with `.orValue(...)`"
		}
		found := strings.NewReplacer("optional_type(", "optional(", objectPrefix, "").Replace(m[2])
		return "type", fmt.Sprintf("this is %s, but expected %s", spec.Article(found), spec.Article(m[1])), hint
	}
	return "type", message, ""
}

func (x *explainer) undeclaredName(name string) (code, text, hint string) {
	if name == "now" {
		return "name", "there is no `now`: an expression must give the same result when a run is replayed", "use `run.started_at`"
	}
	isIn := func(object string) bool {
		o := x.ts.Lookup(object)
		return o != nil && o.Fields[name] != nil
	}
	word := cmp.Or(x.hyphenated(), name)
	before, _ := x.around()
	if m := publishedName.FindStringSubmatch(before); m != nil {
		return "name", fmt.Sprintf("`%s` is not defined here", name), "write " + m[1] + "['" + m[2] + word + "']: in an expression a hyphen is a subtraction"
	}
	switch hint = x.nameHint(name); {
	case hint != "":
	case name == x.e.Own:
		hint = "the outputs of its own step are plain names here"
		for _, r := range x.e.Refs {
			if r.Path[0].Name == name && len(r.Path) > 1 {
				hint = "its own outputs are plain names here: write `" + Reference{Path: r.Path[1:]}.String() + "`"
			}
		}
	case isIn("steps") && advice.Compared(name, x.e.Text) != "": // with a whole step nothing can be
		hint = advice.Compared(name, x.e.Text)
	case isIn("steps"):
		hint = "write `steps." + name + "`"
	case isIn("params"):
		hint = "write `params." + name + "`"
	case x.e.Node != nil && strings.ToUpper(name) == name:
		hint = "for a shell variable write `$${" + name + "}`, or use `script:`, where the shell expands `${}`"
	default:
		hint = cmp.Or(suggest.DidYouMean(name, slices.Collect(maps.Keys(x.vars))), x.elsewhere(name), advice.Compared(name, x.e.Text),
			suggest.Hint(name, slices.Collect(maps.Keys(x.vars))))
	}
	return "name", fmt.Sprintf("`%s` is not defined here", name), hint
}

// undefinedField explains a field that an object lacks: it walks the path from its name to the object, whose type says what the
// fields are.
func (x *explainer) undefinedField(name string) (code, text, hint string) {
	var owner *ObjectType
	var at []Segment // what has no such field
	here := false
	x.bind()
	ast.PreOrderVisit(x.e.tree.Expr(), ast.NewExprVisitor(func(n ast.Expr) {
		of := ownerOf(n, name)
		t := present(x.typeOf(of))
		if t == nil || here {
			return
		}
		if o := x.ts.ObjectType(t); o != nil && o.Fields[name] == nil {
			here = x.e.offset(n.ID()) == x.offset
			if here || owner == nil {
				owner = o
				at, _ = pathOf(of)
			}
		}
	}))
	if owner == nil {
		return "output", fmt.Sprintf("there is no field `%s`", name), ""
	}
	if owner.Name == "run" && (name == "failed" || name == "status") {
		return owner.Code, fmt.Sprintf("`run.%s` is only known when the main steps have ended", name), "only steps of `on_failure` and `finally` can use it"
	}
	text = fmt.Sprintf("`%s` is not %s", name, owner.What)
	switch word := x.hyphenated(); {
	case word != "" && owner.Fields[word] != nil:
		return owner.Code, "", ""
	case IsArtifact(owner.Name) && len(at) > 0:
		return owner.Code, text, artifactHint(Reference{Path: at})
	case name == "outputs" && len(at) == 2:
		return owner.Code, text, "read outputs from the step itself: " + Reference{Path: at}.String() + ".NAME"
	case x.slashed(owner, name) != "":
		return owner.Code, text, "write metrics[\"" + x.slashed(owner, name) + "\"]"
	case word != "" && owner.Fields[strings.ReplaceAll(word, "-", "_")] != nil:
		return owner.Code, "`" + word + "` is not " + owner.What, "did you mean `" + strings.ReplaceAll(word, "-", "_") + "`? In an expression a hyphen is a subtraction"
	}
	switch {
	case owner.Code == "output" && len(at) == 2 && advice.Ending(at[1].Name, name) != "":
		return owner.Code, text, advice.Ending(at[1].Name, name)
	case len(owner.Fields) == 0 && owner.Code == "output":
		return owner.Code, text, "declare it in the step: `outputs: {" + name + ": {type: int}}`"
	case len(owner.Fields) == 0 && owner.Code == "metric":
		return owner.Code, text, "declare it in the step: `metrics: [" + name + "]`"
	}
	if quantile.MatchString(name) {
		if all := slices.DeleteFunc(owner.FieldNames(), func(f string) bool { return !quantile.MatchString(f) }); len(all) > 1 {
			return owner.Code, text, "its quantiles are " + strings.Join(all, ", ")
		}
	}
	if owner.Hint != "" && suggest.To(name, owner.FieldNames()) == "" {
		return owner.Code, text, strings.ReplaceAll(owner.Hint, "NAME", name)
	}
	return owner.Code, text, suggest.Hint(name, owner.FieldNames())
}

func (x *explainer) noOverload(function, operands string) (code, text, hint string) {
	if strings.Contains(operands, "!error!") {
		return "type", "", "" // of what cannot be read it is told by itself
	}
	operands = strings.NewReplacer("optional_type(", "optional(", "google.protobuf.", "", objectPrefix, "").Replace(operands)
	name := function
	if function == meter.BestOf {
		return "type", "`best` compares numbers, strings, durations or timestamps", "for example steps.fit.best(f, f.metrics.f1)"
	}
	if branches := strings.Split(strings.Trim(operands, "()"), ", "); function == operators.Conditional && len(branches) == 3 {
		return "type", fmt.Sprintf("the branches of `?:` must be of one type, and these are %s and %s", spec.Article(branches[1]), spec.Article(branches[2])), "convert one of them: string(...)"
	}
	if m := operator.FindStringSubmatch(function); m != nil {
		name = m[1] + m[2]
	}
	if name == "_[_]" {
		name = "[ ]"
	}
	if steps := x.ts.Lookup("steps"); name == "[ ]" && strings.HasPrefix(operands, "(steps,") && steps.Fields[x.indexed()] == cel.DynType {
		return "type", "", "" // a step that could not be read, of which it is told
	}
	name = strings.TrimPrefix(name, "@") // of `in`
	if x.e.Scope == ScopeRow {
		before, after := x.around()
		hint = advice.Column(operands, before, after)
	}
	if hint == "" {
		hint = cmp.Or(advice.Operator(name, operands, x.e.Text), x.objectHint(name, operands))
	}
	return "type", fmt.Sprintf("`%s` is not defined for %s", name, operands), hint
}

// around is the text before the error that is explained, and the text from there on.
func (x *explainer) around() (before, after string) {
	text := []rune(x.e.Text)
	at := min(x.offset, len(text))
	return string(text[:at]), string(text[at:])
}

// fromName is the text from the name on that is at the error, or behind the dot there.
func (x *explainer) fromName() string {
	_, after := x.around()
	return strings.TrimLeft(after, ".?")
}

var (
	// publishedName is the beginning of a name in the registry, up to the last hyphen.
	publishedName = regexp.MustCompile(`\b(datasets|models)\.([\w-]*-)\s*$`)
	fieldName     = regexp.MustCompile(`^\w+`)
	wholeItem     = regexp.MustCompile(`(?:^|[^\w.])item$`)
	quantile      = regexp.MustCompile(`^p\d+(_ms)?$`)
	hyphenName    = regexp.MustCompile(`^[\w.]+(?:-[a-z]\w*)+`)
)

// slashed is the metric that was meant by a name with what follows it: metrics.val/acc. What follows is not told of.
func (x *explainer) slashed(owner *ObjectType, name string) string {
	at := x.fromName()
	for _, field := range owner.FieldNames() {
		if owner.Code == "metric" && field != name && !IsIdentifier(field) && strings.HasPrefix(at, field) {
			x.unknown = append(x.unknown, [2]int{x.offset, x.offset + len(field) + 1})
			return field
		}
	}
	return ""
}

var hyphenPath = regexp.MustCompile(`\b(datasets|models|secrets)\.(\w+(?:-\w+)+)`)

// reportHyphen reports the name of a secret or of something published that has a hyphen, which an expression takes for a subtraction.
func (x *explainer) reportHyphen() bool {
	m := hyphenPath.FindStringSubmatchIndex(x.e.Text)
	if m == nil {
		return false
	}
	root, name := x.e.Text[m[2]:m[3]], x.e.Text[m[4]:m[5]]
	hint, message := "write "+root+"['"+name+"']", "`"+x.e.Text[m[0]:m[1]]+"` is a subtraction here: a name with a hyphen is not read with a dot"
	if root == "secrets" {
		hint, message = advice.Secret(name), "`secrets` is not defined here"
	}
	x.e.Report(x.src, utf8.RuneCountInString(x.e.Text[:m[0]]), "name", hint, message)
	return true
}

// hyphenated is a name at the error with hyphens in it, which CEL takes for subtractions: what follows the first is not told of.
func (x *explainer) hyphenated() string {
	word := hyphenName.FindString(x.fromName())
	if word != "" {
		x.unknown = append(x.unknown, [2]int{x.offset, x.offset + len(word) + 1})
	}
	return word
}
