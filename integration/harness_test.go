package integration

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/serving/onnx"
	"github.com/sluiceml/sluice/serving/onnx/onnxtest"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// commandLimit bounds one command line, the longest run included.
const commandLimit = 3 * time.Minute

// sluicePath returns the sluice binary beside the agent's. It is built once, unless SLUICE_BIN named a folder that has it.
var sluicePath = sync.OnceValues(func() (string, error) {
	path := filepath.Join(filepath.Dir(agentPath), "sluice")
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	if out, err := exec.Command("go", "build", "-o", path, "github.com/sluiceml/sluice/cmd/sluice").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build sluice: %w\n%s", err, out)
	}
	return path, nil
})

// sandbox is a folder with a pipeline and a state folder of its own, and every process that works there.
type sandbox struct {
	site
	// project is the folder of the pipeline.
	project string
	// port is where the target of the pipeline's environment listens.
	port int
	env  []string
	// starter is what starts sluice, such as nohup, which becomes it; nil for nothing.
	starter []string
	// storeURL is the store of the pipeline's environment; empty for the state folder's own.
	storeURL string
}

// newSandbox copies the project testdata/<name>.
func newSandbox(t *testing.T, name string) *sandbox {
	t.Helper()
	s := copyProject(t, filepath.Join("testdata", name))
	s.edit("environment.yaml", "PORT", strconv.Itoa(s.port))
	return s
}

