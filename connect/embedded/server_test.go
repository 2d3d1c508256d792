package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"golang.org/x/sys/unix"

	"github.com/sluiceml/sluice/internal/testing/proctest"
)

// serveEnv makes the test binary a server with a worker on the folder it names, for the tests that kill one.
const serveEnv = "SLUICE_TEST_SERVE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(serveEnv); dir != "" {
		if err := serve(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serve runs until stdin ends, or until it is killed.
func serve(dir string) error {
	token, err := EnsureToken(dir)
	if err != nil {
		return err
	}
	s, err := Start(context.Background(), Options{Dir: dir, Token: token})
	if err != nil {
		return err
	}
	defer s.Stop()
	c, err := dialSDK(s.Address(), string(token))
	if err != nil {
		return err
	}
	defer c.Close()
	w := newWorker(c, "test")
	if err := w.Start(); err != nil {
		return err
	}
	defer w.Stop()
	fmt.Println(s.Address())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func newWorker(c client.Client, queue string) worker.Worker {
	w := worker.New(c, queue, worker.Options{})
	w.RegisterWorkflow(nap)
	w.RegisterWorkflow(chain)
	w.RegisterWorkflow(naps)
	w.RegisterWorkflow(onQueue)
	w.RegisterActivity(noop)
	return w
}

// nap sleeps, so that a server can be killed under it, and then needs an activity.
func nap(ctx workflow.Context, d time.Duration) (string, error) {
	if err := workflow.Sleep(ctx, d); err != nil {
		return "", err
	}
	return "woke", chain(ctx, 1)
}

// chain runs n activities one after the other.
func chain(ctx workflow.Context, n int) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	for range n {
		if err := workflow.ExecuteActivity(ctx, noop).Get(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

func noop(context.Context) error { return nil }

func naps(ctx workflow.Context, n int) error {
	for range n {
		if err := workflow.Sleep(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

func quiet() log.Logger { return log.NewStructuredLogger(slog.New(slog.DiscardHandler)) }

type headers map[string]string

func (h headers) GetHeaders(context.Context) (map[string]string, error) { return h, nil }

func dialSDK(address, token string) (client.Client, error) {
	return client.Dial(client.Options{
		HostPort: address, Logger: quiet(), HeadersProvider: headers{"authorization": "Bearer " + token},
	})
}

// start starts a server on a new folder.
func start(t testing.TB) (*Server, Token) {
	t.Helper()
	return startIn(t, t.TempDir())
}

func startIn(t testing.TB, dir string) (*Server, Token) {
	t.Helper()
	token, err := EnsureToken(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Start(t.Context(), Options{Dir: dir, Token: token, Codec: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "decoded", r.URL.Path)
	})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return s, token
}

func connect(t testing.TB, s *Server, token string) client.Client {
	t.Helper()
	c, err := dialSDK(s.Address(), token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func bounded(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestNamespaceIsSetUp(t *testing.T) {
	s, token := start(t)
	c := connect(t, s, string(token))
	ctx := bounded(t)

	ns, err := c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: "default"})
	if err != nil {
		t.Fatal(err)
	}
	if got := ns.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration(); got != 90*24*time.Hour {
		t.Errorf("retention is %v, want 90 days", got)
	}
	attributes, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: "default"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]enums.IndexedValueType{
		"SluicePipeline": enums.INDEXED_VALUE_TYPE_KEYWORD, "SluiceStep": enums.INDEXED_VALUE_TYPE_KEYWORD,
		"SluiceVerdict": enums.INDEXED_VALUE_TYPE_KEYWORD, "SluiceModel": enums.INDEXED_VALUE_TYPE_KEYWORD_LIST,
		"SluiceDataset": enums.INDEXED_VALUE_TYPE_KEYWORD_LIST,
	}
	if diff := cmp.Diff(want, attributes.GetCustomAttributes()); diff != "" {
		t.Errorf("search attributes (-want +got):\n%s", diff)
	}
}

// TestKilledServerGoesOn kills server and worker in the middle of a workflow's timer. The next server on the folder must finish it.
func TestKilledServerGoesOn(t *testing.T) {
	dir := t.TempDir()
	ctx := bounded(t)

	first := proctest.Spawn(t, serveEnv, dir)
	c, err := dialSDK(first.Says(), readToken(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: "sleeper", TaskQueue: "test"}, nap, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	awaitEvent(ctx, t, c, run, enums.EVENT_TYPE_TIMER_STARTED)
	c.Close()
	first.Kill()

	second := proctest.Spawn(t, serveEnv, dir)
	c, err = dialSDK(second.Says(), readToken(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var got string
	if err := c.GetWorkflow(ctx, run.GetID(), run.GetRunID()).Get(ctx, &got); err != nil {
		t.Fatal(err)
	}
	if got != "woke" {
		t.Errorf("the workflow returned %q, want %q", got, "woke")
	}
}

func awaitEvent(ctx context.Context, t *testing.T, c client.Client, run client.WorkflowRun, want enums.EventType) {
	t.Helper()
	events := c.GetWorkflowHistory(ctx, run.GetID(), run.GetRunID(), true, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		if err != nil {
			t.Fatal(err)
		}
		if event.GetEventType() == want {
			return
		}
	}
	t.Fatalf("the history ended without %v", want)
}

func readToken(t *testing.T, dir string) string {
	t.Helper()
	token, err := ReadToken(filepath.Join(dir, TokenFile))
	if err != nil {
		t.Fatal(err)
	}
	return string(token)
}

func TestPortInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, tc := range []struct {
		name    string
		options Options
	}{
		{"frontend", Options{FrontendPort: port(taken)}},
		{"ui", Options{UIPort: port(taken)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.options.Dir, tc.options.Token = t.TempDir(), "a token for a server that does not start"
			_, err := Start(t.Context(), tc.options)
			if want := fmt.Sprintf("port %d for ", port(taken)); !errors.Is(err, ErrPortInUse) || !strings.Contains(err.Error(), want) {
				t.Fatalf("Start returned %v, want ErrPortInUse for port %d", err, port(taken))
			}
		})
	}
}

func TestPreferredPorts(t *testing.T) {
	free, err := reserve("a test", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	free.release()
	l, err := listen("a test", 0, free.port)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if port(l) != free.port {
		t.Errorf("listening on %d, want the preferred %d, which is free", port(l), free.port)
	}
	other, err := listen("a test", 0, free.port)
	if err != nil {
		t.Fatalf("a preferred port that is taken must not be an error: %v", err)
	}
	other.Close()
}

// TestReservedPort: a port that was chosen for a service stays its own until the service listens, whoever looks for a free port meanwhile.
func TestReservedPort(t *testing.T) {
	reserved, err := reserve("a test", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reserved.release()
	peer, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()

	// The kernel is to choose from this one port. One older than Linux 6.3 chooses from all, and the test sees less.
	only := func(_, _ string, conn syscall.RawConn) error {
		return conn.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_LOCAL_PORT_RANGE, reserved.port<<16|reserved.port)
		})
	}
	listening, err := (&net.ListenConfig{Control: only}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err == nil {
		defer listening.Close()
		if port(listening) == reserved.port {
			t.Errorf("another listener was given the reserved port %d", reserved.port)
		}
	}
	conn, err := (&net.Dialer{Control: only}).DialContext(t.Context(), "tcp", peer.Addr().String())
	if err == nil {
		defer conn.Close()
		if conn.LocalAddr().(*net.TCPAddr).Port == reserved.port {
			t.Errorf("a connection was given the reserved port %d", reserved.port)
		}
	}

	l, err := listen("a test", reserved.port, 0)
	if err != nil {
		t.Fatalf("a listener cannot open on the port reserved for it: %v", err)
	}
	defer l.Close()
}

func TestStartWithoutToken(t *testing.T) {
	if _, err := Start(t.Context(), Options{Dir: t.TempDir()}); err == nil {
		t.Fatal("a server without a token started")
	}
}

// TestOddFolder: a folder's name must not be read as part of SQLite's URI.
func TestOddFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "50% of a#b?mode=memory &c")
	if _, err := openDatabase(mkdir(t, dir)); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(databasePath(dir))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the database has mode %04o, want 0600", info.Mode().Perm())
	}
}

// TestHalfSchema: a process was killed while it set up the schema.
func TestHalfSchema(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(databasePath(dir)+".new", []byte("half a schema"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openDatabase(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(databasePath(dir)); err != nil {
		t.Fatal(err)
	}
}

func mkdir(t *testing.T, dir string) string {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func BenchmarkStart(b *testing.B) {
	token := Token(strings.Repeat("t", 43))
	run := func(b *testing.B, dir func() string) {
		for b.Loop() {
			s, err := Start(b.Context(), Options{Dir: dir(), Token: token})
			if err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			if err := s.Stop(); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	}
	b.Run("cold", func(b *testing.B) { run(b, b.TempDir) })
	b.Run("warm", func(b *testing.B) { dir := b.TempDir(); run(b, func() string { return dir }) })
}

// BenchmarkChain is the price of a step: a workflow of 100 activities, one after the other, that do nothing.
func BenchmarkChain(b *testing.B) { benchmarkWorkflow(b, chain, 100, "ms/step") }

// BenchmarkTimers is how long a timer of a millisecond takes: a workflow that sets 20, one after the other.
func BenchmarkTimers(b *testing.B) { benchmarkWorkflow(b, naps, 20, "ms/timer") }

func benchmarkWorkflow(b *testing.B, what any, n int, unit string) {
	s, token := start(b)
	c := connect(b, s, string(token))
	w := newWorker(c, "bench")
	if err := w.Start(); err != nil {
		b.Fatal(err)
	}
	defer w.Stop()
	for b.Loop() {
		run, err := c.ExecuteWorkflow(b.Context(), client.StartWorkflowOptions{TaskQueue: "bench"}, what, n)
		if err != nil {
			b.Fatal(err)
		}
		if err := run.Get(b.Context(), nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N*n), unit)
}
