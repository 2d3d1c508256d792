package dsl

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/spec"
)

// TestKinds looks for kinds that are not listed, and for facets that a line of the list lacks.
func TestKinds(t *testing.T) {
	source, err := os.ReadFile("spec/step.go")
	if err != nil {
		t.Fatal(err)
	}
	var declared []spec.Kind
	for _, m := range regexp.MustCompile(`(?m)^\tKind\w+ +Kind = "(\w+)"$`).FindAllSubmatch(source, -1) {
		declared = append(declared, spec.Kind(m[1]))
	}
	listed := []spec.Kind{}
	for _, k := range kinds {
		listed = append(listed, k.kind)
	}
	if !slices.Equal(declared, spec.Kinds) || !slices.Equal(declared, listed) {
		t.Errorf("declared are %v, in spec.Kinds %v, in the list %v", declared, spec.Kinds, listed)
	}
	for _, k := range kinds {
		t.Run(string(k.kind), func(t *testing.T) {
			line := reflect.ValueOf(k)
			for i := range line.NumField() {
				if name := line.Type().Field(i).Name; name != "scope" && line.Field(i).IsZero() {
					t.Errorf("the list does not say its %s", name)
				}
			}
			s := &step{Step: spec.Step{Kind: k.kind}, known: k.new(), body: &yaml.Node{Kind: yaml.MappingNode}}
			if k.caching(s) == 0 {
				t.Error("it does not say whether a step is cached")
			}
		})
	}
}
