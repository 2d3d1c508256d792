package dsl

import (
	"encoding/json"
	"testing"

	"github.com/sluiceml/sluice/dsl/spec"
)

// Nothing is counted under a rule or a reason that never came up: a gate on it reads zero.
func TestCountsOfNothingAreZero(t *testing.T) {
	p := mustCompile(t, `sluice: pipeline/v1
name: p
steps:
  a:
    clean:
      transforms:
        - {type: ReadFromJson, config: {path: "*.json"}}
        - {type: Exec, config: {command: [cat]}}
        - {type: WriteToJson}
    gate:
      - rules["Exec/old"].dropped == 2
      - rules["Exec/new"].dropped == 0
      - reasons["ReadFromJson/not_json"] == 1
      - reasons["ReadFromJson/damaged"] == 0
      - size(reasons) == 1 && !("ReadFromJson/damaged" in reasons)
`)
	for _, outputs := range []string{
		`{"rules": {"Exec/old": {"dropped": 2}}, "reasons": {"ReadFromJson/not_json": 1}}`,
		`{"rules": {"Exec/old": {"dropped": 2}, "Exec/new": {"dropped": 0}}, "reasons": {"ReadFromJson/not_json": 1}}`,
	} {
		checks, verdict := p.EvaluateGate("a", json.RawMessage(outputs), spec.Vars{})
		if verdict != spec.VerdictPass {
			t.Errorf("%s: %s\n%+v", outputs, verdict, checks)
		}
	}
	if _, verdict := p.EvaluateGate("a", json.RawMessage(`{"rules": {}}`), spec.Vars{}); verdict != spec.VerdictFail {
		t.Errorf("without any: %s", verdict)
	}
}
