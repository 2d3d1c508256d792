package view

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/activities"
	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/dsl/document"
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

// TestDiagrams: sections, fans and outlooks are drawn, and no name gets out of its label.
func TestDiagrams(t *testing.T) {
	p := &dsl.Pipeline{
		Name: `"><script>`,
		Steps: dsl.Steps{
			{ID: "mail", Kind: dsl.KindClean, Envelope: dsl.Envelope{Gate: []dsl.Gate{{Check: `rows.kept > 1 && "]` + "\n" + `<b>" != '\'`}}}},
			{ID: "fit", Kind: dsl.KindTrain},
			{ID: "score", Kind: dsl.KindEvaluate},
		},
		OnFailure: dsl.Steps{{ID: "page", Kind: dsl.KindRun}},
		Finally:   dsl.Steps{{ID: "report", Kind: dsl.KindRun}},
	}
	graph := []dsl.Node{
		{ID: "mail", Kind: dsl.KindClean},
		{ID: "fit", Kind: dsl.KindTrain, Fan: dsl.FanMatrix, Needs: map[string]dsl.Need{"mail": dsl.NeedPassed}, After: []string{"mail"}},
		{ID: "score", Kind: dsl.KindEvaluate, Needs: map[string]dsl.Need{"fit": dsl.NeedEnded, "mail": dsl.NeedPassed}, After: []string{"fit", "mail"}},
		{ID: "page", Kind: dsl.KindRun, Section: dsl.SectionOnFailure},
		{ID: "report", Kind: dsl.KindRun, Section: dsl.SectionFinally},
	}
	plan := NewPlan(p, graph, activities.Forecast{Seconds: 190, CostUSD: 1.5, Steps: map[string]activities.Outlook{
		"mail":   {Prospect: activities.ProspectCached, From: "spam-1"},
		"fit":    {Prospect: activities.ProspectChanged, From: "spam-1", Changed: []string{"command", "files"}, Files: []string{"train.py"}, Of: 3, Cached: 1, Seconds: 190, CostUSD: 1.5},
		"score":  {Prospect: activities.ProspectRuns, After: []string{"fit"}},
		"page":   {Prospect: activities.ProspectNotRun, Reason: "it runs when a step fails"},
		"report": {Prospect: activities.ProspectCached, From: "spam-1", Reason: "its gate would ask a person"},
	}})
	golden(t, "plan-sections", func(w io.Writer) error { return Theme{}.Plan(w, plan) })
	golden(t, "plan-mermaid", func(w io.Writer) error { return Mermaid(w, plan) })
	golden(t, "plan-dot", func(w io.Writer) error { return DOT(w, plan) })
	golden(t, "plan-svg", func(w io.Writer) error { return SVG(w, plan) })
}
