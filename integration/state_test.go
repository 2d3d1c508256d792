package integration

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluiceml/sluice/serving/onnx"
)

// stateArchive holds the folders of a sandbox as an earlier build has left them: `project`, which is testdata/state with a training script
// and a model; `state`, made of it by recordState; and `recorded`, what that build's commands said of it. The port of its target is PORT,
// and it names no machine. The token in it opens this one folder.
const stateArchive = "testdata/state.tar.gz"

// recordFlag is for `make state`. An archive that is not recorded again is the proof that state folders outlive a change of the code.
var recordFlag = flag.Bool("record-state", false, "record "+stateArchive+" again, in place of the test that opens it")

// archived is a sandbox with the state folder of an earlier build.
type archived struct {
	*sandbox
	runs map[string]string // by the name that recordState gives them
}

// TestEarlierState opens a state folder that an earlier build has left. All that was there is there, what was done is not done again, and
// what was under way goes on.
func TestEarlierState(t *testing.T) {
	t.Parallel()
	if *recordFlag {
		recordState(t)
		return
	}
	a := openArchive(t)
	for file, args := range a.looks() {
		a.looksAsRecorded(file, args)
	}
	a.start("data", "verify").expect(0).says(" 0 damaged, 0 missing")
	for name, run := range a.runs {
		page := filepath.Join(a.dir, name+".html")
		a.start("report", run, "-o", page).expect(0)
		if raw, err := os.ReadFile(page); err != nil || !strings.Contains(string(raw), run) {
			t.Errorf("the report of %s does not name it: %v", run, err)
		}
	}

	up := a.start("up")
	up.awaits("Ctrl-C stops")
	up.await("an answer", func() bool { _, err := a.infer(); return err == nil })
	a.answersAsRecorded()
	a.decideAll()
	a.taken()
	a.mended()
	a.triggered()
	a.released()
	kill(t, up.cmd.Process.Pid, syscall.SIGINT)
	up.expect(0)
	a.start("data", "verify").expect(0).says(" 0 damaged, 0 missing")
}

// openArchive unpacks the archive into a sandbox.
func openArchive(t *testing.T) *archived {
	t.Helper()
	a := &archived{sandbox: emptySandbox(t, t.TempDir())}
	if out, err := exec.Command("tar", "-xzf", stateArchive, "-C", a.dir).CombinedOutput(); err != nil {
		t.Fatalf("unpack %s: %v\n%s", stateArchive, err, out)
	}
	a.replacePort("PORT", strconv.Itoa(a.port))
	a.steadyPython()
	a.read("runs.json", &a.runs)
	return a
}

// replacePort replaces the port of the target, in the environment and where the state folder and the target's documents have it.
func (a *archived) replacePort(old, port string) {
	a.t.Helper()
	a.edit("environment.yaml", old, port)
	a.edit("../state/targets.json", old, port)
	documents, err := filepath.Glob(filepath.Join(a.dir, "state", "store", "routing", "*", "*"))
	if err != nil || len(documents) == 0 {
		a.t.Fatalf("the target has no documents: %v", err)
	}
	for _, document := range documents {
		a.edit("../"+strings.TrimPrefix(document, a.dir+"/"), `"port":`+old, `"port":`+port)
	}
}

// steadyPython puts a Python before the machine's that says the same of itself on every machine. What it says is in the keys of results,
// and another interpreter would be a good reason to do a step again; here there must be none.
func (s *sandbox) steadyPython() {
	s.t.Helper()
	machine, steady := pythonEnv(s.t), filepath.Join(s.dir, "python")
	if err := os.MkdirAll(filepath.Join(steady, "bin"), 0o700); err != nil {
		s.t.Fatal(err)
	}
	// Compile steps and gateways find ONNX Runtime in lib.
	if err := os.Symlink(filepath.Join(machine, "lib"), filepath.Join(steady, "lib")); err != nil {
		s.t.Fatal(err)
	}
	python := fmt.Sprintf(`#!/bin/sh
case "$2" in
*dist-info*) echo '{"is": ["steady"], "watch": []}' ;;
*) exec '%s' "$@" ;;
esac
`, filepath.Join(machine, "bin", "python3"))
	if err := os.WriteFile(filepath.Join(steady, "bin", "python3"), []byte(python), 0o700); err != nil {
		s.t.Fatal(err)
	}
	s.env = append(s.env, onnx.EnvironmentVariable+"="+steady)
}

// looks are commands that look at the state folder while nothing is up, by the file in `recorded` that has what they said.
func (a *archived) looks() map[string][]string {
	looks := map[string][]string{
		"list.json":        {"list", "--children", "--format", "json"},
		"data.json":        {"data", "ls", "--format", "json"},
		"dataset.json":     {"data", "show", "words", "--format", "json"},
		"checkpoints.json": {"checkpoint", "ls", "--format", "json"},
		"schedules.json":   {"schedule", "list", "--format", "json"},
	}
	for name, run := range a.runs {
		looks["show-"+name+".json"] = []string{"show", run, "--format", "json"}
		looks["logs-"+name+".txt"] = []string{"logs", run}
	}
	return looks
}

