package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluiceml/sluice/connect/state"
	"github.com/sluiceml/sluice/dsl/spec"
)

// clusterVariable, in the environment, names the folder of what tools/cluster builds, and makes TestCluster run: `make test-cluster`.
const clusterVariable = "SLUICE_TEST_CLUSTER"

// storeOutage is how long TestCluster stops the store.
const storeOutage = 90 * time.Second

// TestCluster runs the example on the services of docker-compose.yml, as processes. Then it runs it on fresh ones while each of them in turn
// is killed in the midst of a step, and is started again a second later, and while the store is stopped. The run ends as the one that nothing
// disturbed: see settled for what is compared. No step has more than one attempt of its own, so that a charge would end the run.
func TestCluster(t *testing.T) {
	programs := os.Getenv(clusterVariable)
	if programs == "" {
		t.Skipf("%s is not set: run `make test-cluster`", clusterVariable)
	}
	var undisturbed map[string]any
	t.Run("undisturbed", func(t *testing.T) {
		c := newComposed(t, programs)
		run := c.begin()
		undisturbed = c.settled(run)
		c.accounted(run)
		c.serves()
		c.watched()
		c.measured()
	})
	t.Run("disturbed", func(t *testing.T) {
		if undisturbed == nil {
			t.Fatal("there is no undisturbed run to compare with")
		}
		c := newComposed(t, programs)
		run := c.begin()
		c.strike(run, "fetch", c.kill("temporal"))
		c.strike(run, "mail", c.kill("s3"), c.kill("worker-stateless"))
		c.strike(run, "fit", c.kill("postgres"))
		c.strike(run, "fit", c.kill("worker")) // and with it the nodes of the pool
		c.strike(run, "score", c.stopFor("s3", storeOutage))
		c.strike(run, "pack", c.kill("prometheus"), c.kill("temporal-ui"))
		c.strike(run, "ship", c.kill("worker")) // and with it what serves
		if diff := cmp.Diff(undisturbed, c.settled(run), cmpopts.IgnoreMapEntries(varies)); diff != "" {
			t.Errorf("what the run made (-undisturbed +disturbed):\n%s", diff)
		}
		c.accounted(run)
		c.serves()
		c.watched()
		c.start("data", "verify").expect(0).says("0 damaged, 0 missing")
	})
}

// composed is the example on the services of the Compose file.
type composed struct {
	outages
	services string // what runs where
}

func newComposed(t *testing.T, programs string) *composed {
	t.Helper()
	c := &composed{outages: outages{sandbox: newStrictSpam(t)}}
	c.equip()
	dir := filepath.Join(c.dir, "cluster")
	c.services = filepath.Join(dir, "cluster.json")
	for _, folder := range []string{filepath.Dir(c.dir), c.dir} { // PostgreSQL runs as another user where this is root
		if err := os.Chmod(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := sluicePath(); err != nil {
		t.Fatal(err)
	}
	var said output
	cmd := exec.Command(filepath.Join(programs, "cluster"), "-file", "../docker-compose.yml", "-state", dir,
		"-network", fmt.Sprintf("127.21.%d", os.Getpid()%256), // so that two tests can run at once
		"-programs", programs+string(os.PathListSeparator)+filepath.Dir(agentPath))
	cmd.Env, cmd.Stdout, cmd.Stderr = c.env, &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		err := <-ended
		if err != nil || t.Failed() {
			t.Errorf("the cluster ended with %v:\n%s", err, &said)
			c.showServiceLogs(dir)
		}
	})
	c.await("the cluster", func() bool {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("the cluster has ended: %v\n%s", err, &said)
		default:
		}
		return strings.Contains(said.String(), "Ctrl-C stops")
	})
	c.storeURL = fmt.Sprintf("s3://sluice?endpoint=http://%s:7070&region=us-east-1", c.service("s3").Address)
	for name, value := range map[string]string{
		"TEMPORAL_ADDRESS": c.service("temporal").Address + ":7233", state.StoreVariable: c.storeURL,
		"AWS_ACCESS_KEY_ID": "sluice", "AWS_SECRET_ACCESS_KEY": "sluice-secret", "AWS_EC2_METADATA_DISABLED": "true",
	} {
		t.Setenv(name, value)
		c.env = append(c.env, name+"="+value)
	}
	c.open()
	return c
}

