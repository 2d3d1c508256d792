package integration

import (
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/compile"
	"github.com/sluiceml/sluice/connect/state"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/testing/s3test"
	"github.com/sluiceml/sluice/pipelines"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/training/protocol"
)

// soakVariable, in the environment, makes TestOutages stop each thing at every stage for 90 s, and all of them for ten minutes: `make soak`.
const soakVariable = "SLUICE_TEST_SOAK"

// stages are the steps of the example at which something is stopped, in their order. `first` runs beside `pack` and shares its outage.
var stages = []string{"fetch", "mail", "fit", "score", "pack", "ship"}

// outagePlan is what is stopped at which stage, and for how long.
type outagePlan struct {
	outage time.Duration
	// together: a stage does not wait for the end of the outages before it.
	together bool
	stops    map[string][]string
}

// outagePlans are those of `make test`, or of `make soak`.
func outagePlans() map[string]outagePlan {
	// A step that needs a secret begins beside `mail`.
	together := outagePlan{
		outage: 90 * time.Second, together: true,
		stops: map[string][]string{"fetch": {"vault"}, "mail": {"store", "server"}, "fit": {"pool"}},
	}
	if os.Getenv(soakVariable) == "" {
		each := map[string][]string{"fetch": {"store"}, "mail": {"server"}, "fit": {"pool"}, "score": {"balancer"}, "pack": {"server"}, "ship": {"store"}}
		return map[string]outagePlan{"each in turn": {outage: 5 * time.Second, stops: each}, "together": together}
	}
	together.outage = 10 * time.Minute
	plans := map[string]outagePlan{
		"together": together,
		"pool":     {outage: 90 * time.Second, stops: map[string][]string{"fit": {"pool"}}}, // it has nodes only while a step trains
	}
	for _, what := range []string{"server", "store", "balancer"} {
		stops := map[string][]string{}
		for _, step := range stages {
			stops[step] = []string{what}
		}
		plans[what] = outagePlan{outage: 90 * time.Second, stops: stops}
	}
	return plans
}

// TestOutages runs the example while what it needs is stopped, one thing after the other or several at once: Temporal's server, the store, what
// is behind the balancer of the store, the nodes of the pool, Vault. The run ends as one that nothing disturbed: see settled for what is
// compared. No step has more than one attempt of its own, so that a charge for an outage would end it.
func TestOutages(t *testing.T) {
	var undisturbed map[string]any
	t.Run("undisturbed", func(t *testing.T) {
		o := newOutages(t)
		undisturbed = o.settled(o.begin())
	})
	for name, plan := range outagePlans() {
		t.Run(name, func(t *testing.T) {
			if undisturbed == nil {
				t.Fatal("there is no undisturbed run to compare with")
			}
			o := newOutages(t)
			run := o.begin()
			for _, step := range stages {
				what := plan.stops[step]
				if len(what) == 0 {
					continue
				}
				resume := o.strike(run, step, what...)
				t.Logf("%s: stopped in %s: %v", time.Now().UTC().Format(time.TimeOnly), step, what)
				if plan.together {
					time.AfterFunc(plan.outage, resume)
					continue
				}
				time.Sleep(plan.outage)
				resume()
			}
			if diff := cmp.Diff(undisturbed, o.settled(run), cmpopts.IgnoreMapEntries(varies)); diff != "" {
				t.Errorf("what the run made (-undisturbed +disturbed):\n%s", diff)
			}
			o.start("data", "verify").expect(0).says("0 damaged, 0 missing")
		})
	}
}

// outages is the example with a server and a store apart from its worker, so that each can be stopped.
type outages struct {
	*sandbox
	session *control.Session
	server  *server
	gate    *gate // before the store
	vault   *gate // before Vault
}

// newStrictSpam is newSpam with a single attempt of its own for each step.
func newStrictSpam(t *testing.T) *sandbox {
	t.Helper()
	s := newSpam(t)
	s.edit("pipeline.yaml", "steps:\n  fetch:", "defaults: {step: {retry: {attempts: 1}}}\nsteps:\n  fetch:")
	s.edit("pipeline.yaml", "    retry: {attempts: 3, backoff: 2s, errors: [user, infrastructure, timeout]}\n", "")
	s.edit("pipeline.yaml", "    retry: {attempts: 2}\n", "")
	return s
}

