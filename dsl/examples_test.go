package dsl

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/dsl/transform"
)

// The examples of keys in docs/reference.md and schema.json are taken from the documents in testdata/examples, which TestExamples
// lints whole: of each key the shortest that is there.

// example is a key as it stands in a document.
type example struct {
	text  string // the value on one line
	value any
}

// keyExamples finds an example of each key, under the name that its comment has: "Gate.Check".
func keyExamples(t *testing.T) map[string]example {
	t.Helper()
	found := map[string]example{}
	paths, err := filepath.Glob("testdata/examples/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d examples, %v", len(paths), err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var doc yaml.Node
		if err := yaml.Unmarshal(data, &doc); err != nil {
			t.Fatal(err)
		}
		root := reflect.TypeFor[spec.Pipeline]()
		if environmentExample(data) {
			root = reflect.TypeFor[spec.Environment]()
		}
		collectExamples(found, doc.Content[0], root)
	}
	return found
}

func environmentExample(data []byte) bool {
	return strings.Contains("\n"+string(data), "\nsluice: environment/")
}

// collectExamples walks a value as the decoder does.
func collectExamples(found map[string]example, n *yaml.Node, t reflect.Type) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == stepsType:
		eachEntry(n, func(_ string, step *yaml.Node) { collectStep(found, step) })
	case t == defaultsType:
		collectStep(found, n)
		collectExamples(found, document.Child(n, "step"), reflect.TypeFor[spec.Envelope]())
	case n == nil:
	case t == gateType && n.Kind == yaml.MappingNode:
		collectExamples(found, n, t.Elem())
	case t == transformType:
		collectFields(found, n, t)
		if typ, config := document.Child(n, "type"), document.Child(n, "config"); typ != nil && transform.Config(typ.Value) != nil {
			collectExamples(found, config, reflect.TypeOf(transform.Config(typ.Value)))
		}
	case t.Kind() == reflect.Struct:
		collectFields(found, n, t)
	case t.Kind() == reflect.Map:
		eachEntry(n, func(_ string, v *yaml.Node) { collectExamples(found, v, t.Elem()) })
	case t.Kind() == reflect.Slice && n.Kind == yaml.SequenceNode:
		for _, item := range n.Content {
			collectExamples(found, item, t.Elem())
		}
	}
}

func collectStep(found map[string]example, n *yaml.Node) {
	collectFields(found, n, reflect.TypeFor[spec.Envelope]())
	for _, k := range kinds {
		if body := document.Child(n, string(k.kind)); body != nil {
			collectExamples(found, body, reflect.TypeOf(k.new()).Elem())
		}
	}
}

func collectFields(found map[string]example, n *yaml.Node, t reflect.Type) {
	for _, f := range spec.KeysOf(t) {
		v := document.Child(n, f.Name)
		if v == nil {
			continue
		}
		// A gate in brackets is refused, so that a list of conditions cannot stand on one line.
		if text := oneLineYAML(v, false); f.Type != gateType || v.Kind != yaml.SequenceNode {
			if have, ok := found[goName(t, f)]; !ok || len(text) < len(have.text) {
				var value any
				if err := v.Decode(&value); err == nil {
					found[goName(t, f)] = example{text, value}
				}
			}
		}
		collectExamples(found, v, f.Type)
	}
}

func eachEntry(n *yaml.Node, f func(key string, v *yaml.Node)) {
	for i := 0; n != nil && n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		f(n.Content[i].Value, n.Content[i+1])
	}
}

// oneLineYAML writes a value on one line; inside brackets more has to be quoted.
func oneLineYAML(n *yaml.Node, inside bool) string {
	var items []string
	switch n.Kind {
	case yaml.MappingNode:
		eachEntry(n, func(key string, v *yaml.Node) { items = append(items, key+": "+oneLineYAML(v, true)) })
		return "{" + strings.Join(items, ", ") + "}"
	case yaml.SequenceNode:
		for _, item := range n.Content {
			items = append(items, oneLineYAML(item, true))
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	plain := n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) == 0 && !strings.Contains(n.Value, "\n")
	if plain && !(inside && strings.ContainsAny(n.Value, ",[]{}")) {
		return n.Value
	}
	return strconv.Quote(n.Value)
}

// TestKeyExamples: there is an example of every key, and on its line it means what it means in the document.
func TestKeyExamples(t *testing.T) {
	found := keyExamples(t)
	for _, name := range allKeys() {
		if _, ok := found[name]; !ok {
			t.Errorf("no document in testdata/examples has %s: add it to one", name)
		}
	}
	for name, e := range found {
		var got map[string]any
		if err := yaml.Unmarshal([]byte("key: "+e.text), &got); err != nil {
			t.Errorf("%s: %s: %v", name, e.text, err)
		} else if diff := cmp.Diff(e.value, got["key"]); diff != "" {
			t.Errorf("%s: %s: %s", name, e.text, diff)
		}
		if _, err := json.Marshal(e.value); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// allKeys lists the keys of all structs of the language, as keyExamples names them.
func allKeys() []string {
	keys := map[string]bool{}
	seen := map[reflect.Type]bool{}
	var walk func(t reflect.Type)
	walk = func(t reflect.Type) {
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			walk(t.Elem())
			return
		}
		if t.Kind() != reflect.Struct || seen[t] || t == refType || t == reflect.TypeFor[spec.Step]() {
			return
		}
		seen[t] = true
		for _, f := range spec.KeysOf(t) {
			keys[goName(t, f)] = true
			walk(f.Type)
		}
	}
	for _, t := range []reflect.Type{reflect.TypeFor[spec.Pipeline](), reflect.TypeFor[spec.Environment](), reflect.TypeFor[spec.Envelope]()} {
		walk(t)
	}
	for _, k := range kinds {
		walk(reflect.TypeOf(k.new()).Elem())
	}
	for _, typ := range transform.Types() {
		walk(reflect.TypeOf(transform.Config(typ)))
	}
	return slices.Sorted(maps.Keys(keys))
}
