package dsl

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/environment"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/dsl/transform"
)

// TestReference keeps docs/reference.md what the spec structs say.
func TestReference(t *testing.T) {
	w := &referenceWriter{t: t, comments: comments(t), examples: keyExamples(t)}
	w.line("# Reference\n")
	w.line("All keys of pipelines and environments, with types and defaults. Both are YAML documents. `sluice lint` checks them completely before anything\nruns, and `schema.json` gives an editor completion. `make generate` writes this page from the structs in `dsl/`; [pipelines.md](pipelines.md) explains\nthe language by task.\n")
	w.line("Values may contain `${expression}`, unless the key, or one around it, is marked *fixed*. An expression that is the whole value keeps its type; inside a text it is\nconverted to text. `$${` is a literal `${`. Durations are written `90s` or `1h30m`, shares `10%%` or `0.1`, sizes `16GiB`, with kB, MB,\nGB and TB, or KiB, MiB, GiB and TiB.\n")
	w.section("Pipeline", reflect.TypeFor[spec.Pipeline]())
	w.section("Parameters", reflect.TypeFor[spec.Param]())
	w.section("Steps", reflect.TypeFor[spec.Envelope]())
	w.line("A step waits for the steps that it names in `needs` and for those that its expressions read. `needs` has these conditions:\n")
	w.line("| condition | the step runs if the other step |\n| --- | --- |")
	for _, need := range [][2]string{
		{"passed", "succeeded and its gate passed; a plain reference requires this"},
		{"not_failed", "passed, or was skipped; `steps.?ID` requires this"},
		{"ended", "ended, in whatever way"},
		{"failed", "failed, or its gate did"},
	} {
		w.line("| `%s` | %s |", need[0], need[1])
	}
	w.line("")
	w.line("## Kinds\n\n%s\n", w.comments["Kind"])
	for _, k := range kinds {
		w.kind(k)
	}
	w.transforms()
	w.names()
	w.section("Environment", reflect.TypeFor[spec.Environment]())
	generated(t, "../docs/reference.md", []byte(w.b.String()))
}

type referenceWriter struct {
	t        *testing.T
	comments map[string]string
	examples map[string]example
	b        strings.Builder
}

func (w *referenceWriter) line(format string, args ...any) { fmt.Fprintf(&w.b, format+"\n", args...) }

func (w *referenceWriter) section(title string, t reflect.Type) {
	w.line("## %s\n\n%s\n", title, w.comment(t.Name()))
	w.table(t)
}

func (w *referenceWriter) comment(name string) string {
	if w.comments[name] == "" {
		w.t.Errorf("%s has no doc comment: a user would find nothing about it", name)
	}
	return w.comments[name]
}

// kind writes a page about a kind: what it does, an example, its keys, its outputs. A kind without an example fails the test.
func (w *referenceWriter) kind(k kindInfo) {
	t := reflect.TypeOf(k.new()).Elem()
	w.line("### %s\n\n%s\n", k.kind, w.comment(t.Name()))
	example, err := os.ReadFile("testdata/examples/" + string(k.kind) + ".yaml")
	if err != nil {
		w.t.Errorf("the kind %s has no example: %v", k.kind, err)
	}
	w.line("```yaml\n%s```\n", example)
	w.table(t)
	ts := expr.NewTypeSystem()
	of := k.outputs(ts, "x", k.new())
	outputs := of.Fields
	if len(outputs) == 0 {
		w.line("Outputs: those that it declares.\n")
		return
	}
	w.line("| output | type |\n| --- | --- |")
	for _, name := range slices.Sorted(maps.Keys(outputs)) {
		path := name
		if of.Optional[name] {
			path = "?" + name
		}
		w.output(ts, path, outputs[name])
	}
	w.line("")
}

