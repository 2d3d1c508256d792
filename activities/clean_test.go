package activities

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/activities/engine"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/secret"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// TestCleanOfEarlierBuild: a cleaning whose spec an earlier build has resolved, without the parameters, has them of the run.
func TestCleanOfEarlierBuild(t *testing.T) {
	s, err := store.Open(t.Context(), "file://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	sub, err := json.Marshal(record.Submission{File: "p.yaml", Pipeline: []byte(`sluice: pipeline/v1
name: p
params: {least: {type: int, default: 1770000000000000001}}
steps:
  tidy:
    foreach: "[1, 2]"
    clean: {read: rows.jsonl, write: json, transforms: [{type: Filter, name: f, config: {keep: "row.n >= params.least"}}]}
`)})
	if err != nil {
		t.Fatal(err)
	}
	digest, _, err := s.PutBlob(t.Context(), bytes.NewReader(sub))
	if err != nil {
		t.Fatal(err)
	}
	c := &Cleaner{Store: s, State: t.TempDir(), Engine: engine.NewEngine(s), Secrets: secret.NewResolver()}
	of := map[string]spec.RowParam{"least": {Type: "int", Value: json.RawMessage("1770000000000000001")}}
	for resolved, want := range map[string]map[string]spec.RowParam{
		`{"transforms": []}`: of, `{"transforms": [], "row_params": {"least": {"type": "int", "value": 7}}}`: {"least": {Type: "int", Value: json.RawMessage("7")}},
	} {
		got, over, err := c.job(t.Context(), record.StepInput{Run: "r1", Step: "tidy.0", Submission: digest, Spec: json.RawMessage(resolved)})
		if err != nil {
			t.Fatal(err)
		}
		over()
		if diff := cmp.Diff(want, got.Spec.RowParams); diff != "" {
			t.Errorf("%s (-want +got):\n%s", resolved, diff)
		}
	}
}
