package view

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
)

// odd are findings with all that the formats have to escape.
var odd = document.Diagnostics{
	{File: "a b/x:1,é.yaml", Line: 3, Col: 7, Severity: document.SeverityError, Code: "type", Message: "100% <of>\n`it`", Hint: "do, this: now", Source: "  a: \"b\""},
	{File: "/abs/y.yaml", Severity: document.SeverityWarning, Code: "unused-param", Message: "nothing reads it"},
	{Severity: document.SeverityError, Code: "type", Message: "a parameter of the command line"},
}

func TestAnnotations(t *testing.T) {
	golden(t, "findings-github", func(w io.Writer) error { return Annotations(w, odd) })
}

// TestSARIF: the log was valid by the schema that OASIS publishes when the golden file was written; what a reader must rely on is
// checked here again.
func TestSARIF(t *testing.T) {
	golden(t, "findings-sarif", func(w io.Writer) error { return SARIF(w, "v1.2.3", odd) })
	var b bytes.Buffer
	if err := SARIF(&b, "", odd); err != nil {
		t.Fatal(err)
	}
	var log sarifLog
	if err := json.Unmarshal(b.Bytes(), &log); err != nil {
		t.Fatal(err)
	}
	run := log.Runs[0]
	if log.Version != "2.1.0" || len(run.Results) != len(odd) {
		t.Fatalf("%s with %d results", log.Version, len(run.Results))
	}
	for i, r := range run.Results {
		if rule := run.Tool.Driver.Rules[r.RuleIndex]; rule.ID != r.RuleID || rule.Full.Text == "" {
			t.Errorf("result %d has the rule %v", i, rule)
		}
		if !strings.Contains("error warning", r.Level) || r.Message.Text == "" {
			t.Errorf("result %d: %v", i, r)
		}
	}
}

// TestDiagrams: sections, fans and what is planned are drawn, and no name gets out of its label.
func TestDiagrams(t *testing.T) {
	p := &spec.Pipeline{
		Name: `"><script>`,
		Steps: spec.Steps{
			{ID: "mail", Kind: spec.KindClean, Envelope: spec.Envelope{Gate: []spec.Gate{{Check: `rows.kept > 1 && "]` + "\n" + `<b>" != '\'`}}}},
			{ID: "fit", Kind: spec.KindTrain},
			{ID: "score", Kind: spec.KindEvaluate},
		},
		OnFailure: spec.Steps{{ID: "page", Kind: spec.KindRun}},
		Finally:   spec.Steps{{ID: "report", Kind: spec.KindRun}},
	}
	graph := []spec.Node{
		{ID: "mail", Kind: spec.KindClean},
		{ID: "fit", Kind: spec.KindTrain, Fan: spec.FanMatrix, Needs: map[string]spec.Need{"mail": spec.NeedPassed}, After: []string{"mail"}},
		{ID: "score", Kind: spec.KindEvaluate, Needs: map[string]spec.Need{"fit": spec.NeedEnded, "mail": spec.NeedPassed}, After: []string{"fit", "mail"}},
		{ID: "page", Kind: spec.KindRun, Section: spec.SectionOnFailure},
		{ID: "report", Kind: spec.KindRun, Section: spec.SectionFinally},
	}
	plan := NewPlan(program{p, graph}, contract.Plan{Seconds: 190, CostUSD: 1.5, Steps: map[string]contract.StepPlan{
		"mail":   {Action: contract.ActionReuse, From: "spam-1"},
		"fit":    {Action: contract.ActionRunChanged, From: "spam-1", Changed: []string{"command", "files"}, Files: []string{"train.py"}, Of: 3, Cached: 1, Seconds: 190, CostUSD: 1.5},
		"score":  {Action: contract.ActionRun, After: []string{"fit"}},
		"page":   {Action: contract.ActionNone, Reason: "it runs when a step fails"},
		"report": {Action: contract.ActionReuse, From: "spam-1", Reason: "its gate would ask a person"},
	}})
	golden(t, "plan-sections", func(w io.Writer) error { return Theme{}.Plan(w, plan) })
	golden(t, "plan-mermaid", func(w io.Writer) error { return Mermaid(w, plan) })
}

func TestEndColumn(t *testing.T) {
	for _, c := range []struct {
		source    string
		from, col int
		want      int
	}{
		{"gate: metrics.größe > 1", 0, 15, 20},
		{"gate: n", 0, 7, 8},
		{"gate: n", 0, 8, 9},
		{"a: [b]", 0, 4, 5},
		{`"max_steps": 1`, 5000, 5002, 5011}, // a piece of a long line
	} {
		if got := endColumn(document.Diagnostic{Source: c.source, From: c.from, Col: c.col}); got != c.want {
			t.Errorf("%q at %d ends at %d, want %d", c.source, c.col, got, c.want)
		}
	}
}
