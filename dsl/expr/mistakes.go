package expr

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"

	"github.com/sluiceml/sluice/dsl/advice"
	"github.com/sluiceml/sluice/internal/suggest"
)

// nameHint explains a name of another language or system; path is what is read from it.
func (x *explainer) nameHint(name string) string {
	if hint := cmp.Or(x.instanceHint(name), advice.Name(name)); hint != "" {
		return hint
	}
	var path []Segment
	for _, r := range x.e.Refs {
		if r.Path[0].Name == name {
			path = r.Path[1:]
		}
	}
	switch {
	case name == "secrets" || name == "secret":
		key := "KEY"
		if len(path) > 0 {
			key = path[0].Name
		}
		return advice.Secret(key)
	case slices.Contains([]string{"needs", "tasks", "jobs", "dependencies"}, name) && len(path) > 0:
		rest := slices.DeleteFunc(slices.Clone(path), func(s Segment) bool { return s.Name == "outputs" })
		return "write ${" + Reference{Path: append([]Segment{{Name: "steps"}}, rest...)}.String() + "}"
	case name == "outputs" && len(path) > 0 && (x.e.Scope == ScopeGate || x.e.Scope == ScopeUntil):
		return "the outputs of its own step are plain names here: write `" + Reference{Path: path}.String() + "`"
	case name == "row" && x.e.Scope != ScopeRow:
		return "`row` is a row of a cleaning, and only its transforms see it"
	case name == "inputs":
		return "declare it under the kind: `inputs: {NAME: \"${steps.STEP.OUTPUT}\"}`"
	case x.e.Scope == ScopeRow && suggest.To(name, []string{"row", "params"}) == "":
		return "write `row." + name + "` for the column"
	}
	if metrics := x.vars["metrics"]; metrics != nil && (x.e.Scope == ScopeGate || x.e.Scope == ScopeUntil) {
		if o := x.ts.ObjectType(metrics); o != nil && o.Fields[name] != nil {
			return "write `metrics." + name + "`"
		}
	}
	return ""
}

// elsewhere is a hint for a name that is an axis of the step's matrix, or an output of another step.
func (x *explainer) elsewhere(name string) string {
	if o := x.ts.ObjectAt(x.vars, []Segment{{Name: "matrix"}}); o != nil && o.Fields[name] != nil {
		return "write `matrix." + name + "`"
	}
	steps := x.ts.Lookup("steps")
	if steps == nil {
		return ""
	}
	for _, id := range steps.FieldNames() {
		if o := x.ts.ObjectType(steps.Fields[id]); o != nil && o.Fields[name] != nil {
			return "write `steps." + id + "." + name + "`"
		}
	}
	return ""
}

// objectHint is a hint for an object where a text or an element is meant.
func (x *explainer) objectHint(operator, operands string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(operands, "("), ",")
	o := x.ts.Lookup(first)
	switch {
	case o == nil || len(o.Fields) == 0:
		return ""
	case operator == "[ ]" && first == "steps" && x.indexed() != "":
		return "write steps." + x.indexed()
	case operator == "[ ]" && o.Fields[x.indexed()] != nil:
		return "write ." + x.indexed()
	case operator == "[ ]":
		return "it has names but no order: ." + o.FieldNames()[0]
	case o.Fields["name"] != nil:
		for _, r := range x.e.Refs {
			if t := x.typeAt(r.Path); t != nil && x.ts.ObjectType(t) == o {
				return "compare its name: " + r.String() + ".name"
			}
		}
	}
	return "its fields are " + strings.Join(o.FieldNames(), ", ")
}

// indexed is the constant text within the first brackets that begin where the error is.
func (x *explainer) indexed() string {
	_, after := x.around()
	if m := constantIndex.FindStringSubmatch(after); m != nil {
		return m[1]
	}
	return ""
}

var constantIndex = regexp.MustCompile(`^\[\s*["']([a-zA-Z][\w-]*)["']\s*\]`)

// artifactHint says how a program gets an artifact whose path is meant: r leads to the artifact.
func artifactHint(r Reference) string {
	return advice.Artifact(r.String(), r.Path[len(r.Path)-1].Name, r.Path[0].Name == "inputs", len(r.Path) == 1)
}

// pathMeant is the hint for an expression whose value is an artifact, or an input, where a text is expected.
func (e *Expression) pathMeant(t *cel.Type) string {
	name := strings.TrimPrefix(t.TypeName(), objectPrefix)
	if t.Kind() != types.StructKind || !IsArtifact(name) && name != "input" || !e.Expected.IsText() || len(e.Refs) != 1 {
		return ""
	}
	return cmp.Or(e.Expected.Hint, artifactHint(e.Refs[0]))
}