func newOutages(t *testing.T) *outages {
	t.Helper()
	o := &outages{sandbox: newStrictSpam(t), gate: &gate{}, vault: &gate{}}
	o.addSecret()
	bucket := s3test.Start(t, "acme", s3test.Options{Around: o.gate.around})
	o.storeURL = bucket.At("sluice")
	t.Setenv(state.StoreVariable, o.storeURL)
	o.env = append(o.env, state.StoreVariable+"="+o.storeURL)
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_EC2_METADATA_DISABLED"} {
		o.env = append(o.env, name+"="+os.Getenv(name))
	}
	o.server = o.serve()
	o.open()
	o.work("worker")
	return o
}

// open connects the test itself, until it ends.
func (o *outages) open() {
	o.t.Helper()
	var err error
	if o.session, err = control.Open(o.t.Context(), control.Options{StateDir: o.state, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() {
		if err := o.session.Close(); err != nil {
			o.t.Error(err)
		}
	})
}

// addSecret adds a step to the example that needs a secret of Vault's.
func (o *outages) addSecret() {
	o.t.Helper()
	token := filepath.Join(o.dir, "vault-token")
	write(o.t, token, "reader")
	vault := httptest.NewServer(o.vault.around(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Vault-Token") != "reader" || r.URL.Path != "/v1/kv/data/ml/lab" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		fmt.Fprint(w, `{"data":{"data":{"key":"a-key-of-the-lab"},"metadata":{"version":1}}}`)
	})))
	o.t.Cleanup(vault.Close)
	o.edit("environment.yaml", "name: laptop\n", fmt.Sprintf(
		"name: laptop\nsecrets: {lab: {vault: \"kv/ml/lab#key\"}}\nvault: {address: %q, auth: {token_file: %q}}\n", vault.URL, token))
	o.edit("pipeline.yaml", "  mail:\n    clean:\n", `  lab:
    needs: [fetch]
    run: {script: 'test -n "$KEY"'}
    secrets: {KEY: lab}

  mail:
    clean:
`)
}

// begin starts a run of the example.
func (o *outages) begin() (run string) {
	o.t.Helper()
	return o.start("run", "pipeline.yaml", "-e", "environment.yaml", "-p", "epochs="+spamEpochs, "--detach").expect(0).runID()
}

// strike stops things in the midst of a step, and returns what resumes them.
func (o *outages) strike(run, step string, what ...string) (resume func()) {
	o.t.Helper()
	defer o.hold(run, step)()
	var resumes []func()
	for _, each := range what {
		resumes = append(resumes, o.stop(each))
	}
	resume = sync.OnceFunc(func() {
		for _, resume := range resumes {
			resume()
		}
	})
	o.t.Cleanup(resume)
	return resume
}

// stop stops something, and returns what resumes it.
func (o *outages) stop(what string) (resume func()) {
	o.t.Helper()
	switch what {
	case "server":
		return stop(o.t, o.server.cmd.Process.Pid)
	case "vault":
		return o.vault.close(false)
	case "store": // takes requests and answers none
		return o.gate.close(false)
	case "balancer": // answers each request that there is nobody
		return o.gate.close(true)
	default:
		agents := o.processes(agentPath)
		if len(agents) < 2 {
			o.t.Fatalf("the pool has %d agents, want one for each of 2 nodes", len(agents))
		}
		return stop(o.t, agents...)
	}
}

// hold waits until the run is in the midst of a step, and holds it there as long as the caller needs, if it is a short one.
func (o *outages) hold(run, step string) (release func()) {
	o.t.Helper()
	var held []int
	o.awaitStage(run, step, func(at contract.StepState) bool {
		switch step {
		case "fit": // in the midst of training, with a checkpoint to resume from
			detail, err := o.session.Detail(o.t.Context(), run, at)
			return err == nil && slices.ContainsFunc(detail.TrainNodes, func(p protocol.TrainProgress) bool { return p.CommittedStep > 0 })
		case "ship": // in the midst of a canary
			doc, err := routing.Current(o.t.Context(), o.store(), "spam")
			release, _ := doc.Release("2")
			return err == nil && release.Weight > 0 && release.Weight < 1
		default: // some take less than a second: the step's program is held until all is stopped
			held = o.processes(programs[step])
			return len(held) > 0
		}
	})
	return stop(o.t, held...)
}

// programs are parts of the command lines of what the steps run.
var programs = map[string]string{"fetch": " fetch.py", "mail": " " + pipelines.Arg, "score": " evaluate.py", "pack": " " + compile.Arg}

