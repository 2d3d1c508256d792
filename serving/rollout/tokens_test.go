package rollout

import (
	"strings"
	"testing"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/serving/stats"
)

// TestTokensAreJudged: a candidate whose answers take as long as others', and whose first token is late, is rolled back by the test of that.
func TestTokensAreJudged(t *testing.T) {
	counts := func(first, each time.Duration) stats.Counts {
		c := stats.Counts{Requests: 400}
		for range c.Requests {
			c.Latency.Add(time.Second)
			c.FirstToken.Add(first)
			c.PerToken.Add(each)
		}
		return c
	}
	stable, candidate := counts(20*time.Millisecond, 10*time.Millisecond), counts(80*time.Millisecond, 20*time.Millisecond)
	for of, want := range map[string]string{
		"": "", "answer": "", "first_token": "quantile 0.5 of its time to the first token is at least ", "token": "quantile 0.5 of its time per token is at least ",
	} {
		stage := Stage{
			Spec: spec.Stage{Weight: 0.5}, Of: 2, Candidate: "2", Stable: "1", Revision: 3,
			Tests: spec.Tests{Latency: spec.LatencyTest{Quantile: 0.5, Ratio: 1.2, Of: of}},
		}
		now := []stats.Snapshot{{Epoch: "e", Revision: 3, Revisions: []stats.Revision{{
			Revision: 3, Weights: map[string]float64{"1": 0.5, "2": 0.5}, Versions: map[string]stats.Counts{"1": stable, "2": candidate},
		}}}}
		_, look, _ := EvaluateStage(stage, State{}, now, nil)
		if (look.Decision == Abort) != (want != "") || !strings.Contains(look.Reason, want) {
			t.Errorf("%q: %s, %s", of, look.Decision, look.Reason)
		}
		if c := look.Candidate; c.FirstTokenP50MS < 78 || c.FirstTokenP99MS > 82 || c.TokensPerSecond < 49 || c.TokensPerSecond > 51 {
			t.Errorf("%+v", c)
		}
	}
}

// A test of the times of tokens needs answers that were streamed: a stage without them does not pass.
func TestTokensAreNeeded(t *testing.T) {
	stage := weightStage(0.5)
	stage.Tests.Latency = spec.LatencyTest{Quantile: 0.5, Of: "first_token"}
	whole := stats.Counts{Requests: 400}
	_, look, _ := EvaluateStage(stage, State{}, []stats.Snapshot{snapshot("e", whole, whole)}, nil)
	if look.Decision != Hold || !strings.HasPrefix(look.Reason, "0 of ") || !strings.HasSuffix(look.Reason, "streamed answers of the candidate") {
		t.Errorf("%s, %s", look.Decision, look.Reason)
	}
	stage.Tests.Latency.Of = "answer"
	if _, look, _ := EvaluateStage(stage, State{}, []stats.Snapshot{snapshot("e", whole, whole)}, nil); look.Decision != Pass {
		t.Errorf("without tokens to look at: %s, %s", look.Decision, look.Reason)
	}
}
