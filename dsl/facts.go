package dsl

import (
	"cmp"
	"maps"
	"reflect"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
)

func (c *checker) triggerType() *expr.ObjectType {
	var names []string
	for key := range document.Entries(c.root, "triggers") {
		names = append(names, key.Value)
	}
	if len(names) > 0 {
		names = append(names, "") // of a run that was started by hand
	}
	return &expr.ObjectType{
		Name: "trigger", Code: "name", What: "a fact of the trigger", Optional: map[string]bool{"value": true},
		Fields: map[string]*cel.Type{
			"name": cel.StringType, "kind": cel.StringType, "time": cel.TimestampType, "files": cel.ListType(cel.StringType),
			"value": cel.DoubleType,
		},
		Ranges: map[string]expr.Range{
			"name": {Only: names}, "kind": {Only: append(spec.Choices(reflect.TypeFor[spec.Trigger]()), spec.TriggerManual)},
		},
	}
}

// tellPlace tells an expression of a step what is known where it stands: of the step's own outputs, and of how the run went.
func (c *checker) tellPlace(e *expr.Expression, s *step) {
	if s == nil {
		return
	}
	e.Ranges = map[string]expr.Range{}
	if e.Scope == expr.ScopeGate || e.Scope == expr.ScopeUntil {
		e.Own = s.ID
		maps.Copy(e.Ranges, c.outputsOf(s).Ranges)
	}
	if s.Repeat.Until != "" {
		e.Ranges["index"] = expr.Within(0, float64(cmp.Or(s.Repeat.Max, spec.DefaultsOf[spec.Repeat]().Max)-1))
	}
	if e.Node == document.Lookup(s.body, "drift", "against") {
		e.Expected.Hint = "name a published dataset, or leave it out for that of the last accepted run"
	}
	if s.section == spec.SectionOnFailure {
		status := expr.Range{Else: texts(spec.RunEnds())}
		for _, end := range spec.RunEnds() {
			if spec.EndOfRun(end, "").HandlesFailure {
				status.Only = append(status.Only, string(end))
			}
		}
		e.Ranges["run.status"] = status
	}
}

// stepNames are those of all steps; nil where some could not be read.
func (c *checker) stepNames() (names []string) {
	for _, s := range c.steps {
		names = append(names, s.ID)
	}
	if len(c.unreadable) > 0 {
		return nil
	}
	return names
}

func texts[T ~string](of []T) (all []string) {
	for _, v := range of {
		all = append(all, string(v))
	}
	return all
}

func triggerValue(ts *expr.TypeSystem, t spec.TriggerFacts) *expr.Object {
	fields := map[string]ref.Val{
		"name": types.String(t.Name), "kind": types.String(t.Kind), "time": types.Timestamp{Time: t.Time},
		"files": types.NewStringList(ts, t.Files),
	}
	if t.Kind == "metric" {
		fields["value"] = types.Double(t.Value)
	}
	return ts.NewObject("trigger", fields)
}

// published are the newest versions of artifacts, by name.
func published(ts *expr.TypeSystem, t *cel.Type, refs map[string]artifact.Ref) (ref.Val, error) {
	values := make(map[ref.Val]ref.Val, len(refs))
	for name, r := range refs {
		v, err := valueOf(ts, t, r)
		if err != nil {
			return nil, err
		}
		values[types.String(name)] = v
	}
	return ts.NewMap(values), nil
}

// valueOf is what expressions see of v as a value of type t.
func valueOf(ts *expr.TypeSystem, t *cel.Type, v any) (ref.Val, error) {
	raw, err := spec.Encode(v)
	if err != nil {
		return nil, err
	}
	return ts.Decode(t, raw)
}