// awaitStage waits until a step runs and a condition holds, for as long as the run goes on.
func (o *outages) awaitStage(run, step string, cond func(contract.StepState) bool) {
	o.t.Helper()
	tick := time.NewTicker(pollPause)
	defer tick.Stop()
	for {
		// It has no answer for a moment after the server was away.
		if state, err := o.session.State(o.t.Context(), run); err == nil {
			if state.Status != spec.StatusRunning {
				o.t.Fatalf("the run is %s and was not stopped in %s", state.Status, step)
			}
			for _, at := range state.Steps {
				switch {
				case at.ID != step:
				case at.Status == spec.StatusSucceeded, at.Status == spec.StatusFailed:
					o.t.Fatalf("%s is %s, and nothing was stopped in the midst of it", step, at.Status)
				case at.Status == spec.StatusRunning && cond(at):
					return
				}
			}
		}
		select {
		case <-tick.C:
		case <-o.t.Context().Done():
			o.t.Fatalf("the test is over, and %s was not reached", step)
		}
	}
}

// settled waits for the end of a run, which must be a success, and returns what it made: what it and its steps hand on, how the steps
// ended, and what serves. Data and models are in it by digest.
func (o *outages) settled(run string) map[string]any {
	o.t.Helper()
	out, err := o.session.Wait(o.t.Context(), run)
	record := o.show(run)
	for _, id := range slices.Sorted(maps.Keys(record.Steps)) {
		step := record.Steps[id]
		o.t.Logf("%s: %s in %.0f s, %+v %s", id, step.Status, step.Seconds, step.Attempts, step.Error)
	}
	if err != nil || out.Status != spec.StatusSucceeded {
		o.t.Fatalf("the run ended as %+v: %v", out, err)
	}
	made := map[string]any{"outputs": record.Outputs}
	for id, step := range record.Steps {
		var outputs map[string]any
		step.decode(o.t, &outputs)
		made[id] = map[string]any{"status": step.Status, "verdict": step.Verdict, "outputs": outputs}
	}
	var fit spec.TrainOutput
	record.Steps["fit"].decode(o.t, &fit)
	for _, g := range fit.Generations {
		o.t.Logf("generation %d: %s, steps %d-%d, committed %d, lost %d: %s", g.Index, g.End, g.FromStep, g.ToStep, g.CommittedStep, g.StepsLost, g.Reason)
	}
	made["losses"] = o.curve(fit.Curve)
	doc, err := routing.Current(o.t.Context(), o.store(), "spam")
	if err != nil {
		o.t.Fatal(err)
	}
	for _, release := range doc.Releases {
		made["version "+release.Version] = map[string]any{"model": release.Model.Digest, "weight": release.Weight}
	}
	return made
}

// varies reports what differs between two runs of the example though nothing disturbs either, or may when something does.
func varies(name string, _ any) bool {
	switch name {
	case "curve": // its points name their generations; `losses` has them without
		return true
	case "generations", "ledger", "outcomes", "costs", "nodes", "node_seconds", "cost_usd", "steps_lost", "steps_repeated": // a node that is lost makes a generation; checkpoints go by the clock
		return true
	case "reused": // a cleaning that starts anew, after Temporal was away for longer than a heartbeat may be, takes over what it had done
		return true
	case "latency", "throughput": // measured
		return true
	case "seconds", "looks", "reason": // of a stage: how long it took, and which requests the candidate had by then
		return true
	case "url": // each gateway has a port of its own
		return true
	}
	return false
}

// stop freezes processes, and returns what lets them go on.
func stop(t *testing.T, pids ...int) (resume func()) {
	t.Helper()
	for _, pid := range pids {
		kill(t, pid, syscall.SIGSTOP)
	}
	return func() {
		for _, pid := range pids {
			syscall.Kill(pid, syscall.SIGCONT) // it may have been given up, and killed
		}
	}
}

// gate stops a server until it is opened again.
type gate struct {
	mu      sync.Mutex
	closed  chan struct{} // nil while it is open
	answers bool          // that there is nobody
}

func (g *gate) close(answers bool) (open func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed, g.answers = make(chan struct{}), answers
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		close(g.closed)
		g.closed = nil
	}
}

func (g *gate) around(inner http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		closed, answers := g.closed, g.answers
		g.mu.Unlock()
		switch {
		case closed != nil && answers:
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		case closed != nil:
			select {
			case <-closed:
			case <-r.Context().Done():
				return
			}
		}
		inner.ServeHTTP(w, r)
	})
}