// looksAsRecorded compares what a command says with what it said, but for what grows with time: how long an open run has gone on, and how
// many of its times a trigger has missed. That nobody executes the open run is said since the archive was recorded.
func (a *archived) looksAsRecorded(file string, args []string) {
	a.t.Helper()
	got, want := any(a.start(args...).expect(0).stdout.String()), any(a.recorded(file))
	if filepath.Ext(file) == ".json" {
		got, want = parsed(a.t, got.(string)), parsed(a.t, want.(string))
	}
	differs := cmpopts.IgnoreMapEntries(func(key string, _ any) bool {
		switch file {
		case "list.json":
			return key == "unattended"
		case "show-ask.json":
			return key == "seconds" || key == "unattended"
		case "schedules.json":
			return key == "missed"
		}
		return false
	})
	if diff := cmp.Diff(want, got, differs); diff != "" {
		a.t.Errorf("sluice %s (-recorded +now):\n%s", strings.Join(args, " "), diff)
	}
}

func parsed(t *testing.T, text string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return v
}

func (a *archived) recorded(file string) string {
	a.t.Helper()
	raw, err := os.ReadFile(filepath.Join(a.dir, "recorded", file))
	if err != nil {
		a.t.Fatal(err)
	}
	return string(raw)
}

func (a *archived) read(file string, v any) {
	a.t.Helper()
	if err := json.Unmarshal([]byte(a.recorded(file)), v); err != nil {
		a.t.Fatal(err)
	}
}

// inference is an answer of the model that serves.
type inference struct{ Release, Answer string }

func (a *archived) infers() inference {
	a.t.Helper()
	release, answer, err := a.answer()
	if err != nil {
		a.t.Fatal(err)
	}
	return inference{release, answer}
}

func (a *archived) answersAsRecorded() {
	a.t.Helper()
	var want inference
	a.read("inference.json", &want)
	want.Answer = strings.TrimSpace(want.Answer) // earlier builds ended an answer with a line break
	if diff := cmp.Diff(want, a.infers()); diff != "" {
		a.t.Errorf("the model answers (-recorded +now):\n%s", diff)
	}
}

// decideAll gives the open run what it waits for, by which its workflows replay what the earlier build has ordered.
func (a *archived) decideAll() {
	a.t.Helper()
	run := a.runs["ask"]
	a.awaitHolds(run)
	a.start("approve", run, "count").expect(0)
	a.start("approve", run, "sign", "--field", "tier=gold").expect(0)
	record := a.awaitRun(run, "succeeded")
	if record.Outputs["trained"] != 10.0 {
		a.t.Errorf("the outputs of %s are %v", run, record.Outputs)
	}
}

func (a *archived) awaitHolds(run string) {
	a.t.Helper()
	a.await("the questions of "+run, func() bool {
		steps := a.show(run).Steps
		return steps["count"].Status == "hold" && steps["sign"].Status == "hold"
	})
}

// awaitRun waits for the end of a run, which must be this one.
func (a *archived) awaitRun(run, status string) shown {
	a.t.Helper()
	var record shown
	a.await("the end of "+run, func() bool { record = a.show(run); return record.Status != "running" })
	if record.Status != status {
		a.t.Errorf("%s is %s, want %s: %s", run, record.Status, status, record.Error)
	}
	return record
}

// taken does what has succeeded again, by the earlier run and by the cache: both find every result, so that keys are what they were, but for
// those of cleanings, which compute something else since the archive was made. A child pipeline is in no cache, its steps are.
func (a *archived) taken() {
	a.t.Helper()
	a.takenOver(a.again("rerun", a.runs["make"]), a.runs["make"], "clean")
	run := a.again("run", "make.yaml", "-e", "environment.yaml")
	a.takenOver(run, a.runs["make"], "child", "clean")
}

// again starts a run that succeeds. It is not the newest when a trigger has started another.
func (a *archived) again(args ...string) shown {
	a.t.Helper()
	return a.show(a.start(args...).expect(0).runID())
}

// takenOver checks that all steps are an earlier run's but for some.
func (a *archived) takenOver(record shown, from string, but ...string) {
	a.t.Helper()
	for name, step := range record.Steps {
		if step.Status != "succeeded" || (step.ReusedFrom == from) == slices.Contains(but, name) {
			a.t.Errorf("%s of %s is %s, taken from %q", name, record.Run, step.Status, step.ReusedFrom)
		}
	}
}

// mended does the run again that has failed, now that it can succeed.
func (a *archived) mended() {
	a.t.Helper()
	run := a.runs["failed"]
	a.start("rerun", run, "--from", "work").expect(3)
	write(a.t, filepath.Join(a.state, "mended"), "")
	record := a.again("rerun", run, "--from", "work")
	if record.ReuseFrom != run || record.Steps["begin"].ReusedFrom != run || record.Steps["work"].ReusedFrom != "" {
		a.t.Errorf("run %s does not begin where %s has failed: %+v", record.Run, run, record.Steps)
	}
}

