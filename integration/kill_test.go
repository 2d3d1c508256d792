package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/sluiceml/sluice/compile"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/pipelines"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/routing"
)

// TestKilledRunGoesOn kills Sluice in the middle of cleaning, training, compiling and a canary of one and the same run.
func TestKilledRunGoesOn(t *testing.T) {
	t.Parallel()
	s := newChain(t)
	again := func() *command { return s.run("ledger="+s.dir, "steps=100") }
	run := again()
	id := run.runID()
	resume := func() {
		t.Helper()
		run.kill()
		run = again()
		if resumed := run.runID(); resumed != id {
			t.Fatalf("run %s was started, %s was to go on", resumed, id)
		}
		run.says("resumed run " + id)
	}

	// The children are frozen first, so that the kill meets them at work.
	kill(t, run.awaitProcess(" "+pipelines.Arg), syscall.SIGSTOP)
	resume()
	run.await("the first checkpoints", func() bool { return len(s.ledger("trace")) >= 25 })
	resume()
	kill(t, run.awaitProcess(" "+compile.Arg), syscall.SIGSTOP)
	resume()
	run.await("the canary", func() bool { return s.weight(2) == 0.3 })
	run.kill()
	routed := s.routing()
	run = again()
	run.followsRouting(routed)
	run.expect(0)

	record := s.show(id)
	if record.Status != "succeeded" {
		t.Errorf("the run is %s: %s", record.Status, record.Error)
	}
	if counts := s.ledger("ledger"); counts["fetch"] != 1 || counts["export"] != 1 {
		t.Errorf("programs ran %v times, want each once", counts)
	}
	for step, most := range map[string]int{"fetch": 1, "clean": 2, "fit": 1, "export": 1, "pack": 2, "first": 1, "ship": 1} {
		if attempts := record.Steps[step].Attempts; attempts.Total > most {
			t.Errorf("%s was tried %d times: %v", step, attempts.Total, attempts.ByErrorType)
		}
		for _, a := range record.Steps[step].Attempts.Failed {
			if !a.Interrupted {
				t.Errorf("%s is said to have failed, and not to have been interrupted: %+v", step, a)
			}
		}
	}
	s.checkTraining(record.Steps["fit"], 100)
	if weight := s.weight(2); weight != 1 {
		t.Errorf("version 2 has %v of the traffic after the rollout", weight)
	}

	s.start("rerun", id, "--from", "clean").expect(0)
	undisturbed := s.show()
	if undisturbed.ReuseFrom != id || undisturbed.Steps["fetch"].ReusedFrom != id || s.ledger("ledger")["fetch"] != 1 {
		t.Errorf("run %s does not take over what run %s had before `clean`: %+v", undisturbed.Run, id, undisturbed.Steps["fetch"])
	}
	if got, want := s.dataset(record), s.dataset(undisturbed); got != want {
		t.Errorf("the dataset is %s, that of an undisturbed run %s", got, want)
	}
}

// checkTraining compares a training's account with what its script noted.
func (s *sandbox) checkTraining(step shownStep, steps int) {
	s.t.Helper()
	var out spec.TrainOutput
	step.decode(s.t, &out)
	s.checkSteps(out, int64(steps))
	for _, g := range out.Generations {
		s.t.Logf("generation %d: %s, steps %d-%d, committed %d, lost %d: %s", g.Index, g.End, g.FromStep, g.ToStep, g.CommittedStep, g.StepsLost, g.Reason)
	}
	s.checkCurve(out.Curve, steps)
}

// checkCurve looks for steps that are plotted twice.
func (s *sandbox) checkCurve(digest string, steps int) {
	s.t.Helper()
	seen := map[int]bool{}
	for _, p := range s.curve(digest) {
		if seen[p.Step] {
			s.t.Errorf("training step %d is plotted twice", p.Step)
		}
		seen[p.Step] = true
	}
	if len(seen) != steps {
		s.t.Errorf("%d training steps are plotted, want %d", len(seen), steps)
	}
}

// plotted is a point of a loss curve, without the generation that it came from.
type plotted struct {
	Step int
	Loss float64
}

// curve reads a loss curve.
func (s *sandbox) curve(digest string) (points []plotted) {
	s.t.Helper()
	blob, err := s.store().Blob(s.t.Context(), digest)
	if err != nil {
		s.t.Fatal(err)
	}
	defer blob.Close()
	if err := json.NewDecoder(blob).Decode(&points); err != nil {
		s.t.Fatal(err)
	}
	return points
}

