package process

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/onnx"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/serving/servingtest"
	"github.com/sluiceml/sluice/store"
)

// What the test binary is when it is the command of a target: its first argument.
const (
	asInference = "as-inference" // a server of the Open Inference Protocol: MODEL PORT
	asPlain     = "as-plain"     // a server of HTTP that is healthy when there is a file: MODEL PORT FILE
)

func TestMain(m *testing.M) {
	var err error
	switch {
	case len(os.Args) == 4 && os.Args[1] == asInference:
		err = inference(os.Args[2], os.Args[3])
	case len(os.Args) == 5 && os.Args[1] == asPlain:
		err = plain(os.Args[2], os.Args[3], os.Args[4])
	default:
		goleak.VerifyTestMain(m)
		return
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func inference(model, port string) error {
	file, err := onnx.ModelFile(model)
	if err != nil {
		return err
	}
	session, err := onnx.Open(file)
	if err != nil {
		return err
	}
	return listen(model, port, servingtest.Routes(servingtest.Name, session))
}

func plain(model, port, file string) error {
	left := exec.Command("sleep", "600")
	left.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := left.Start(); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) {
		if _, err := os.Stat(file); err != nil {
			http.Error(w, "not yet", http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("/env", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, os.Environ()) })
	mux.HandleFunc("/left", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, left.Process.Pid) })
	fmt.Println("about to listen")
	return listen(model, port, mux)
}

// listen serves, and says its process beside the model.
func listen(model, port string, handler http.Handler) error {
	if err := os.WriteFile(pidFile(filepath.Dir(model)), []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return err
	}
	return http.ListenAndServe(net.JoinHostPort("127.0.0.1", port), handler) //nolint:gosec // a test's
}

func pidFile(home string) string { return filepath.Join(home, "pid") }

// pid is the process of a release; 0 while there is none.
func pid(dir, version string) int {
	raw, err := os.ReadFile(pidFile(filepath.Join(dir, "models", version)))
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(string(raw))
	if err != nil || !alive(n) {
		return 0
	}
	return n
}

func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func target(command ...string) spec.ProcessTarget {
	t := spec.DefaultsOf[spec.ProcessTarget]()
	t.Command = command
	t.Env = map[string]string{}
	for _, name := range []string{onnx.LibraryVariable, onnx.EnvironmentVariable} {
		if value := os.Getenv(name); value != "" {
			t.Env[name] = value
		}
	}
	return t
}

