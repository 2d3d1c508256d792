package engine

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/checkpoint"
)

// TestUnfinished: only a training that did the same and did not finish is gone on with, and only where the run is done again.
func TestUnfinished(t *testing.T) {
	env := document.File{Name: "e.yaml", Source: []byte("sluice: environment/v1\nname: lab\npools: {local: {local: {nodes: 1}}}\n")}
	const pipeline = "steps: {fit: {train: {command: [fit], files: none}}}"
	b := newBenchIn(t, pipeline, env)
	b.workspace = b.tree(artifact.Workspace)
	b.submit(pipeline, env)
	b.begin("r1")
	resolved, err := b.engine.Resolve(t.Context(), b.at("r1", "fit"))
	if err != nil {
		t.Fatal(err)
	}
	b.commit(training.Key{Run: "r1", Step: "fit", Generation: 1}, 7)
	again := record.Reuse{From: "r1"}
	for name, tt := range map[string]struct {
		status    spec.Status
		errorType string
		key       string
		reuse     record.Reuse
		want      string
	}{
		"failed":                 {spec.StatusFailed, fault.User, resolved.Key, again, "r1"},
		"canceled":               {spec.StatusCanceled, fault.Canceled, resolved.Key, again, "r1"},
		"missed its deadline":    {spec.StatusFailed, fault.Timeout, resolved.Key, again, "r1"},
		"its outputs were lost":  {spec.StatusFailed, fault.Infrastructure, resolved.Key, again, "r1"},
		"its gate failed":        {spec.StatusFailed, fault.Gate, resolved.Key, again, ""},
		"its gate declined":      {spec.StatusDeclined, fault.Gate, resolved.Key, again, ""},
		"it did something else":  {spec.StatusFailed, fault.User, "other", again, ""},
		"not a rerun":            {spec.StatusFailed, fault.User, resolved.Key, record.Reuse{}, ""},
		"from the beginning":     {spec.StatusFailed, fault.User, resolved.Key, record.Reuse{From: "r1", Again: []string{"fit"}}, ""},
		"a rerun of another run": {spec.StatusFailed, fault.User, resolved.Key, record.Reuse{From: "r0"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			end := contract.StepEnd{
				StepRef: record.StepRef{Run: "r1", Submission: b.submission, Step: "fit", Now: b.began}, Kind: spec.KindTrain,
				Status: tt.status, Error: "it failed", ErrorType: tt.errorType, Key: tt.key, EndedAt: b.began,
			}
			if _, err := b.engine.Verdict(t.Context(), end); err != nil {
				t.Fatal(err)
			}
			b.begin("r2")
			in := b.at("r2", "fit")
			in.Reuse = tt.reuse
			got, err := b.engine.Resolve(t.Context(), in)
			if err != nil || got.Hit != "" || got.Step.ResumeRun != tt.want {
				t.Errorf("goes on from %q (%q, %v), want %q", got.Step.ResumeRun, got.Hit, err, tt.want)
			}
			if tt.reuse.From == "r0" {
				return // of which there is no plan
			}
			plan, err := NewPlan(t.Context(), b.engine.Store, PlanInput{
				Submission: record.Submission{File: "p.yaml"}, Program: b.program, Reuse: tt.reuse, Now: b.began,
			})
			if look := plan.Steps["fit"]; err != nil || look.ResumeRun != tt.want || strings.Contains(look.Reason, "; `sluice rerun r1` resumes from step 7") != (name == "not a rerun") {
				t.Errorf("the plan is %+v, %v", look, err)
			}
		})
	}
}