func (w *referenceWriter) output(ts *expr.TypeSystem, path string, t *cel.Type) {
	if t.Kind() == types.MapKind {
		path, t = path+".NAME", t.Parameters()[1]
	}
	o := ts.ObjectType(t)
	switch {
	case o != nil && strings.HasSuffix(path, "metrics"):
		w.line("| `%s.NAME` | double, for each name in `metrics` |", path)
	case o != nil && strings.HasSuffix(path, "variants"):
		w.line("| `%s.NAME` | as `source`, for each name in `variants`; of engines with `flavor: rtx` also `.measured`, a bool, and `.?parity`, `.?latency` and `.?throughput` |", path)
	case o == nil || expr.IsArtifact(o.Name):
		w.line("| `%s` | %s |", path, expr.TypeName(t))
	default:
		for _, f := range o.FieldNames() {
			if o.Optional[f] {
				w.output(ts, path+".?"+f, o.Fields[f])
			} else {
				w.output(ts, path+"."+f, o.Fields[f])
			}
		}
	}
}

func (w *referenceWriter) transforms() {
	w.line("## Transforms of a clean step\n")
	for _, name := range transform.Types() {
		t := reflect.TypeOf(transform.Config(name))
		w.line("### %s\n\n%s\n", name, w.comment(t.Name()))
		w.table(t)
	}
}

// names lists what expressions see.
func (w *referenceWriter) names() {
	w.line(`## Names in expressions

Expressions are CEL, with its extensions for strings, math, lists, sets and encoders, and optional values. There is no clock, so that
expressions are deterministic. Every number that a step measures is a double; ints and doubles can be compared with each other. A value that may be
absent is an optional: read it with %[1]s.?%[1]s, and give a default with %[1]s.orValue(...)%[1]s. An output of a step cannot have a name of this
table, such as %[1]slast%[1]s or %[1]sitem%[1]s.

| name | meaning |
| --- | --- |
| %[1]sparams.NAME%[1]s | a parameter |
| %[1]ssteps.ID.OUTPUT%[1]s | an output of a step that passed; the reading step waits for it |
| %[1]ssteps.?ID.OUTPUT%[1]s | the same as an optional: the reading step also runs if the step was skipped |
| %[1]ssteps.ID.best(x, x.metrics.NAME)%[1]s | for a step with %[1]smatrix%[1]s or %[1]sforeach%[1]s, the instance with the largest value, or the first of several; the step is a list of the instances that passed, each with its outputs, its %[1]sindex%[1]s and its %[1]smatrix%[1]s or %[1]sitem%[1]s |
| %[1]smatrix.AXIS%[1]s, %[1]sitem%[1]s, %[1]sindex%[1]s | in a step with %[1]smatrix%[1]s or %[1]sforeach%[1]s, the values of the instance; not in %[1]swhen%[1]s, which is evaluated once |
| %[1]sprevious.?OUTPUT%[1]s, %[1]sindex%[1]s | in a step with %[1]srepeat%[1]s, the outputs of the previous iteration, and the number of earlier iterations |
| %[1]srun.status%[1]s, %[1]srun.failed[0].step%[1]s, %[1]s.error%[1]s, %[1]s.type%[1]s | in %[1]son_failure%[1]s and %[1]sfinally%[1]s, the outcome of the main steps |
| %[1]sinputs.NAME%[1]s | an input artifact of the step: %[1]spath%[1]s, %[1]sdigest%[1]s, %[1]sbytes%[1]s, %[1]sfiles%[1]s |
| %[1]srun.id%[1]s, %[1]srun.started_at%[1]s, %[1]srun.cost.usd%[1]s | facts of this run; times are timestamps |
| %[1]srun.scheduled_at%[1]s | the scheduled time of the run; without a schedule, the time when it started |
| %[1]srun.trigger.name%[1]s, %[1]s.kind%[1]s, %[1]s.time%[1]s | the trigger that started the run, and when; for a run that was started by hand the kind is manual and the name is empty |
| %[1]srun.trigger.files%[1]s | the URLs of the objects that a data trigger found, a list |
| %[1]srun.trigger.?value%[1]s | the value that a metric trigger measured, an optional |
| %[1]sdatasets[?"NAME"]%[1]s, %[1]smodels[?"NAME"]%[1]s | the current published version, an optional; without the %[1]s?%[1]s it must exist |
| %[1]sdatasets["NAME@TAG"]%[1]s, %[1]smodels["NAME@ALIAS"]%[1]s | the version with the tag or alias |
| %[1]slast.?steps.ID.OUTPUT%[1]s | an output of the pipeline's last accepted run, if there is one |
| %[1]sserving.TARGET.?steps.ID.OUTPUT%[1]s | an output of the run whose release the target serves |
| the step's outputs | in its gate and in %[1]suntil%[1]s, as plain names |
| %[1]srow%[1]s | in a clean step, the row |
| %[1]scandidate%[1]s, %[1]sstable%[1]s, %[1]sdelta%[1]s | in the checks of a rollout's stage |
`, "`")
}

