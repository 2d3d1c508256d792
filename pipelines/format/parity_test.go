package format

import (
	"strings"
	"testing"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/dsl/transform"
)

// TestParity: what the language has for reading and writing files is done here.
func TestParity(t *testing.T) {
	for _, typ := range transform.Types() {
		var err error
		switch {
		case transform.IsReader(typ):
			_, err = CompileReader(spec.Transform{Type: typ})
		case transform.IsWriter(typ):
			_, _, err = CompileWriter(spec.Transform{Type: typ})
		}
		if err != nil && strings.Contains(err.Error(), "there is no transform") {
			t.Errorf("%s: %v", typ, err)
		}
	}
}
