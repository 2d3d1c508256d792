package tritontest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/internal/proc"
	"github.com/sluiceml/sluice/internal/testing/rig"
)

const (
	// startLimit bounds the start of a server, which takes a quarter of a second on an idle machine.
	startLimit = time.Minute
	// logLines is how much of what it says is kept: more than it says during the tests of a package.
	logLines = 100_000
)

// Server is NVIDIA's Triton Inference Server, which `make triton` installs, as a process. Its backends for ONNX models and for TensorRT
// engines are scripts/triton/model.py: ONNX Runtime in its Python backend.
type Server struct {
	// URL is that of its HTTP port, on loopback; it has no other port.
	URL string

	program string
	port    int
	o       Options
	log     *proc.Tail
	process *proc.Process
	left    []string // shared memory of one that was told to end
}

// Options say how a server is started.
type Options struct {
	// Repository is its model repository, as Triton names it.
	Repository string
	// Mode is its control mode; empty for explicit.
	Mode string
	// Args are further arguments.
	Args []string
	// Quiet has it write no line for each request, so that Calls knows none.
	Quiet bool
}

// Start starts a server that ends with a test. Without the program the test is skipped.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	s, err := Launch(context.WithoutCancel(t.Context()), o)
	if errors.Is(err, ErrMissing) {
		rig.Skip(t, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// ErrMissing says that the program is not installed.
var ErrMissing = errors.New("tritonserver is missing")

// Launch starts a server until it is stopped, or the process ends.
func Launch(ctx context.Context, o Options) (*Server, error) {
	program, err := rig.Program("triton", "tritonserver")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMissing, err)
	}
	s := &Server{program: program, o: o, log: proc.NewTail(logLines)}
	// Between the choice of a port and its use somebody else may take it.
	for range 5 {
		if s.port, err = freePort(ctx); err != nil {
			return nil, err
		}
		s.URL = "http://127.0.0.1:" + strconv.Itoa(s.port)
		if err = s.Again(ctx); err == nil || !strings.Contains(err.Error(), "already in use") {
			break
		}
	}
	return s, err
}

func freePort(ctx context.Context) (int, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// Again starts the server where it was, with nothing loaded, and returns when it is ready.
func (s *Server) Again(ctx context.Context) error {
	mode := s.o.Mode
	if mode == "" {
		mode = "explicit"
	}
	args := append([]string{
		"--model-repository=" + s.o.Repository, "--model-control-mode=" + mode, "--backend-config=default-max-batch-size=0",
		"--http-address=127.0.0.1", "--http-port=" + strconv.Itoa(s.port), "--allow-grpc=false", "--allow-metrics=false",
	}, s.o.Args...)
	if !s.o.Quiet {
		args = append(args, "--log-verbose=1")
	}
	said := proc.NewTail(20)
	process, err := proc.Start(context.WithoutCancel(ctx), proc.Command{Path: s.program, Args: args, Stdout: s.log, Stderr: both{s.log, said}})
	if err != nil {
		return err
	}
	s.process = process
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for range poll.Every(ctx, 20*time.Millisecond) {
		if _, err := s.ask(ctx, http.MethodGet, "/v2/health/ready"); err == nil {
			return nil
		}
		select {
		case <-process.Done():
			return fmt.Errorf("tritonserver ended:\n%s", said)
		default:
		}
	}
	s.Stop()
	return fmt.Errorf("tritonserver is not ready after %v:\n%s", startLimit, said)
}

// both writes to two.
type both [2]*proc.Tail

func (b both) Write(p []byte) (int, error) {
	_, _ = b[0].Write(p) // it never fails
	return b[1].Write(p)
}

// Stop kills the server, and returns when all that it has started is gone, and what that shared in memory.
func (s *Server) Stop() {
	shared := append(s.shared(), s.left...)
	s.process.Kill()
	_, _ = s.process.Wait() // it was killed
	for _, name := range shared {
		os.Remove(filepath.Join("/dev/shm", name))
	}
}

// End tells the server to end, and does not wait for that.
func (s *Server) End() error {
	s.left = s.shared()
	return s.process.Signal(syscall.SIGTERM)
}

// Freeze has the server hang, with its ports open; Thaw ends that.
func (s *Server) Freeze() error { return s.process.Signal(syscall.SIGSTOP) }

// Thaw is the end of Freeze.
func (s *Server) Thaw() error { return s.process.Signal(syscall.SIGCONT) }

// shared names what the processes of the Python backend share with the server, which they would remove if they were not killed with it.
func (s *Server) shared() (names []string) {
	processes, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range processes {
		raw, _ := os.ReadFile(path) // of one that has ended: empty
		args := strings.Split(string(raw), "\x00")
		if len(args) > 5 && filepath.Base(args[0]) == "triton_python_backend_stub" && args[5] == strconv.Itoa(s.process.PID()) {
			names = append(names, filepath.Base(args[2]))
		}
	}
	return names
}

// Loaded lists the models that are ready.
func (s *Server) Loaded(ctx context.Context) ([]string, error) {
	raw, err := s.ask(ctx, http.MethodPost, "/v2/repository/index")
	if err != nil {
		return nil, err
	}
	var index []struct{ Name, State string }
	if err := json.Unmarshal(raw, &index); err != nil {
		return nil, err
	}
	var names []string
	for _, m := range index {
		if m.State == "READY" {
			names = append(names, m.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// Load has the server load a model.
func (s *Server) Load(ctx context.Context, name string) error {
	_, err := s.ask(ctx, http.MethodPost, "/v2/repository/models/"+name+"/load")
	return err
}

// Unload has the server unload a model, as somebody else might.
func (s *Server) Unload(ctx context.Context, name string) error {
	_, err := s.ask(ctx, http.MethodPost, "/v2/repository/models/"+name+"/unload")
	return err
}

var call = regexp.MustCompile(`HTTP request: 2 /v2/repository/models/([^/]+)/(load|unload)"`)

// Calls lists what was asked of it for models whose names begin so: "load x".
func (s *Server) Calls(prefix string) (calls []string) {
	for _, found := range call.FindAllStringSubmatch(s.log.String(), -1) {
		if strings.HasPrefix(found[1], prefix) {
			calls = append(calls, found[2]+" "+found[1])
		}
	}
	return calls
}

// Loads counts how often it has begun to load a model.
func (s *Server) Loads(name string) int {
	return strings.Count(s.log.String(), `"loading: `+name+`:1"`)
}

func (s *Server) ask(ctx context.Context, method, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, s.URL+path, strings.NewReader("{}"))
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var raw bytes.Buffer
	if _, err = raw.ReadFrom(resp.Body); err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, raw.String())
	}
	return raw.Bytes(), err
}
