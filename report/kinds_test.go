package report

import (
	"os"
	"regexp"
	"testing"

	"github.com/sluiceml/sluice/dsl/spec"
)

// TestKinds: each kind of the language has a line that says how it is reported.
func TestKinds(t *testing.T) {
	for _, kind := range spec.Kinds {
		if info := kinds[kind]; info.brief == nil || info.tell == nil {
			t.Errorf("kinds.go does not say how a %s step is reported", kind)
		}
	}
	if len(kinds) != len(spec.Kinds) {
		t.Errorf("%d kinds have a line, the language has %d", len(kinds), len(spec.Kinds))
	}
}

// TestEndsAreTold: whatever ends a generation, the report has a style and a word for it. The constants are read from their source, so that
// none is forgotten.
func TestEndsAreTold(t *testing.T) {
	source, err := os.ReadFile("../dsl/spec/train.go")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^\tEnd\w+ +GenerationEnd = "(\w+)"`).FindAllSubmatch(source, -1)
	if len(found) != len(ends) {
		t.Errorf("there are %d ends, and the table has %d", len(found), len(ends))
	}
	for _, end := range found {
		if told := ends[spec.GenerationEnd(end[1])]; told.class == "" || told.word == "" {
			t.Errorf("%s is told as %+v", end[1], told)
		}
	}
}
