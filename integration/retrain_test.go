package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/serving/routing"
)

// retrain is examples/retrain with a clock on which night falls every three seconds, when it is let.
type retrain struct {
	*sandbox
	up *command
	// payments is the folder that the shop writes.
	payments string

	mu sync.Mutex
	// told are the notifications: "event run".
	told []string
}

// TestRetrain goes through three nights of the example that trains again by itself. In the first there is no model yet. Then the data
// drift, which starts a run between the nights. The second night finds nothing better than what serves; the third trains on labels that
// are wrong, and its release is taken back. What starts each run is a trigger, and the test only writes the shop's files.
func TestRetrain(t *testing.T) {
	t.Parallel()
	r := newRetrain(t)

	r.writes("2026-03-01")
	first := r.night()
	r.check(first, "succeeded", "promoted")
	r.serves(first)

	// The drift's trigger finds the file too, which is no other than the one that was trained on.
	r.schedule("resume", "drift")
	r.check(r.started("drift", nil), "declined", "")
	before := r.runs("drift")
	r.writes("2026-03-02", "--abroad")
	drift := r.started("drift", before)
	r.check(drift, "succeeded", "promoted")
	r.serves(drift)
	r.schedule("pause", "drift")

	r.check(r.night(), "declined", "")
	r.serves(drift)

	r.writes("2026-03-03", "--abroad", "--broken")
	third := r.night()
	r.check(third, "failed", "rolled_back")
	r.serves(drift)

	want := []string{"success " + first, "success " + drift, "fail " + third, "rollback " + third}
	r.await("the notifications", func() bool { return len(r.heard()) >= len(want) })
	if diff := cmp.Diff(slices.Sorted(slices.Values(want)), r.heard()); diff != "" {
		t.Errorf("notifications (-want +got):\n%s", diff)
	}
	kill(t, r.up.cmd.Process.Pid, syscall.SIGINT)
	r.up.expect(0)
}

func newRetrain(t *testing.T) *retrain {
	t.Helper()
	s := copyProject(t, "../examples/retrain")
	r := &retrain{sandbox: s, payments: filepath.Join(s.dir, "payments")}
	inbox := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		var message struct{ Event, Run string }
		body, err := io.ReadAll(req.Body)
		if err == nil {
			err = json.Unmarshal(body, &message)
		}
		if err != nil {
			t.Errorf("notification %s: %v", body, err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.told = append(r.told, message.Event+" "+message.Run)
	}))
	t.Cleanup(inbox.Close)
	s.edit("environment.yaml", "port: 8090", fmt.Sprintf("port: %d", s.port))
	s.edit("pipeline.yaml", "http://127.0.0.1:8095/", inbox.URL)
	s.edit("pipeline.yaml", "/tmp/payments", r.payments)
	s.edit("pipeline.yaml", "settle: 10s, every: 10s", "settle: 1s, every: 1s")
	s.edit("pipeline.yaml", `cron: "0 3 * * *"`, `cron: "*/3 * * * * *", start: "2100-01-01T00:00:00Z"`)

	r.up = s.start("up")
	r.up.awaits("up")
	r.apply()
	r.schedule("pause", "nightly")
	r.schedule("pause", "drift")
	s.edit("pipeline.yaml", `, start: "2100-01-01T00:00:00Z"`, "")
	r.apply()
	return r
}

func (r *retrain) apply() {
	r.t.Helper()
	r.start("schedule", "apply", "pipeline.yaml", "-e", "environment.yaml", "--yes").expect(0)
}

func (r *retrain) schedule(command, trigger string) {
	r.t.Helper()
	r.start("schedule", command, "fraud/"+trigger).expect(0)
}

// writes has the shop write a day.
func (r *retrain) writes(day string, options ...string) {
	r.t.Helper()
	shop := exec.CommandContext(r.t.Context(), "python3", append([]string{"payments.py", r.payments, day}, options...)...)
	shop.Dir = r.project
	if out, err := shop.CombinedOutput(); err != nil {
		r.t.Fatalf("the shop: %v\n%s", err, out)
	}
}

// night lets night fall until a run has begun, and returns it.
func (r *retrain) night() string {
	r.t.Helper()
	before := r.runs("nightly")
	r.schedule("resume", "nightly")
	run := r.started("nightly", before)
	r.schedule("pause", "nightly")
	return run
}

// runs are those that a trigger has started.
func (r *retrain) runs(trigger string) []string {
	r.t.Helper()
	folders, err := os.ReadDir(filepath.Join(r.state, "store", "runs"))
	if err != nil && !os.IsNotExist(err) {
		r.t.Fatal(err)
	}
	var runs []string
	for _, folder := range folders {
		if strings.HasPrefix(folder.Name(), "fraud-"+trigger+"-") {
			runs = append(runs, folder.Name())
		}
	}
	return runs
}

// started waits for a run of a trigger that was not there before.
func (r *retrain) started(trigger string, before []string) (run string) {
	r.t.Helper()
	r.up.await("a run of "+trigger, func() bool {
		// A run of a new file is named by a digest, so that the newest need not be the last.
		begun := slices.DeleteFunc(r.runs(trigger), func(run string) bool { return slices.Contains(before, run) })
		if len(begun) > 0 {
			run = begun[0]
		}
		return run != ""
	})
	return run
}

// check waits for the end of a run: its status, and what its rollout decided, if it got so far.
func (r *retrain) check(run, status, decision string) {
	r.t.Helper()
	var record shown
	r.up.await("the end of "+run, func() bool {
		record = r.show(run)
		return record.Status != "running" && record.Status != "pending"
	})
	var out struct{ Decision string }
	if ship := record.Steps["ship"]; ship.Outputs != nil {
		ship.decode(r.t, &out)
	}
	if record.Status != status || out.Decision != decision {
		r.t.Fatalf("run %s ended as %s (%s), and its release as %q; want %s and %q", run, record.Status, record.Error, out.Decision, status, decision)
	}
}

// serves checks whose release has all the traffic.
func (r *retrain) serves(run string) {
	r.t.Helper()
	doc, err := routing.Current(r.t.Context(), r.store(), "fraud")
	if err != nil {
		r.t.Fatal(err)
	}
	for _, release := range doc.Releases {
		if release.Weight == 1 && release.Run == run {
			return
		}
	}
	r.t.Errorf("%s does not serve: %+v", run, doc.Releases)
}

func (r *retrain) heard() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(slices.Values(r.told))
}