// table lists the keys of a struct, those of structs in it with their path.
func (w *referenceWriter) table(t reflect.Type) {
	w.line("| key | value | | example |\n| --- | --- | --- | --- |")
	w.rows(t, "", false)
	w.line("")
}

func (w *referenceWriter) rows(t reflect.Type, prefix string, fixed bool) {
	for _, f := range spec.KeysOf(t) {
		notes := []string{}
		if f.Required {
			notes = append(notes, "required")
		}
		if f.Rules.Default != "" {
			notes = append(notes, "default `"+f.Rules.Default+"`")
		}
		switch low, high := f.Rules.Min, f.Rules.Max; {
		case low != nil && high != nil:
			notes = append(notes, "from "+spec.FormatDouble(*low)+" to "+spec.FormatDouble(*high))
		case low != nil && *low > 0:
			notes = append(notes, "at least "+spec.FormatDouble(*low))
		case high != nil:
			notes = append(notes, "at most "+spec.FormatDouble(*high))
		}
		if f.Rules.Literal && !fixed {
			notes = append(notes, "fixed")
		}
		doc := w.comment(goName(t, f))
		if f.Rules.Default != "" {
			doc = statedDefault.ReplaceAllString(doc, "")
		}
		value := valueName(f.Type, f.Rules)
		if len(notes) > 0 {
			value += " (" + strings.Join(notes, ", ") + ")"
		}
		path := prefix + f.Name
		w.line("| `%s` | %s | %s | %s |", path, value, tableText(doc), w.example(goName(t, f), f.Name))
		if inner, infix := innerStruct(f.Type); inner != nil && (inner != transformType || prefix == "" && f.Name == "transforms") {
			w.rows(inner, path+infix, fixed || f.Rules.Literal)
		}
	}
}

// longExample is how much of an example a table has room for, in bytes.
const longExample = 180

// example is a key as it stands in a document.
func (w *referenceWriter) example(name, key string) string {
	text := key + ": " + w.examples[name].text
	if len(text) > longExample {
		w.t.Errorf("the shortest example of %s is too long for a table: add a shorter one to testdata/examples", name)
	}
	fence := "`"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + tableText(text) + fence
}

// tableText is a text in a cell of a table.
func tableText(s string) string { return strings.ReplaceAll(strings.TrimSpace(s), "|", "\\|") }

// statedDefault is a default told in a comment; the table has it in a column.
var statedDefault = regexp.MustCompile(` ?(Default [^.]*\.$|\(default\))`)

// innerStruct is the struct behind a field whose keys belong to the same table.
func innerStruct(t reflect.Type) (inner reflect.Type, infix string) {
	infix = "."
	switch t.Kind() {
	case reflect.Pointer:
		t = t.Elem()
	case reflect.Slice:
		t, infix = t.Elem(), "[]."
	case reflect.Map:
		t, infix = t.Elem(), ".NAME."
	}
	if t.Kind() != reflect.Struct || t == refType || t == spec.TimeType || t == reflect.TypeFor[spec.Step]() || t == reflect.TypeFor[spec.Param]() {
		return nil, ""
	}
	return t, infix
}

