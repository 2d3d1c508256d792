package integration

import (
	"log/slog"
	"net/http"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/internal/s3test"
	"github.com/sluiceml/sluice/worker"
)

// soakVariable, in the environment, makes TestOutages stop each thing at every stage, for 90 s each: `make soak`.
const soakVariable = "SLUICE_TEST_SOAK"

// TestOutages runs the chain while what it needs is stopped, one thing after the other: Temporal's server, the store, what is behind the
// balancer of the store, the nodes of the pool. The run ends as if nothing had been. No step has more than one attempt, so that a charge for an outage would end it.
func TestOutages(t *testing.T) {
	type plan map[string]string // what is stopped, by step
	outage := 15 * time.Second
	plans := map[string]plan{
		"each in turn": {"fetch": "store", "clean": "server", "fit": "pool", "export": "balancer", "pack": "server", "first": "balancer", "ship": "server"},
	}
	if os.Getenv(soakVariable) != "" {
		outage = 90 * time.Second
		plans = map[string]plan{"pool": {"fit": "pool"}}
		for _, what := range []string{"server", "store", "balancer"} {
			plans[what] = plan{}
			for _, step := range chainSteps {
				plans[what][step] = what
			}
		}
	}
	for name, plan := range plans {
		t.Run(name, func(t *testing.T) {
			s, things := newOutages(t)
			session, err := worker.Open(t.Context(), worker.Options{StateDir: s.state, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			s.work("worker")
			run := s.start("run", "pipeline.yaml", "-e", "environment.yaml", "-p", "ledger="+s.dir, "-p", "steps=100", "--detach").expect(0).runID()
			for _, step := range chainSteps {
				what := plan[step]
				if what == "" {
					continue
				}
				s.await("step "+step, func() bool {
					state, err := session.State(t.Context(), run)
					return err == nil && reached(state.Steps, step)
				})
				t.Logf("%s: the %s is stopped", step, what)
				resume := things[what]()
				time.Sleep(outage)
				resume()
			}
			out, err := session.Wait(t.Context(), run)
			if err != nil || out.Status != dsl.StatusSucceeded {
				t.Errorf("the run ended as %+v: %v", out, err)
			}
			record := s.show(run)
			if record.Outputs["steps"] != 100.0 || record.Outputs["version"] != "2" {
				t.Errorf("its outputs are %v", record.Outputs)
			}
			for name, step := range record.Steps {
				t.Logf("%s: %s in %.0f s, %+v", name, step.Status, step.Seconds, step.Attempts)
			}
			s.checkTraining(record.Steps["fit"], 100)
			s.start("data", "verify").expect(0).says("0 damaged, 0 missing")
		})
	}
}

// chainSteps are the steps of the chain in their order.
var chainSteps = []string{"fetch", "clean", "fit", "export", "pack", "first", "ship"}

// newOutages is a chain whose server and store are apart from its worker, and what stops each, which returns what resumes it.
func newOutages(t *testing.T) (*sandbox, map[string]func() (resume func())) {
	t.Helper()
	s := newChain(t)
	s.edit("pipeline.yaml", "steps:\n  fetch:", "defaults: {step: {retry: {attempts: 1}}}\nsteps:\n  fetch:")
	s.edit("pipeline.yaml", "    retry: {attempts: 2, backoff: 100ms}\n", "")
	var gate gate
	bucket := s3test.Start(t, "acme", s3test.Options{Around: gate.around})
	s.storeURL = bucket.At("sluice")
	t.Setenv(worker.StoreVariable, s.storeURL)
	s.env = append(s.env, worker.StoreVariable+"="+s.storeURL)
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_EC2_METADATA_DISABLED"} {
		s.env = append(s.env, name+"="+os.Getenv(name))
	}
	server := s.serve()
	stop := func(pids ...int) func() {
		for _, pid := range pids {
			kill(t, pid, syscall.SIGSTOP)
		}
		return func() {
			for _, pid := range pids {
				syscall.Kill(pid, syscall.SIGCONT) // it may have been given up, and killed
			}
		}
	}
	return s, map[string]func() func(){
		"server": func() func() { return stop(server.cmd.Process.Pid) },
		// One that takes requests and answers none, and one whose every answer is that there is nobody.
		"store":    func() func() { return gate.close(false) },
		"balancer": func() func() { return gate.close(true) },
		"pool": func() func() {
			var agents []int
			s.await("training", func() bool {
				agents = s.processes(agentPath)
				return len(s.ledger("trace")) >= 20
			})
			return stop(agents...)
		},
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

// reached reports whether a step has begun.
func reached(steps []contract.StepState, id string) bool {
	return slices.ContainsFunc(steps, func(s contract.StepState) bool { return s.ID == id && s.Status != dsl.StatusPending })
}