// composedService is what cluster.json says of a service.
type composedService struct {
	Address       string
	PID, Restarts int
}

func (c *composed) service(name string) composedService {
	c.t.Helper()
	raw, err := os.ReadFile(c.services)
	if err != nil {
		c.t.Fatal(err)
	}
	var all map[string]composedService
	if err := json.Unmarshal(raw, &all); err != nil {
		c.t.Fatal(err)
	}
	s, ok := all[name]
	if !ok {
		c.t.Fatalf("the cluster has no service %s", name)
	}
	return s
}

// strike does something in the midst of a step.
func (c *composed) strike(run, step string, blows ...func()) {
	c.t.Helper()
	defer c.hold(run, step)()
	for _, blow := range blows {
		c.t.Logf("%s: in the midst of step %s", time.Now().UTC().Format(time.TimeOnly), step)
		blow()
	}
	c.await("an answer about the run", func() bool { // or the next step may be over before this process sees it begin
		_, err := c.session.State(c.t.Context(), run)
		return err == nil
	})
}

// kill kills a service and waits until it has been started again.
func (c *composed) kill(name string) func() {
	return func() {
		c.t.Helper()
		c.await(name+" to run", func() bool { return c.service(name).PID != 0 })
		before := c.service(name)
		kill(c.t, before.PID, syscall.SIGKILL)
		c.await(name+" to be started again", func() bool { now := c.service(name); return now.Restarts > before.Restarts && now.PID != 0 })
		c.t.Logf("%s: %s was killed and is started again", time.Now().UTC().Format(time.TimeOnly), name)
	}
}

// stopFor stops a service for a while: it takes connections and answers nothing.
func (c *composed) stopFor(name string, outage time.Duration) func() {
	return func() {
		c.t.Helper()
		defer stop(c.t, c.service(name).PID)()
		time.Sleep(outage)
		c.t.Logf("%s: %s was stopped for %v and goes on", time.Now().UTC().Format(time.TimeOnly), name, outage)
	}
}

// accounted checks the account of the training: each generation goes on where the one before had committed, and what that had done beyond
// is lost and done again, step for step.
func (c *composed) accounted(run string) {
	c.t.Helper()
	var fit spec.TrainOutput
	c.show(run).Steps["fit"].decode(c.t, &fit)
	var lost, from int64
	for _, g := range fit.Generations {
		if g.FromStep != from {
			c.t.Errorf("generation %d begins at step %d, want %d", g.Index, g.FromStep, from)
		}
		from = g.CommittedStep
		if g.Index < len(fit.Generations) {
			if g.StepsLost != max(0, g.ToStep-g.CommittedStep) {
				c.t.Errorf("generation %d has lost %d steps, want those from %d to %d", g.Index, g.StepsLost, g.CommittedStep, g.ToStep)
			}
			lost += g.StepsLost
		}
	}
	if fit.StepsLost != lost || fit.StepsRepeated != lost {
		c.t.Errorf("%d steps lost and %d repeated, want %d of each", fit.StepsLost, fit.StepsRepeated, lost)
	}
}

// serves waits until the released model answers at the address of the worker that serves.
func (c *composed) serves() {
	c.t.Helper()
	ready := fmt.Sprintf("http://%s:%d/v2/models/spam/ready", c.service("worker").Address, c.port)
	c.await("an answer at "+ready, func() bool {
		res, err := http.Get(ready)
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
}

// showServiceLogs shows the end of the log of each service.
func (c *composed) showServiceLogs(dir string) {
	paths, _ := filepath.Glob(filepath.Join(dir, "logs", "*.log"))
	for _, path := range paths {
		raw, _ := os.ReadFile(path)
		c.t.Logf("%s:\n%s", path, raw[max(0, len(raw)-3000):])
	}
}