// dataset is the digest of what a run's cleaning made.
func (s *sandbox) dataset(record shown) string {
	s.t.Helper()
	var out struct{ Dataset artifact.Ref }
	record.Steps["clean"].decode(s.t, &out)
	if out.Dataset.IsZero() {
		s.t.Fatalf("run %s has no dataset", record.Run)
	}
	return out.Dataset.Digest
}

// routing is the document of the target.
func (s *sandbox) routing() routing.Document {
	s.t.Helper()
	doc, err := routing.Current(s.t.Context(), s.store(), "words")
	if err != nil {
		s.t.Fatal(err)
	}
	return doc
}

// weight is a version's share of the traffic.
func (s *sandbox) weight(version int) float64 {
	s.t.Helper()
	release, _ := s.routing().Release(fmt.Sprint(version))
	return release.Weight
}

// followsRouting waits until both versions of a canary have answered, and checks that no other does.
func (c *command) followsRouting(doc routing.Document) {
	c.s.t.Helper()
	answered := map[string]int{}
	c.await("answers of every version", func() bool {
		version, err := c.s.infer()
		if err != nil {
			return false // it does not serve yet
		}
		answered[version]++
		return len(answered) == len(doc.Releases)
	})
	for version := range answered {
		if _, ok := doc.Release(version); !ok {
			c.s.t.Errorf("version %s has answered, which is no release of %+v", version, doc.Releases)
		}
	}
}

// infer asks the model that serves, and returns the release that answers.
func (s *sandbox) infer() (version string, err error) {
	version, _, err = s.answer()
	return version, err
}

// answer asks the model that serves, and returns the release that answers and what it says.
func (s *sandbox) answer() (version, body string, err error) { return s.answerTo("{}", nil) }

// answerTo is answer with parameters and header.
func (s *sandbox) answerTo(parameters string, header map[string]string) (version, body string, err error) {
	question := `{"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": ["spam"]}], "parameters": ` + parameters + "}"
	url := fmt.Sprintf("http://127.0.0.1:%d/v2/models/words/infer", s.port)
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, url, strings.NewReader(question))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for name, value := range header {
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", "", err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusOK {
		return "", "", errors.Join(fmt.Errorf("status %s: %s", res.Status, raw), err)
	}
	return res.Header.Get(gateway.ReleaseHeader), string(raw), err
}

// TestKilledChildren kills, in one run, the process that cleans, an agent and a rank.
func TestKilledChildren(t *testing.T) {
	t.Parallel()
	s := newChain(t)
	s.edit("pipeline.yaml", "    publish: {dataset: words}\n", "    publish: {dataset: words}\n    retry: {attempts: 2, backoff: 100ms}\n")
	run := s.run("ledger="+s.dir, "steps=150")

	kill(t, run.awaitProcess(" "+pipelines.Arg), syscall.SIGKILL)
	run.await("the first checkpoints", func() bool { return len(s.ledger("trace")) >= 25 })
	kill(t, run.awaitProcess("sluice-agent"), syscall.SIGKILL)
	run.await("steps of the next generation", func() bool { return len(s.ledger("trace")) >= 75 })
	kill(t, run.awaitProcess("trainer.py"), syscall.SIGKILL)
	run.expect(0)

	record := s.show()
	s.checkTraining(record.Steps["fit"], 150)
	ends := map[spec.GenerationEnd]int{}
	var fit spec.TrainOutput
	record.Steps["fit"].decode(t, &fit)
	for _, g := range fit.Generations {
		ends[g.End]++
	}
	if len(fit.Generations) != 3 || ends[spec.EndNodeLost] != 1 || ends[spec.EndCrashed] != 1 || ends[spec.EndFinished] != 1 {
		t.Errorf("the generations ended as %v, want one of each", ends)
	}
	if got := record.Steps["clean"].Attempts; got.Total != 2 || got.ByErrorType["infrastructure"] != 1 {
		t.Errorf("cleaning took %d attempts, by error type %v", got.Total, got.ByErrorType)
	}
}

// TestKilledProgram kills a program of the pipeline's, which is no fault of its own.
func TestKilledProgram(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, "program")
	s.edit("pipeline.yaml", "    env: {SCRIPT", "    retry: {attempts: 2, backoff: 100ms}\n    env: {SCRIPT")
	run := s.run("script=" + holdUntil(s.dir))
	run.awaitProgram()
	kill(t, run.awaitProcess("bash -euo pipefail"), syscall.SIGKILL)
	run.await("the program to run again", func() bool { return s.ledger("ledger")["ran"] == 2 })
	s.letGo()
	run.expect(0)
	if got := s.show().Steps["work"].Attempts; got.Total != 2 || got.ByErrorType["infrastructure"] != 1 {
		t.Errorf("the program took %d attempts, by error type %v", got.Total, got.ByErrorType)
	}
}