// copyProject makes a sandbox of a project's folder.
func copyProject(t *testing.T, folder string) *sandbox {
	t.Helper()
	s := emptySandbox(t, t.TempDir())
	if err := os.CopyFS(s.project, os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	return s
}

// emptySandbox makes a sandbox of a folder. When the test ends nothing may run in it any more.
func emptySandbox(t *testing.T, dir string) *sandbox {
	t.Helper()
	s := &sandbox{site: site{t: t, dir: dir, state: filepath.Join(dir, "state")}, project: filepath.Join(dir, "project"), port: freePort(t)}
	if err := os.MkdirAll(filepath.Join(dir, "tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.env = append(os.Environ(), "TMPDIR="+filepath.Join(dir, "tmp"), "SLUICE_AGENT="+agentPath, "SLUICE_STATE="+s.state,
		onnx.EnvironmentVariable+"="+pythonEnv(t))
	t.Cleanup(func() {
		s.nothingLeft()
		if t.Failed() {
			s.showLogs()
		}
	})
	return s
}

// newChain is a sandbox for the whole chain.
func newChain(t *testing.T) *sandbox {
	t.Helper()
	s := newSandbox(t, "chain")
	s.addTraining()
	return s
}

// addTraining adds a training script to the project, and a model that needs no training.
func (s *sandbox) addTraining() {
	s.t.Helper()
	script, err := os.ReadFile("testdata/trainer.py")
	if err != nil {
		s.t.Fatal(err)
	}
	write(s.t, filepath.Join(s.project, "trainer.py"), string(script))
	s.setModel(onnxtest.Text)
}

// spamEpochs is how long the tests train the example's model: long enough to be stopped in the midst of it, and to pass the gates.
const spamEpochs = "2"

// newSpam is a sandbox for the example, as it is but for what the clock decides: its pool loses no nodes by itself, and no latency of this
// machine, which other tests share, fails a gate or takes a model back.
func newSpam(t *testing.T) *sandbox {
	t.Helper()
	s := copyProject(t, "../examples/spam")
	s.edit("environment.yaml", "port: 8080", fmt.Sprintf("port: %d", s.port))
	s.edit("environment.yaml", ", interruptions: {mean_steps: 150, notice: 10s, without_notice: 50%}", "")
	s.edit("pipeline.yaml", "<= 1.5 * variants.fp32.latency.p50_ms", "<= 100.0 * variants.fp32.latency.p50_ms")
	s.edit("pipeline.yaml", "latency: {quantile: 0.99, ratio: 3.0}", "latency: {quantile: 0.99, ratio: 100.0}")
	return s
}

// newRelease is a sandbox for the release of a model.
func newRelease(t *testing.T) *sandbox {
	t.Helper()
	s := newSandbox(t, "release")
	s.setModel(onnxtest.Text)
	return s
}

// setModel makes a test model the project's model.onnx.
func (s *sandbox) setModel(model string) {
	s.t.Helper()
	raw, err := os.ReadFile(filepath.Join(onnxtest.Folder(s.t, model), "model.onnx"))
	if err != nil {
		s.t.Fatal(err)
	}
	write(s.t, filepath.Join(s.project, "model.onnx"), string(raw))
}

// pythonEnv is the Python environment that compile steps and gateways use.
func pythonEnv(t *testing.T) string {
	t.Helper()
	if env := os.Getenv(onnx.EnvironmentVariable); env != "" {
		return env
	}
	env, err := filepath.Abs("../.venv")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(env, "bin", "python3")); err != nil {
		t.Fatalf("there is no Python environment with ONNX Runtime: %v: `make setup` makes it", err)
	}
	return env
}

// edit replaces text in a file of the project; the text must be there.
func (s *sandbox) edit(file, old, replacement string) {
	s.t.Helper()
	path := filepath.Join(s.project, file)
	raw, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	if !bytes.Contains(raw, []byte(old)) {
		s.t.Fatalf("%s has no %q", file, old)
	}
	write(s.t, path, strings.ReplaceAll(string(raw), old, replacement))
}

// command is a sluice process.
type command struct {
	s      *sandbox
	cmd    *exec.Cmd
	stdout output
	stderr output
	done   chan struct{}
}

// output is what a process has written so far.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// start starts sluice in the project's folder. The test's end kills what is left of it.
func (s *sandbox) start(args ...string) *command {
	s.t.Helper()
	return s.startAs(s.starter, args...)
}

// startAs is start by another program, such as nohup, which becomes sluice.
func (s *sandbox) startAs(starter []string, args ...string) *command {
	s.t.Helper()
	path, err := sluicePath()
	if err != nil {
		s.t.Fatal(err)
	}
	args = slices.Concat(starter, []string{path}, args)
	c := &command{s: s, cmd: exec.Command(args[0], args[1:]...), done: make(chan struct{})}
	c.cmd.Dir, c.cmd.Env = s.project, s.env
	c.cmd.Stdout, c.cmd.Stderr = &c.stdout, &c.stderr
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	c.cmd.WaitDelay = time.Second
	if err := c.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() { c.cmd.Wait(); close(c.done) }()
	s.t.Cleanup(func() {
		c.cmd.Process.Kill()
		<-c.done
		if s.t.Failed() {
			s.t.Logf("%s: %s\n%s%s", strings.Join(args, " "), c.cmd.ProcessState, &c.stdout, &c.stderr)
		}
	})
	return c
}

// run starts `sluice run` of the project's pipeline with parameters, name=value.
func (s *sandbox) run(params ...string) *command {
	s.t.Helper()
	args := []string{"run", "pipeline.yaml", "-e", "environment.yaml"}
	for _, p := range params {
		args = append(args, "-p", p)
	}
	return s.start(args...)
}

// wait returns the exit code, -1 after a signal.
func (c *command) wait() int {
	c.s.t.Helper()
	select {
	case <-c.done:
	case <-time.After(commandLimit):
		c.s.t.Fatalf("%v does not end", c.cmd.Args)
	}
	return c.cmd.ProcessState.ExitCode()
}

// expect waits for an exit code.
func (c *command) expect(code int) *command {
	c.s.t.Helper()
	if got := c.wait(); got != code {
		c.s.t.Fatalf("%v ended with %d, want %d", c.cmd.Args, got, code)
	}
	return c
}

// says checks what the process has written; awaits waits for it to be written.
func (c *command) says(parts ...string) {
	c.s.t.Helper()
	all := c.stdout.String() + c.stderr.String()
	for _, part := range parts {
		if !strings.Contains(all, part) {
			c.s.t.Errorf("%v does not say %q", c.cmd.Args, part)
		}
	}
}

func (c *command) awaits(part string) {
	c.s.t.Helper()
	c.await(fmt.Sprintf("%q in the output", part), func() bool { return strings.Contains(c.stdout.String()+c.stderr.String(), part) })
}

// await is the sandbox's await, given up when the process ends.
func (c *command) await(what string, cond func() bool) {
	c.s.t.Helper()
	c.s.await(what, func() bool {
		ended := false
		select {
		case <-c.done:
			ended = true
		default:
		}
		met := cond()
		if ended && !met {
			c.s.t.Fatalf("%v has ended, and there was no waiting for %s any more", c.cmd.Args, what)
		}
		return met
	})
}

// awaitProcess waits for a process of the sandbox and returns the first whose command line holds all of parts.
func (c *command) awaitProcess(parts ...string) int {
	c.s.t.Helper()
	var found []int
	c.await(fmt.Sprintf("a process %q", parts), func() bool {
		found = c.s.processes(parts...)
		return len(found) > 0
	})
	return found[0]
}

// kill kills the process, and nothing else: what it started must go by itself.
func (c *command) kill() {
	c.s.t.Helper()
	kill(c.s.t, c.cmd.Process.Pid, syscall.SIGKILL)
	<-c.done
	c.s.nothingLeft()
}

// runID is the run that the process says it follows.
func (c *command) runID() string {
	c.s.t.Helper()
	c.awaits("run ")
	for line := range strings.Lines(c.stdout.String()) {
		_, after, found := strings.Cut(line, "run ")
		if found && !strings.HasPrefix(line, "http") {
			return strings.TrimSpace(after)
		}
	}
	c.s.t.Fatalf("%v names no run", c.cmd.Args)
	return ""
}

// shown is what the tests read of `sluice show --format json`.
type shown struct {
	Run, Pipeline, Status, Error string
	ErrorType                    string `json:"error_type"`
	Seconds                      float64
	Outputs                      map[string]any
	ReuseFrom                    string `json:"reuse_from"`
	Steps                        map[string]shownStep
}

type shownStep struct {
	Kind, Status, Error string
	ErrorType           string    `json:"error_type"`
	StartedAt           time.Time `json:"started_at"`
	EndedAt             time.Time `json:"ended_at"`
	Seconds             float64
	Verdict             spec.Verdict
	Checks              []spec.Check
	Attempts            struct {
		Total       int
		ByErrorType map[string]int `json:"by_error_type"`
		Failed      []record.Attempt
	}
	ReusedFrom string `json:"reused_from"`
	Outputs    json.RawMessage
}

// show returns the record of a run; without a name, of the newest.
func (s *sandbox) show(run ...string) shown {
	s.t.Helper()
	c := s.start(append([]string{"show", "--format", "json"}, run...)...).expect(0)
	var record shown
	if err := json.Unmarshal([]byte(c.stdout.String()), &record); err != nil {
		s.t.Fatalf("show: %v\n%s", err, &c.stdout)
	}
	return record
}

// decode reads a step's outputs.
func (step shownStep) decode(t *testing.T, out any) {
	t.Helper()
	if err := json.Unmarshal(step.Outputs, out); err != nil {
		t.Fatalf("outputs %s: %v", step.Outputs, err)
	}
}

// store opens the sandbox's store.
func (s *sandbox) store() *store.Store {
	s.t.Helper()
	opened, err := store.Open(s.t.Context(), cmp.Or(s.storeURL, "file://"+filepath.Join(s.state, "store")))
	if err != nil {
		s.t.Fatal(err)
	}
	return opened
}

// ledger counts the lines that programs of the pipeline have left in a file of the sandbox.
func (s *sandbox) ledger(file string) map[string]int {
	s.t.Helper()
	raw, err := os.ReadFile(filepath.Join(s.dir, file))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.t.Fatal(err)
	}
	counts := map[string]int{}
	for line := range strings.Lines(string(raw)) {
		counts[strings.TrimSpace(line)]++
	}
	return counts
}