func serve(t *testing.T, s *store.Store, at spec.ProcessTarget, dir string, ports gateway.Ports) *gateway.Server {
	t.Helper()
	server, err := Serve(t.Context(), s, servingtest.Name, at, ports, dir, "", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return server
}

func TestConformance(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	servingtest.Run(t, func(t *testing.T, s *store.Store) servingtest.Harness {
		dir := t.TempDir()
		at := target(self, asInference, "${model.path}", "${port}")
		h := servingtest.Open(t, s, func(ports gateway.Ports) *gateway.Server { return serve(t, s, at, dir, ports) })
		h.Loaded = func() (loaded []string) {
			homes, err := filepath.Glob(filepath.Join(dir, "models", "*"))
			if err != nil {
				t.Error(err)
			}
			for _, home := range homes {
				if pid(dir, filepath.Base(home)) != 0 {
					loaded = append(loaded, filepath.Base(home))
				}
			}
			return loaded
		}
		return h
	})
}

// folder stores something that is no ONNX model.
func folder(t *testing.T, s *store.Store) artifact.Ref {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "weights"), []byte("1 2 3"), 0o600); err != nil {
		t.Fatal(err)
	}
	ref, err := s.PutTree(t.Context(), artifact.Model, dir, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

// TestKilled: a process that is killed comes back, before it was ever healthy and after, and so does one that hangs. It has nothing of the gateway's environment, and what
// it printed is in its log. Nothing of it is left when the gateway has ended.
func TestKilled(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	hungAfter = 3 * time.Second
	defer func() { hungAfter = time.Minute }()
	t.Setenv("SLUICE_TEST_TOKEN", "hidden")
	s, dir, healthy := servingtest.NewStore(t), t.TempDir(), filepath.Join(t.TempDir(), "healthy")
	at := target(self, asPlain, "${model.path}", "${port}", healthy)
	at.Protocol, at.Env["GIVEN"] = "http", "yes"
	server := serve(t, s, at, dir, gateway.Ports{})
	closed := false
	defer func() {
		if !closed {
			servingtest.Stop(t, server)
		}
	}()
	to := gateway.NewTarget(s, servingtest.Name, server.URL(), server.ControlURL())
	loaded := make(chan error, 1)
	go func() {
		doc, release, err := to.Load(t.Context(), 0, routing.Release{Model: folder(t, s), Run: "r", Step: "ship"}, nil)
		if err == nil {
			_, err = to.SetTraffic(t.Context(), doc.Revision, gateway.Split{Weights: map[string]float64{release.Version: 1}})
		}
		loaded <- err
	}()
	kill := func() {
		t.Helper()
		killed := 0
		servingtest.Until(t, "a process", func() bool { killed = pid(dir, "1"); return killed != 0 })
		if err := syscall.Kill(killed, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		servingtest.Until(t, "another process", func() bool { now := pid(dir, "1"); return now != 0 && now != killed })
	}
	kill()
	if err := os.WriteFile(healthy, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-loaded; err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	ask := func(path string) (int, string) {
		resp, err := client.Get(server.URL() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	if status, env := ask("/env"); status != http.StatusOK || strings.Contains(env, "hidden") || !strings.Contains(env, "GIVEN=yes") || !strings.Contains(env, "PATH=") {
		t.Errorf("%d: the process has %s", status, env)
	}
	kill()
	servingtest.Until(t, "an answer of the process that was killed", func() bool { status, _ := ask("/left"); return status == http.StatusOK })
	hung := pid(dir, "1")
	if err := syscall.Kill(hung, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	servingtest.Until(t, "a process in place of one that hangs", func() bool { now := pid(dir, "1"); return now != 0 && now != hung })
	if alive(hung) {
		t.Error("the process that hangs is still there")
	}
	var left int
	servingtest.Until(t, "an answer", func() bool {
		status, text := ask("/left")
		left, _ = strconv.Atoi(text)
		return status == http.StatusOK
	})
	closed = true
	last := pid(dir, "1")
	servingtest.Stop(t, server)
	if last == 0 || alive(last) || alive(left) {
		t.Errorf("process %d lives: %v; what it started, %d: %v", last, alive(last), left, alive(left))
	}
	log, err := os.ReadFile(filepath.Join(dir, "logs", "1.log"))
	if err != nil || strings.Count(string(log), "about to listen") != 4 {
		t.Errorf("the log of four processes: %q, %v", log, err)
	}
}

// TestNeverHealthy: why a process does not serve is in the error, with what it printed, and nothing stays.
func TestNeverHealthy(t *testing.T) {
	for want, command := range map[string][]string{
		"its server was never healthy: the process ended with exit code 3: no such GPU":           {"sh", "-c", "echo no such GPU >&2; exit 3"},
		"start no-such-server: executable file not found":                                         {"no-such-server"},
		"is not healthy after 500ms: the model is not ready: the model's server does not respond": {"sleep", "600"},
	} {
		s, dir := servingtest.NewStore(t), t.TempDir()
		at := target(command...)
		at.Protocol, at.ReadyWithin = "http", spec.Duration(500*time.Millisecond)
		if command[0] == "sh" {
			at.ReadyWithin = spec.Duration(time.Minute)
		}
		server := serve(t, s, at, dir, gateway.Ports{})
		to := gateway.NewTarget(s, servingtest.Name, server.URL(), server.ControlURL())
		_, _, err := to.Load(t.Context(), 0, routing.Release{Model: folder(t, s), Run: "r", Step: "ship"}, nil)
		if load, ok := errors.AsType[*gateway.LoadError](err); !ok || !strings.Contains(load.Reason, want) {
			t.Errorf("%v, want %q", err, want)
		}
		servingtest.Stop(t, server)
		if left, err := filepath.Glob(filepath.Join(dir, "models", "*")); err != nil || len(left) != 0 {
			t.Errorf("%q is left: %v", left, err)
		}
	}
}
