package gang

import (
	"strings"
	"testing"
	"time"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/activities/engine"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// A deadline that cannot be kept is refused by the plan, before any node is acquired, with the shortest that could be.
func TestPlanRefusesDeadlines(t *testing.T) {
	s, err := store.Open(t.Context(), "mem://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	submission := submit(t, s, "pools: {cloud: {ec2: {region: eu-central-1, types: [g6.xlarge], subnets: [subnet-a]}}, lab: {local: {nodes: 1}}}")
	trainings := &Trainings{Store: s, Engine: engine.NewEngine(s)}
	for _, tt := range []struct {
		name      string
		pool      string
		deadline  string
		resumes   bool
		continues bool
		want      string // part of the error; empty: none
	}{
		{"too short for the nodes", "cloud", `{"within":"19m"}`, false, false, "can be met is 20m, not counting the training itself, since `work` is not declared"},
		{"long enough for the nodes", "cloud", `{"within":"20m"}`, false, false, ""},
		{"nodes of this machine", "lab", `{"within":"1s"}`, false, false, ""},
		{"too short for the work", "cloud", `{"within":"1h","work":"2h"}`, false, false, "can be met is 2h"},
		{"a part of the work is done", "cloud", `{"within":"1h","work":"2h"}`, true, false, ""},
		{"too short for the nodes of a rerun", "cloud", `{"within":"19m","work":"2h"}`, true, false, "can be met is 20m"},
		{"too short, and under way since before that was refused", "cloud", `{"within":"19m"}`, false, true, ""},
	} {
		in := contract.PlanInput{BeganAt: time.Unix(1000, 0), Resumes: tt.resumes, Continues: tt.continues, StepInput: record.StepInput{
			Run: "r", Step: "fit", Kind: spec.KindTrain, Submission: submission,
			Spec: []byte(`{"command":["fit"],"total_steps":10,"pool":["` + tt.pool + `"],"deadline":` + tt.deadline + `}`),
		}}
		plan, err := trainings.Plan(t.Context(), in)
		switch {
		case tt.want == "" && (err != nil || plan.Deadline.IsZero()):
			t.Errorf("%s: %+v, %v", tt.name, plan, err)
		case tt.want != "" && (fault.TypeOf(err) != fault.Invalid || !strings.Contains(fault.Message(err), tt.want)):
			t.Errorf("%s: %v, want an error that says %q", tt.name, err, tt.want)
		}
	}
}