func valueName(t reflect.Type, r spec.Rules) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case len(r.Enum) > 0 && t.Kind() == reflect.String:
		return "`" + strings.Join(r.Enum, "`, `") + "`"
	case t == spec.ExprType:
		return "CEL expression"
	case t == cacheType:
		return "`true`, `false`, or a mapping"
	case t == matrixType:
		return "mapping to lists"
	case t == filesType:
		return "list of text, or `none`"
	case t == nodesType:
		return "a number, or a mapping"
	case t == gateType:
		return "an expression, a mapping, or a block list of either"
	case t == stepsType:
		return "mapping by id"
	case t == rawType || t.Kind() == reflect.Interface:
		return "any"
	}
	switch t.Kind() {
	case reflect.Slice:
		if r.Single {
			return valueName(t.Elem(), spec.Rules{Enum: r.Enum}) + ", or a list"
		}
		return "list of " + strings.TrimPrefix(strings.TrimPrefix(valueName(t.Elem(), r), "a "), "an ")
	case reflect.Map:
		return "mapping to " + valueName(t.Elem(), r)
	case reflect.Struct:
		if t != refType && t != spec.TimeType {
			return "mapping"
		}
	}
	return expr.Expected{Type: t, Artifact: r.Artifact}.String()
}

// TestExamples: every example of the reference passes the linter without a word, and each kind has one.
func TestExamples(t *testing.T) {
	paths, err := filepath.Glob("testdata/examples/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	settings, err := os.ReadFile("testdata/examples/environment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[spec.Kind]bool{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if environmentExample(data) {
			if _, diags := environment.LoadFile(document.File{Name: path, Source: data}); len(diags) > 0 {
				t.Errorf("%s", diags.Text(false))
			}
			continue
		}
		env := document.File{Name: "environment.yaml", Source: settings}
		if kindByName(strings.TrimSuffix(filepath.Base(path), ".yaml")) != nil {
			env = document.File{} // what a page begins with runs without one
		}
		p, diags := Compile(document.File{Name: path, Source: data}, env, exampleFiles{})
		if len(diags) > 0 {
			t.Errorf("%s", diags.Text(false))
		}
		for _, k := range kinds {
			shown[k.kind] = shown[k.kind] || p != nil && filepath.Base(path) == string(k.kind)+".yaml" &&
				slices.ContainsFunc(p.Graph(), func(n spec.Node) bool { return n.Kind == k.kind })
		}
	}
	for _, k := range kinds {
		if !shown[k.kind] {
			t.Errorf("%s.yaml has no such step", k.kind)
		}
	}
}

// exampleFiles is a workspace that has every file; those that are pipelines are the examples.
type exampleFiles struct{}

func (exampleFiles) Exists(string) bool { return true }

func (exampleFiles) LeftOut(string) (why, help string) { return "", "" }

func (exampleFiles) ReadFile(path string) ([]byte, error) {
	return os.ReadFile(filepath.Join("testdata/examples", path))
}

// TestRepositoryExamples: the pipelines under examples/ pass the linter with their environment and files.
func TestRepositoryExamples(t *testing.T) {
	paths, err := filepath.Glob("../examples/*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	linted := 0
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(data), "\nsluice: pipeline/v1") {
			continue
		}
		env, err := os.ReadFile(filepath.Join(filepath.Dir(path), "environment.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		linted++
		if _, diags := Compile(document.File{Name: path, Source: data}, document.File{Name: "environment.yaml", Source: env}, folder(filepath.Dir(path))); len(diags) > 0 {
			t.Errorf("%s", diags.Text(false))
		}
	}
	if linted == 0 {
		t.Error("there are no examples")
	}
}

// folder is a workspace on disk.
type folder string

func (f folder) Exists(path string) bool {
	_, err := os.Stat(filepath.Join(string(f), path))
	return err == nil
}

func (folder) LeftOut(string) (why, help string) { return "", "" }

func (f folder) ReadFile(path string) ([]byte, error) {
	return os.ReadFile(filepath.Join(string(f), path))
}
