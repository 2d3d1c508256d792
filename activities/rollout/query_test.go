package rollout

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/testing/promtest"
	"github.com/sluiceml/sluice/serving/rollout"
)

// TestStageQueries asks a real server. A query without data, and a server that does not answer, hold the stage; the names of the releases
// stand in queries.
func TestStageQueries(t *testing.T) {
	base := promtest.Start(t)
	deaf, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	tests := []struct {
		name, base, query string
		condition         spec.Expr
		want              spec.Verdict
		says              string
	}{
		{"holds", base, "vector(0.25)", "value < 0.3", spec.VerdictPass, ""},
		{"does not hold", base, "vector(0.25)", "value < 0.2", spec.VerdictFail, "(value 0.25)"},
		{"names", base, `vector($candidate) - $stable`, "value == 1.0", spec.VerdictPass, ""},
		{"no data", base, `errors{release="$candidate"}`, "value < 1.0", spec.VerdictHold, "`errors{release=\"2\"}` returns no data"},
		{"nobody there", "http://127.0.0.1:1", "up", "value < 1.0", spec.VerdictHold, "connection refused"},
		{"no answer", "http://" + deaf.Addr().String(), "up", "value < 1.0", spec.VerdictHold, "deadline exceeded"},
		{"no query", base, "sum(", "value < 1.0", spec.VerdictError, "parse error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			stage := rollout.Stage{Spec: spec.Stage{Queries: []spec.StageQuery{{Query: tt.query, Condition: tt.condition}}}, Candidate: "2", Stable: "1"}
			began := time.Now()
			checks, answered := newStageQueries(tt.base, "shop", stage).evaluate(t.Context())
			if took := time.Since(began); took > stageQueryTimeout+5*time.Second {
				t.Errorf("it took %v", took)
			}
			if len(checks) != 1 || checks[0].Verdict != tt.want || answered == (tt.want == spec.VerdictHold) {
				t.Fatalf("got %+v, answered: %v", checks, answered)
			}
			if said := checks[0].Expression + checks[0].Error; !strings.Contains(said, tt.says) {
				t.Errorf("%q does not say %q", said, tt.says)
			}
		})
	}
}

// TestChecksWaitForQueries: while a query has no answer nothing is evaluated, and it is not asked again at once.
func TestChecksWaitForQueries(t *testing.T) {
	stage := rollout.Stage{Spec: spec.Stage{Queries: []spec.StageQuery{{Query: "up", Condition: "value > 0.0"}}}}
	asks := newStageQueries("http://127.0.0.1:1", "shop", stage)
	checks := stageChecks(t.Context(), []spec.Expr{"candidate.errors == 0.0"}, asks)
	made := checks(spec.SideCounts{Requests: 1, Errors: 1}, spec.SideCounts{}, spec.Delta{})
	if len(made) != 1 || made[0].Verdict != spec.VerdictHold {
		t.Errorf("got %+v, want the query alone", made)
	}
	asks.base = "not asked again"
	if diff := cmp.Diff(fmt.Sprint(made), fmt.Sprint(checks(spec.SideCounts{}, spec.SideCounts{}, spec.Delta{}))); diff != "" {
		t.Error(diff)
	}
}

// TestFirstReleaseIsNotCompared: what compares the candidate with a release that serves is left out where none does.
func TestFirstReleaseIsNotCompared(t *testing.T) {
	stage := spec.Stage{
		Shadow:  1,
		Checks:  []spec.Expr{"delta.agreement > 0.9", "candidate.p99_ms < 50.0", "candidate.errors <= stable.errors"},
		Queries: []spec.StageQuery{{Query: `m{release="$candidate"} / m{release="$stable"}`}, {Query: `m{release="$candidate"}`}},
	}
	got := stageOf(contract.RolloutLook{Version: "1", Stage: stage}, spec.Rollout{}).Spec
	want := spec.Stage{Weight: 1, Checks: []spec.Expr{"candidate.p99_ms < 50.0"}, Queries: []spec.StageQuery{{Query: `m{release="$candidate"}`}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(stage, stageOf(contract.RolloutLook{Version: "2", Previous: "1", Stage: stage}, spec.Rollout{}).Spec); diff != "" {
		t.Errorf("a stage beside a release that serves (-want +got):\n%s", diff)
	}
}
