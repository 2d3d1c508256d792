package pipelines

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/pipelines/meter"
	"github.com/sluiceml/sluice/pipelines/runner"
)

// Arg is the first argument of the child process. If a program's main sees it, it must call Main and do nothing else.
const Arg = "__clean"

// message is one line of the child's output. Exactly one field is set; the last message is a result or an error.
type message struct {
	Progress *meter.Progress   `json:"progress,omitempty"`
	Result   *spec.CleanOutput `json:"result,omitempty"`
	Error    *fault.Error      `json:"error,omitempty"`
	Log      []byte            `json:"log,omitempty"` // what the user's programs wrote to stderr
}

// WorkerMain runs the process as a Beam worker and exits, if a runner has started it as one. A program's main calls it before parsing its
// own arguments.
func WorkerMain() {
	if !runner.IsWorker(os.Args[1:]) {
		return
	}
	inWorker.Store(true)
	if err := runner.Work(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// progressEvery is the interval of progress messages.
const progressEvery = time.Second

// Main is the main function of the child process. It reads a Job as JSON from stdin and writes messages to stdout, one JSON object per
// line; the last one is the result or the error. Main also returns the error, so that the process exits with a nonzero code.
func Main(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	out := &messages{encoder: json.NewEncoder(stdout)}
	result, err := serve(ctx, stdin, out)
	if err != nil {
		return errors.Join(err, out.send(message{Error: fault.Of(err)}))
	}
	return out.send(message{Result: &result})
}

func serve(ctx context.Context, stdin io.Reader, out *messages) (spec.CleanOutput, error) {
	var job Job
	if err := json.NewDecoder(stdin).Decode(&job); err != nil {
		return spec.CleanOutput{}, fmt.Errorf("read the job: %w", err)
	}
	job.setDefaults()
	job.Programs.Log = out
	hold, err := holdFolder(job.WorkDir) // if the parent is killed, its lock is gone while this process still runs
	if err != nil {
		return spec.CleanOutput{}, fmt.Errorf("the work folder: %w", err)
	}
	defer hold.Close()
	// Beam's temporary files are removed with the work folder.
	if err := os.Setenv("TMPDIR", job.WorkDir); err != nil {
		return spec.CleanOutput{}, err
	}
	if !job.Runner.inProcess() { // the job must be canceled on the cluster
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, syscall.SIGTERM)
		defer stop()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stopGuard := guardMemory(int64(job.Memory), job.MemoryKey, cancel)
	defer stopGuard()
	if !beam.Initialized() {
		beam.Init()
	}
	stopProgress := func() {}
	result, err := execute(ctx, job, func(s *session) { stopProgress = out.progress(s) })
	stopProgress()
	return result, err
}

func (j *Job) setDefaults() {
	j.Memory, j.MemoryKey = cmp.Or(j.Memory, defaultMemory), cmp.Or(j.MemoryKey, defaultMemoryKey)
	if j.Parallelism <= 0 {
		j.Parallelism = runtime.GOMAXPROCS(0)
	}
}

// messages serializes writes of messages from several goroutines.
type messages struct {
	mu      sync.Mutex
	encoder *json.Encoder
}

func (m *messages) send(msg message) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.encoder.Encode(msg)
}

// Write sends output of a user's program.
func (m *messages) Write(text []byte) (int, error) { return len(text), m.send(message{Log: text}) }

// progress sends the session's progress periodically until the returned function is called, which sends it once more.
func (m *messages) progress(s *session) (stop func()) {
	send := func() {
		p := s.progress()
		_ = m.send(message{Progress: &p}) // if nothing reads stdout, sending the result fails too, and that error is returned
	}
	quit := every(progressEvery, send)
	return func() { quit(); send() }
}

// every calls f at the interval until the returned function is called, which waits for a running call to end.
func every(interval time.Duration, f func()) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.Tick(interval)
		for {
			select {
			case <-quit:
				return
			case <-ticker:
				f()
			}
		}
	}()
	return func() { close(quit); <-done }
}
