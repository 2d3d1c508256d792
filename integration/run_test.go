package integration

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/serving/onnx/onnxtest"
)

// TestRun takes the whole chain through without a disturbance, and looks at all that is left of it.
func TestRun(t *testing.T) {
	t.Parallel()
	s := newChain(t)
	s.run("ledger="+s.dir, "steps=20").expect(0).says("chain: succeeded")

	record := s.show()
	for name, step := range record.Steps {
		if step.Status != "succeeded" || step.Attempts.Total != 1 || len(step.Attempts.ByErrorType) != 0 || step.Seconds <= 0 || len(step.Outputs) == 0 {
			t.Errorf("%s: %+v", name, step)
		}
	}
	if record.Status != "succeeded" || record.Pipeline != "chain" || record.Seconds <= 0 || record.Outputs["steps"] != 20.0 || record.Outputs["version"] != "2" {
		t.Errorf("record: %+v", record)
	}
	want := []spec.Check{{
		Expression: "rows >= params.least", Verdict: spec.VerdictPass, OnFail: spec.OnFailFail,
		Values: spec.Values{"rows": int64(3000), "params.least": int64(1)},
	}}
	if diff := cmp.Diff(want, record.Steps["fetch"].Checks, cmpopts.IgnoreFields(spec.Check{}, "Line")); diff != "" {
		t.Errorf("checks of fetch (-want +got):\n%s", diff)
	}
	s.checkTraining(record.Steps["fit"], 20)
	s.checkReport(record)
}

// checkReport looks for whatever a page would have to fetch.
func (s *sandbox) checkReport(record shown) {
	s.t.Helper()
	file := filepath.Join(s.dir, "report.html")
	s.start("report", "-o", file).expect(0)
	raw, err := os.ReadFile(file)
	if err != nil {
		s.t.Fatal(err)
	}
	page := string(raw)
	if fetched := regexp.MustCompile(`(?i)(<script[^>]+src|<link|<img[^>]+src|@import|url\([^#])[^>]{0,80}`).FindAllString(page, -1); len(fetched) > 0 {
		s.t.Errorf("the report is not self-contained: %q", fetched)
	}
	for _, url := range regexp.MustCompile(`https?://[^"'\s<)]+`).FindAllString(page, -1) {
		if !strings.HasPrefix(url, "http://www.w3.org/") && !strings.HasPrefix(url, "http://127.0.0.1:") { // a name space; the run's own places
			s.t.Errorf("the report refers to %s", url)
		}
	}
	for step := range record.Steps {
		if !strings.Contains(page, step) {
			s.t.Errorf("the report does not mention %s", step)
		}
	}
}

// TestBadModelIsTakenBack releases a model, then one that is always wrong, with nothing but the canary before it.
func TestBadModelIsTakenBack(t *testing.T) {
	t.Parallel()
	s := newChain(t)
	s.run("ledger="+s.dir, "steps=20").expect(0)
	serving := s.routing()

	s.setModel(onnxtest.TextWrong)
	s.edit("pipeline.yaml", "        - {shadow: 100%, min_samples: 50, checks: [delta.agreement >= 0.98]}\n", "")
	s.run("ledger="+s.dir, "steps=20").expect(4).says("rolled back")
	record := s.show()
	var out spec.RolloutOutput
	record.Steps["ship"].decode(t, &out)
	if record.ErrorType != "gate" || out.Decision != "rolled_back" || out.Previous != "2" {
		t.Errorf("error type %s; the rollout: %+v", record.ErrorType, out)
	}
	before, _ := serving.Serving()
	after, _ := s.routing().Serving()
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("what serves has changed (-before +after):\n%s", diff)
	}
	serve := s.start("serve", "-e", "environment.yaml")
	serve.await("answers", func() bool { _, err := s.infer(); return err == nil })
	if version, err := s.infer(); version != before.Version || err != nil {
		t.Errorf("version %s answers (%v), want %s", version, err, before.Version)
	}
}

func TestGates(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		gate   string // of the step fetch
		exit   int
		status string
	}{
		"fail": {"gate: rows >= params.least", 4, "failed"},
		"stop": {"gate:\n      - {check: rows >= params.least, message: too few, on_fail: stop}", 0, "declined"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newChain(t)
			s.edit("pipeline.yaml", "gate: rows >= params.least", test.gate)
			s.run("ledger="+s.dir, "least=5000").expect(test.exit).says("chain: " + test.status)
			record := s.show()
			fetch := record.Steps["fetch"]
			if record.Status != test.status || fetch.Status != test.status || fetch.Verdict != spec.VerdictFail {
				t.Errorf("the run is %s; fetch is %s with the verdict %s", record.Status, fetch.Status, fetch.Verdict)
			}
			if len(fetch.Checks) != 1 || fetch.Checks[0].Values["rows"] != int64(3000) {
				t.Errorf("checks: %+v", fetch.Checks)
			}
			if got := record.Steps["clean"]; got.Status != "upstream" || len(got.Outputs) > 0 {
				t.Errorf("a step behind the gate: %+v", got)
			}
		})
	}
}
