package engine

import (
	"encoding/json"
	"testing"

	"github.com/sluiceml/sluice/dsl/spec"
)

func TestWithInstance(t *testing.T) {
	of := spec.Instance{Index: 2, Item: json.RawMessage(`"a"`)}
	for outputs, want := range map[string]string{
		``: `{"index":2,"item":"a"}`, `null`: `{"index":2,"item":"a"}`, `{"n":1}`: `{"index":2,"item":"a","n":1}`,
	} {
		if got, err := withInstance(json.RawMessage(outputs), of); string(got) != want || err != nil {
			t.Errorf("%q became %s, %v, want %s", outputs, got, err, want)
		}
	}
}