// triggered waits for the run that an earlier build's trigger starts, which has seen an accepted run of this one.
func (a *archived) triggered() {
	a.t.Helper()
	var run string
	a.await("the trigger's run", func() bool {
		var all []struct{ Run, Pipeline, Status string }
		c := a.start("list", "--format", "json").expect(0)
		if err := json.Unmarshal([]byte(c.stdout.String()), &all); err != nil {
			a.t.Fatal(err)
		}
		for _, r := range all {
			if r.Pipeline == "after" {
				run = r.Run
			}
		}
		return run != ""
	})
	a.awaitRun(run, "succeeded")
}

// released puts a release beside those of the earlier build.
func (a *archived) released() {
	a.t.Helper()
	record := a.again("run", "release.yaml", "-e", "environment.yaml")
	if record.Outputs["version"] != "3" || record.Steps["first"].Status != "skipped" || record.Steps["pack"].ReusedFrom == "" {
		a.t.Errorf("the release: %+v", record)
	}
	if got := a.infers().Release; got != "3" {
		a.t.Errorf("release %s answers", got)
	}
}

// recordState makes the archive. It works in a place and under a host name that name nobody, since Temporal keeps both: that of the
// database, and those of the processes that have worked.
func recordState(t *testing.T) {
	t.Helper()
	const dir = "/tmp/sluice-state"
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	a := &archived{sandbox: emptySandbox(t, dir), runs: map[string]string{}}
	a.starter = []string{"unshare", "--user", "--map-root-user", "--uts", "sh", "-c", `hostname sluice && exec "$@"`, "sh"}
	if err := os.CopyFS(a.project, os.DirFS("testdata/state")); err != nil {
		t.Fatal(err)
	}
	a.addTraining()
	a.edit("environment.yaml", "PORT", strconv.Itoa(a.port))
	a.steadyPython()

	up := a.start("up")
	up.awaits("Ctrl-C stops")
	a.record("make", 0, "make.yaml")
	a.record("release", 0, "release.yaml")
	a.record("declined", 0, "ends.yaml", "-p", "how=declined")
	a.record("failed", 3, "ends.yaml", "-p", "how=failed")
	a.record("canceled", 0, "ends.yaml", "-p", "how=canceled", "--detach")
	up.awaitProcess("sleep", "600")
	a.start("cancel", a.runs["canceled"]).expect(0)
	a.awaitRun(a.runs["canceled"], "canceled")
	a.start("schedule", "apply", "after.yaml", "--yes").expect(0)
	a.record("ask", 0, "ask.yaml", "--detach")
	a.awaitHolds(a.runs["ask"])
	answer := a.infers()
	kill(t, up.cmd.Process.Pid, syscall.SIGINT)
	up.expect(0)

	if err := os.Mkdir(filepath.Join(dir, "recorded"), 0o700); err != nil {
		t.Fatal(err)
	}
	a.keep("runs.json", a.runs)
	a.keep("inference.json", answer)
	for file, args := range a.looks() {
		write(t, filepath.Join(dir, "recorded", file), a.start(args...).expect(0).stdout.String())
	}
	a.pack()
}

// record runs a pipeline whose exit code is known.
func (a *archived) record(name string, code int, args ...string) {
	a.t.Helper()
	c := a.start(append([]string{"run", "-e", "environment.yaml"}, args...)...).expect(code)
	a.runs[name] = c.runID()
}

func (a *archived) keep(file string, v any) {
	a.t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		a.t.Fatal(err)
	}
	write(a.t, filepath.Join(a.dir, "recorded", file), string(raw))
}

// pack writes the archive, without what Sluice does not read again.
func (a *archived) pack() {
	a.t.Helper()
	a.replacePort(strconv.Itoa(a.port), "PORT")
	const compact = `import glob, sqlite3
(path,) = glob.glob("state/temporal-*.db")
db = sqlite3.connect(path)
db.execute("pragma wal_checkpoint(truncate)")
db.execute("vacuum")
db.close()`
	for _, args := range [][]string{
		{filepath.Join(pythonEnv(a.t), "bin", "python3"), "-c", compact},
		{"tar", "--owner=0", "--group=0", "--numeric-owner", "--sort=name", "--exclude=state/temporal.log", "--exclude=state/worker.log", "-czf", "sluice-state.tar.gz", "project", "recorded", "state"},
	} {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = a.dir
		if out, err := cmd.CombinedOutput(); err != nil {
			a.t.Fatalf("%s: %v\n%s", args[0], err, out)
		}
	}
	raw, err := os.ReadFile(filepath.Join(a.dir, "sluice-state.tar.gz"))
	if err != nil {
		a.t.Fatal(err)
	}
	if err := os.WriteFile(stateArchive, raw, 0o644); err != nil {
		a.t.Fatal(err)
	}
}
