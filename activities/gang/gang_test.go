package gang

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/metrics"
	"github.com/sluiceml/sluice/internal/testing/flowtest"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/checkpoint"
	"github.com/sluiceml/sluice/training/ledger"
)

func TestCollect(t *testing.T) {
	s, err := store.Open(t.Context(), "mem://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	lines, _, err := s.PutBlob(t.Context(), strings.NewReader(strings.Join([]string{
		`{"step":1,"of":4,"loss":4}`, `{"step":2,"loss":3}`, `{"step":2,"f1":0.4}`, `not JSON`, `{"step":3,"loss":2,"extra":1}`,
		`{"step":3,"loss":99}`, strings.Repeat("x", 1<<17), `{"step":4,"loss":NaN,"f1":0.9,"phase":"eval"}`, ``,
	}, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	start := time.Unix(100, 0).UTC()
	in := contract.CollectInput{
		StepInput: record.StepInput{Run: "r", Step: "fit", Spec: []byte(`{"metrics":["f1"],"checkpoint":{"keep":1}}`)},
		Metrics:   lines,
		Outputs:   map[string]any{"model": map[string]any{"digest": "sha256:1"}},
		Generations: []spec.Generation{
			{
				Index: 1, Nodes: 2, End: spec.EndNodeLost, ToStep: 3, CommittedStep: 2, StepsLost: 1, StartedAt: start, EndedAt: start.Add(time.Minute),
				Pool: "gpu", Capacity: spec.CapacitySpot, USDPerHour: 15,
			},
			{
				Index: 2, Nodes: 1, End: spec.EndFinished, FromStep: 2, ToStep: 4, CommittedStep: 4, StartedAt: start, EndedAt: start.Add(time.Second),
				Pool: "gpu", Capacity: spec.CapacityOnDemand, USDPerHour: 900,
			},
		},
	}
	payFor(t, s, in.Run, in.Step, in.Generations)
	k := training.Key{Run: "r", Step: "fit", Generation: 1}
	for _, step := range []int64{1, 2} {
		if err := checkpoint.Commit(t.Context(), s, k, checkpoint.Manifest{Generation: 1, Step: step}); err != nil {
			t.Fatal(err)
		}
	}
	for _, seal := range []checkpoint.Seal{{Generation: 1}, {Generation: 2, Resume: &checkpoint.Manifest{Generation: 1, Step: 2}}} {
		if err := s.PutJSON(t.Context(), fmt.Sprintf("checkpoints/r/fit/seal/%d", seal.Generation), seal, store.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	out, err := collect(t, s, in)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		spec.TrainOutput
		Model struct{ Digest string } `json:"model"`
	}
	if err := json.Unmarshal(out.Outputs, &got); err != nil {
		t.Fatal(err)
	}
	if got.Steps != 4 || got.StepsLost != 1 || got.StepsRepeated != 1 || got.NodeSeconds != 121 || got.Model.Digest != "sha256:1" {
		t.Errorf("outputs: %+v", got)
	}
	ledger := []spec.LedgerLine{
		{Pool: "gpu", Capacity: spec.CapacitySpot, End: spec.EndNodeLost, Generations: 1, NodeSeconds: 120, CostUSD: 0.5},
		{Pool: "gpu", Capacity: spec.CapacityOnDemand, End: spec.EndFinished, Generations: 1, NodeSeconds: 1, CostUSD: 0.25},
	}
	if diff := cmp.Diff(ledger, got.Ledger); diff != "" || got.CostUSD != 0.75 || got.Late {
		t.Errorf("cost $%v, late %v; ledger (-want +got):\n%s", got.CostUSD, got.Late, diff)
	}
	if diff := cmp.Diff(map[string]float64{"f1": 0.9}, got.Metrics); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	var curve []curvePoint
	if err := record.ReadBlob(t.Context(), s, got.Curve, &curve); err != nil {
		t.Fatal(err)
	}
	want := []curvePoint{{1, 4, 1}, {2, 3, 1}, {3, 2, 2}, {4, metrics.Number(math.NaN()), 2}}
	if diff := cmp.Diff(want, curve, cmp.Comparer(func(a, b metrics.Number) bool { return a.String() == b.String() })); diff != "" {
		t.Errorf("curve (-want +got):\n%s", diff)
	}

	if left := commitsOf(t, s, "fit"); len(left) != 1 || !strings.HasSuffix(left[0], "g1/step-2.json") {
		t.Errorf("commits %v are left, want the newest", left)
	}

	for info, err := range s.Driver().List(t.Context(), "checkpoints/r/fit/nodes/") {
		if err = errors.Join(err, s.Driver().Delete(t.Context(), info.Key)); err != nil {
			t.Fatal(err)
		}
	}
	in.Generations[0].PriceUnknown = true
	payFor(t, s, in.Run, in.Step, in.Generations)
	if out, err = collect(t, s, in); err != nil || strings.Contains(string(out.Outputs), `"cost_usd":0.75`) || !strings.Contains(string(out.Outputs), `"cost_unknown":true`) {
		t.Errorf("of unknown cost: %v, %s", err, out.Outputs)
	}
	in.Spec = []byte(`{"metrics":["f1","recall"]}`)
	_, err = collect(t, s, in)
	if fault.TypeOf(err) != fault.User || !strings.Contains(fault.Message(err), "recall") {
		t.Errorf("a declared metric that was never reported: %v, want the user's error", err)
	}
	in.Spec = []byte(`{"metrics":["loss"]}`)
	_, err = collect(t, s, in)
	if fault.TypeOf(err) != fault.User || !strings.Contains(fault.Message(err), `"loss" is NaN`) {
		t.Errorf("a declared metric whose last value is no number: %v, want the user's error", err)
	}
}

// How far a generation came is what its ranks wrote, as far as that can be read, whatever else is in a line.
func TestSealKnowsHowFarTheOneBeforeCame(t *testing.T) {
	s, err := store.Open(t.Context(), "mem://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	k := training.Key{Run: "r", Step: "fit", Generation: 1}
	if _, err := checkpoint.MakeSeal(t.Context(), s, k, checkpoint.Origin{}, nil); err != nil {
		t.Fatal(err)
	}
	if err := checkpoint.PutProgress(t.Context(), s, k, checkpoint.Progress{Step: 3}); err != nil {
		t.Fatal(err)
	}
	logs := t.TempDir()
	seal := func() contract.SealOutput {
		t.Helper()
		env := flowtest.Activities()
		trainings := &Trainings{Store: s, LogDir: logs}
		env.RegisterActivity(trainings.Seal)
		value, err := env.ExecuteActivity(trainings.Seal, contract.SealInput{Key: training.Key{Run: "r", Step: "fit", Generation: 2}})
		if err != nil {
			t.Fatal(err)
		}
		var out contract.SealOutput
		if err := value.Get(&out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	if got := seal(); got.Reached != 3 || got.Exact {
		t.Errorf("without the metrics file: %+v, want at least step 3", got)
	}
	path := filepath.Join(logs, training.MetricsPath(k, 0))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	wrote := `{"step":4,"loss":1}` + "\n" + strings.Repeat("x", 1<<17) + "\n" + `{"step":5,"loss":NaN}` + "\n" + `{"step":6,"loss":"none"}` + "\n" + `{"step":7,"rank":1,"work_seconds":0.1}` + "\n" + `{"step":7`
	if err := os.WriteFile(path, []byte(wrote), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := seal(); got.Reached != 6 || !got.Exact {
		t.Errorf("with the metrics file: %+v, want exactly step 6", got)
	}
}

// commitsOf lists the manifests of a step's commits.
func commitsOf(t *testing.T, s *store.Store, step string) []string {
	t.Helper()
	var keys []string
	for info, err := range s.Driver().List(t.Context(), "checkpoints/r/"+step+"/g") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	return keys
}

func collect(t *testing.T, s *store.Store, in contract.CollectInput) (record.StepOutput, error) {
	t.Helper()
	env := flowtest.Activities()
	trainings := &Trainings{Store: s}
	env.RegisterActivity(trainings.Collect)
	value, err := env.ExecuteActivity(trainings.Collect, in)
	if err != nil {
		return record.StepOutput{}, err
	}
	var out record.StepOutput
	return out, value.Get(&out)
}

// A training that failed has an account, too: what its last generation did beyond the newest checkpoint is lost, and its loss is drawn as
// far as it came, from the metrics file where that can be seen, and else from the checkpoint.
func TestAccountOfAFailedTraining(t *testing.T) {
	s, err := store.Open(t.Context(), "mem://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	start := time.Unix(100, 0).UTC()
	k := training.Key{Run: "r", Step: "fit", Generation: 2}
	artifact, err := checkpoint.Part(s, k, 3).PutTree(t.Context(), "checkpoint", t.TempDir(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	lines := `{"step":1,"loss":4}` + "\n" + `{"step":2,"loss":3,"f1":0.4}` + "\n" + `{"step":3,"loss":2,"f1":NaN}` + "\n"
	digest, _, err := checkpoint.Part(s, k, 3).PutBlob(t.Context(), strings.NewReader(lines))
	if err != nil {
		t.Fatal(err)
	}
	if err := checkpoint.Commit(t.Context(), s, k, checkpoint.Manifest{Generation: 2, Step: 3, Checkpoint: artifact, Metrics: digest}); err != nil {
		t.Fatal(err)
	}
	logs := t.TempDir()
	path := filepath.Join(logs, training.MetricsPath(k, 0))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(lines+`{"step":4,"loss":1}`+"\n"+`{"step":5,"loss":0.5}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	in := contract.AccountInput{
		StepInput: record.StepInput{Run: "r", Step: "fit", Spec: []byte(`{"metrics":["f1"]}`)},
		Generations: []spec.Generation{
			{Index: 1, Nodes: 1, End: spec.EndUserError, ToStep: 2, StepsLost: 2, StartedAt: start, EndedAt: start.Add(time.Minute), USDPerHour: 30},
			{Index: 2, Nodes: 1, End: spec.EndNodeLost, ToStep: 3, StepsAtLeast: true, StartedAt: start, EndedAt: start.Add(time.Minute), USDPerHour: 15},
		},
	}
	payFor(t, s, in.Run, in.Step, in.Generations)
	type summary struct {
		Steps, Lost, Repeated, Committed int64
		AtLeast                          bool
		Cost                             float64
		Curve                            []curvePoint
	}
	for name, tt := range map[string]struct {
		logs string
		want summary
	}{
		"with the metrics file":    {logs, summary{5, 4, 2, 3, false, 0.75, []curvePoint{{1, 4, 2}, {2, 3, 2}, {3, 2, 2}, {4, 1, 2}, {5, 0.5, 2}}}},
		"without the metrics file": {t.TempDir(), summary{3, 2, 2, 3, true, 0.75, []curvePoint{{1, 4, 2}, {2, 3, 2}, {3, 2, 2}}}},
	} {
		t.Run(name, func(t *testing.T) {
			env := flowtest.Activities()
			trainings := &Trainings{Store: s, LogDir: tt.logs}
			env.RegisterActivity(trainings.Account)
			value, err := env.ExecuteActivity(trainings.Account, in)
			if err != nil {
				t.Fatal(err)
			}
			var out spec.TrainOutput
			if err := value.Get(&out); err != nil {
				t.Fatal(err)
			}
			got := summary{
				Steps: out.Steps, Lost: out.StepsLost, Repeated: out.StepsRepeated, Committed: out.Generations[1].CommittedStep,
				AtLeast: out.StepsAtLeast, Cost: out.CostUSD,
			}
			if err := record.ReadBlob(t.Context(), s, out.Curve, &got.Curve); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(out.Metrics) != 0 {
				t.Errorf("metrics %v, want none: the last value is no number", out.Metrics)
			}
		})
	}
}

func TestThin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		points := make([]curvePoint, rapid.IntRange(0, 5000).Draw(t, "points"))
		for i := range points {
			points[i].Step = int64(i)
		}
		n := rapid.IntRange(2, 1000).Draw(t, "kept")
		got := thin(points, n)
		if len(got) != min(n, len(points)) {
			t.Fatalf("%d of %d points, want %d", len(got), len(points), min(n, len(points)))
		}
		for i := 1; i < len(got); i++ {
			if got[i].Step <= got[i-1].Step {
				t.Fatalf("step %d follows step %d", got[i].Step, got[i-1].Step)
			}
		}
		if len(got) > 0 && (got[0].Step != 0 || got[len(got)-1].Step != int64(len(points)-1)) {
			t.Fatalf("it goes from %d to %d", got[0].Step, got[len(got)-1].Step)
		}
	})
}

// A simulated training counts every step it does; the account must come to the same from the generations alone.
func TestAccountAgreesWithASimulation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.Int64Range(1, 200).Draw(t, "total")
		times := map[int64]int64{} // how often each step was done
		var generations []spec.Generation
		var committed, want int64
		for g := 1; ; g++ {
			made := spec.Generation{Index: g, FromStep: committed}
			made.ToStep = min(total, committed+rapid.Int64Range(0, 80).Draw(t, "steps"))
			if g > 30 { // enough of them
				made.ToStep = total
			}
			for step := made.FromStep + 1; step <= made.ToStep; step++ {
				times[step]++
			}
			if made.ToStep == total {
				generations = append(generations, made)
				break
			}
			committed = rapid.Int64Range(committed, made.ToStep).Draw(t, "committed")
			made.StepsLost = made.ToStep - committed
			want += made.StepsLost
			generations = append(generations, made)
		}
		var repeated int64
		for _, n := range times {
			repeated += n - 1
		}
		out := account(generations, nil)
		if out.StepsLost != want || out.StepsRepeated != repeated {
			t.Fatalf("lost %d and repeated %d, want %d and %d:\n%s", out.StepsLost, out.StepsRepeated, want, repeated, describe(generations))
		}
	})
}

func describe(generations []spec.Generation) string {
	var b strings.Builder
	for _, g := range generations {
		fmt.Fprintf(&b, "%d: %d to %d, lost %d\n", g.Index, g.FromStep, g.ToStep, g.StepsLost)
	}
	return b.String()
}

// payFor enters the nodes of generations that ran from their start to their end.
func payFor(t *testing.T, s *store.Store, run, step string, generations []spec.Generation) {
	t.Helper()
	for i := range generations {
		g := &generations[i]
		g.RanAt, g.StoppedAt = g.StartedAt, g.EndedAt
		gang := training.Gang{Capacity: g.Capacity, USDPerHour: g.USDPerHour}
		for n := range g.Nodes {
			gang.Nodes = append(gang.Nodes, training.Node{Queue: fmt.Sprintf("g%d/%d", g.Index, n), BeganAt: g.StartedAt, EndedAt: g.EndedAt})
		}
		key := training.Key{Run: run, Step: step, Generation: g.Index}
		if _, err := ledger.Open(t.Context(), s, key, ledger.Entry{Pool: g.Pool, PriceUnknown: g.PriceUnknown, Gang: gang}); err != nil {
			t.Fatal(err)
		}
	}
}