// TestRerunOfWhatDidNotBegin: a rerun that ended before a step had begun hands on what the run before it left, unless it was to do the step anew.
func TestRerunOfWhatDidNotBegin(t *testing.T) {
	b := newBenchIn(t, "steps: {fit: {train: {command: [fit]}}, prep: {run: {command: [prep]}, cache: false}}", document.File{
		Name: "e.yaml", Source: []byte("sluice: environment/v1\nname: lab\npools: {local: {local: {nodes: 1}}}\n"),
	})
	begin := func(run string, reuse record.Reuse) {
		t.Helper()
		in := contract.RunInput{Run: run, Name: "p", Submission: b.submission, Graph: b.program.Graph(), Reuse: reuse}
		if _, err := b.engine.Begin(t.Context(), contract.BeginInput{RunInput: in, StartedAt: b.began}); err != nil {
			t.Fatal(err)
		}
	}
	resolve := func(run, step string, reuse record.Reuse) contract.Resolved {
		t.Helper()
		in := b.at(run, step)
		in.Reuse = reuse
		got, err := b.engine.Resolve(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	end := func(run, step string, kind spec.Kind, status spec.Status, key string) {
		t.Helper()
		end := contract.StepEnd{StepRef: b.at(run, step).StepRef, Kind: kind, Status: status, ErrorType: fault.Canceled, Key: key, EndedAt: b.began}
		if _, err := b.engine.Verdict(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
	begin("r1", record.Reuse{})
	fit, prep := resolve("r1", "fit", record.Reuse{}).Key, resolve("r1", "prep", record.Reuse{}).Key
	end("r1", "fit", spec.KindTrain, spec.StatusCanceled, fit)
	end("r1", "prep", spec.KindRun, spec.StatusSucceeded, prep)
	b.commit(training.Key{Run: "r1", Step: "fit", Generation: 1}, 7)

	begin("queued", record.Reuse{From: "r1"}) // and canceled there
	begin("resolved", record.Reuse{From: "queued"})
	end("resolved", "fit", spec.KindTrain, spec.StatusCanceled, fit) // before it had looked for a checkpoint
	end("resolved", "prep", spec.KindRun, spec.StatusCanceled, "")
	begin("anew", record.Reuse{From: "r1", Again: []string{"fit", "prep"}})
	begin("failed", record.Reuse{From: "r1"})
	end("failed", "prep", spec.KindRun, spec.StatusFailed, prep)
	begin("last", record.Reuse{})
	for from, want := range map[string]string{"r1": "r1 r1", "queued": "r1 r1", "resolved": "r1 r1", "anew": " ", "failed": "r1 ", "removed": " "} {
		reuse := record.Reuse{From: from}
		got := resolve("last", "fit", reuse).Step.ResumeRun + " " + resolve("last", "prep", reuse).Hit
		if got != want {
			t.Errorf("a rerun of %s resumes and takes over from %q, want %q", from, got, want)
		}
	}
}

// commit commits a checkpoint.
func (b *bench) commit(k training.Key, step int64) {
	b.Helper()
	if _, err := checkpoint.MakeSeal(b.Context(), b.engine.Store, k, checkpoint.Origin{}, nil); err != nil {
		b.Fatal(err)
	}
	part := checkpoint.Part(b.engine.Store, k, step)
	m := checkpoint.Manifest{Generation: k.Generation, Step: step}
	var err error
	if m.Metrics, _, err = part.PutBlob(b.Context(), strings.NewReader("")); err != nil {
		b.Fatal(err)
	}
	if m.Checkpoint, err = part.PutTree(b.Context(), artifact.Checkpoint, b.TempDir(), nil, nil); err != nil {
		b.Fatal(err)
	}
	if err := checkpoint.Commit(b.Context(), b.engine.Store, k, m); err != nil {
		b.Fatal(err)
	}
}

// The key of a training that starts from a checkpoint is made of what its name means now, and the training is given that.
func TestResumeFromIsInTheKey(t *testing.T) {
	b := newBenchIn(t, "steps: {fit: {train: {command: [fit], resume_from: r0/pre}}}", document.File{
		Name: "e.yaml", Source: []byte("sluice: environment/v1\nname: lab\npools: {local: {local: {nodes: 1}}}\n"),
	})
	k := training.Key{Run: "r0", Step: "pre", Generation: 1}
	commit := func(step int64, content string) {
		t.Helper()
		part := checkpoint.Part(b.engine.Store, k, step)
		m := checkpoint.Manifest{Generation: 1, Step: step}
		var err error
		if m.Metrics, _, err = part.PutBlob(t.Context(), strings.NewReader("")); err != nil {
			t.Fatal(err)
		}
		if m.Checkpoint, err = part.PutTree(t.Context(), artifact.Checkpoint, t.TempDir(), map[string]string{"content": content}, nil); err != nil {
			t.Fatal(err)
		}
		if err := checkpoint.Commit(t.Context(), b.engine.Store, k, m); err != nil {
			t.Fatal(err)
		}
	}
	resolve := func(run string) (key, from string) {
		t.Helper()
		b.begin(run)
		got, err := b.engine.Resolve(t.Context(), b.at(run, "fit"))
		if err != nil {
			t.Fatal(err)
		}
		sp, err := spec.Decode[spec.Train](got.Step.Spec)
		if err != nil {
			t.Fatal(err)
		}
		return got.Key, sp.ResumeFrom
	}
	none, from := resolve("r1")
	if from != "r0/pre" {
		t.Errorf("without a checkpoint the step is given %q", from)
	}
	commit(5, "a")
	first, from := resolve("r2")
	if !strings.HasPrefix(from, "r0/pre@5#sha256:") {
		t.Errorf("the step is given %q, want the checkpoint of step 5 with its digest", from)
	}
	if again, _ := resolve("r3"); again != first {
		t.Error("the key changed, and the checkpoint did not")
	}
	commit(6, "b")
	second, _ := resolve("r4")
	if none == first || first == second {
		t.Errorf("keys %s, %s, %s: want one for each checkpoint", none, first, second)
	}
}

// A result outlives the checkpoint that it was made from: the same run done again takes it over, and one that was submitted otherwise does not.
func TestResultOutlivesItsCheckpoint(t *testing.T) {
	env := document.File{Name: "e.yaml", Source: []byte("sluice: environment/v1\nname: lab\npools: {local: {local: {nodes: 1}}}\n")}
	const tune = "steps: {tune: {train: {command: [tune], resume_from: r0/pre}}}"
	b := newBenchIn(t, tune, env)
	k := training.Key{Run: "r0", Step: "pre", Generation: 1}
	b.commit(k, 5)
	b.begin("r1")
	first, err := b.engine.Resolve(t.Context(), b.at("r1", "tune"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.engine.Verdict(t.Context(), contract.StepEnd{
		StepRef: b.at("r1", "tune").StepRef, Kind: spec.KindTrain, Status: spec.StatusSucceeded, Key: first.Key, EndedAt: b.began,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.engine.Store.RemoveAll(t.Context(), "checkpoints/r0/"); err != nil {
		t.Fatal(err)
	}
	again := func(from string) string {
		t.Helper()
		b.begin("r2")
		in := b.at("r2", "tune")
		in.Reuse.From = from
		got, err := b.engine.Resolve(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		return got.Hit
	}
	if got := again("r1"); got != "r1" {
		t.Errorf("done again, it takes over the result of %q, want r1", got)
	}
	if got := again(""); got != "" {
		t.Errorf("submitted again, it takes over the result of %q, want none", got)
	}
	b.submit(tune[:len(tune)-len("r0/pre}}}")]+"r9/pre}}}", env)
	if got := again("r1"); got != "" {
		t.Errorf("with another name, it takes over the result of %q, want none", got)
	}
}

// TestResumeFromAReusedResult: the name of an instance whose result was reused is that of the checkpoint of the instance that made the result,
// wherever that is in its list.
func TestResumeFromAReusedResult(t *testing.T) {
	b := newBenchIn(t, "steps: {sweep: {matrix: {lr: [1, 2]}, train: {command: [fit]}}}", document.File{
		Name: "e.yaml", Source: []byte("sluice: environment/v1\nname: lab\npools: {local: {local: {nodes: 1}}}\n"),
	})
	instance := func(run string, index int) record.StepRef {
		at := b.at(run, "sweep").StepRef
		at.Instance = &record.Instance{Index: index}
		return at
	}
	keep := func(at record.StepRef, key, reusedFrom string) {
		t.Helper()
		end := contract.StepEnd{StepRef: at, Kind: spec.KindTrain, Status: spec.StatusSucceeded, Key: key, ReusedFrom: reusedFrom, EndedAt: b.began}
		rec := record.StepRecord{Step: at.ID(), Kind: spec.KindTrain, Status: spec.StatusSucceeded, Key: key, ReusedFrom: reusedFrom}
		if err := b.engine.keep(t.Context(), end, rec); err != nil {
			t.Fatal(err)
		}
	}
	b.begin("r1")
	keep(instance("r1", 0), "two", "")
	keep(instance("r1", 1), "one", "")
	b.commit(training.Key{Run: "r1", Step: "sweep.1", Generation: 1}, 60)
	keep(instance("r2", 0), "one", "r1")
	for reference, want := range map[string]string{
		"r2/sweep.0": "r1/sweep.1@60", "r2/sweep.0@60": "r1/sweep.1@60", "r2/sweep.0@50": "", "r2/sweep.1": "", "r1/sweep.1": "r1/sweep.1@60", "r1/sweep.0": "",
	} {
		m, err := b.engine.findCheckpoint(t.Context(), reference)
		got := ""
		if err == nil {
			got, _, _ = strings.Cut(m.Pinned(), "#")
		}
		if got != want || err != nil && !errors.Is(err, checkpoint.ErrNone) {
			t.Errorf("%s is %q, %v; want %q", reference, got, err, want)
		}
	}
}
