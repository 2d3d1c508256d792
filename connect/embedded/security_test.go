package embedded

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// onQueue runs the activity "work" on another queue.
func onQueue(ctx workflow.Context, queue string) (string, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue: queue, StartToCloseTimeout: time.Minute, HeartbeatTimeout: 30 * time.Second, WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
	})
	var answer string
	err := workflow.ExecuteActivity(ctx, "work").Get(ctx, &answer)
	return answer, err
}

// TestAgentDoesItsWork runs an agent with its own token: it gets tasks from its queue, heartbeats, answers, signals its run, and
// hears of a cancel at once.
func TestAgentDoesItsWork(t *testing.T) {
	s, token := start(t)
	owner := connect(t, s, string(token))
	ctx := bounded(t)
	w := newWorker(owner, "runs")
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	defer w.Stop()

	const queue = "node/run-1/fit/g1/0-x"
	agent := connect(t, s, token.MintAgentToken("node/run-1/", "run-1"))
	started, block := make(chan struct{}, 2), make(chan struct{})
	node := worker.New(agent, queue, worker.Options{DisableWorkflowWorker: true})
	node.RegisterActivityWithOptions(func(ctx context.Context) (string, error) {
		if err := agent.RecordActivityHeartbeat(ctx, activity.GetInfo(ctx).TaskToken, "at work"); err != nil {
			return "", err
		}
		started <- struct{}{}
		select {
		case <-block:
			return "done", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}, activity.RegisterOptions{Name: "work"})
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	defer node.Stop()

	// A cancel reaches the activity long before its next heartbeat is due.
	cancelled, err := owner.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: "run-1/cancelled", TaskQueue: "runs"}, onQueue, queue)
	if err != nil {
		t.Fatal(err)
	}
	<-started
	before := time.Now()
	if err := owner.CancelWorkflow(ctx, cancelled.GetID(), ""); err != nil {
		t.Fatal(err)
	}
	if err := cancelled.Get(ctx, nil); !temporal.IsCanceledError(err) {
		t.Errorf("the cancelled workflow returned %v, want a cancellation", err)
	}
	if took := time.Since(before); took > 5*time.Second {
		t.Errorf("the cancel took %v: it waited for a heartbeat", took)
	} else {
		t.Logf("cancel: %v", took)
	}

	run, err := owner.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: "run-1", TaskQueue: "runs"}, onQueue, queue)
	if err != nil {
		t.Fatal(err)
	}
	<-started
	if err := agent.SignalWorkflow(ctx, "run-1", "", "notice", nil); err != nil {
		t.Errorf("an agent must be able to signal its run: %v", err)
	}
	close(block)
	var got string
	if err := run.Get(ctx, &got); err != nil || got != "done" {
		t.Fatalf("the workflow returned %q, %v", got, err)
	}
}

// TestRefused: what an agent, or somebody without a token, must not be able to do.
func TestRefused(t *testing.T) {
	s, token := start(t)
	ctx := bounded(t)
	owner := connect(t, s, string(token))
	for _, id := range []string{"run-1", "run-10", "run-1/fit"} {
		if _, err := owner.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: "runs"}, nap, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	agent := token.MintAgentToken("node/run-1/", "run-1")
	calls := []struct {
		name string
		call func(workflowservice.WorkflowServiceClient) error
		ok   bool // for the agent
	}{
		{"start a workflow", func(c workflowservice.WorkflowServiceClient) error {
			_, err := c.StartWorkflowExecution(ctx, &workflowservice.StartWorkflowExecutionRequest{Namespace: "default", WorkflowId: "run-1"})
			return err
		}, false},
		{"terminate its own run", func(c workflowservice.WorkflowServiceClient) error {
			_, err := c.TerminateWorkflowExecution(ctx, &workflowservice.TerminateWorkflowExecutionRequest{Namespace: "default", WorkflowExecution: execution("run-1")})
			return err
		}, false},
		{"list workflows", func(c workflowservice.WorkflowServiceClient) error {
			_, err := c.ListWorkflowExecutions(ctx, &workflowservice.ListWorkflowExecutionsRequest{Namespace: "default"})
			return err
		}, false},
		{"signal its own run", signal(ctx, "run-1"), true},
		{"signal a child of its run", signal(ctx, "run-1/fit"), true},
		{"signal another run", signal(ctx, "run-10"), false},
		{"describe its own run", describe(ctx, "run-1/fit"), true},
		{"describe another run", describe(ctx, "run-10"), false},
		{"poll another run's queue", pollQueue(ctx, "node/run-10/fit/g1/0-x"), false},
		{"poll the worker's queue", pollQueue(ctx, "runs"), false},
		{"poll its queue by a partition's name", pollQueue(ctx, "/_sys/node/run-1/fit/1"), false},
		{"poll workflow tasks", func(c workflowservice.WorkflowServiceClient) error {
			_, err := c.PollWorkflowTaskQueue(ctx, &workflowservice.PollWorkflowTaskQueueRequest{Namespace: "default", TaskQueue: &taskqueuepb.TaskQueue{Name: "node/run-1/x"}})
			return err
		}, false},
		{"answer a made-up task of another run", func(c workflowservice.WorkflowServiceClient) error {
			_, err := c.RespondActivityTaskCompleted(ctx, &workflowservice.RespondActivityTaskCompletedRequest{Namespace: "default", TaskToken: taskToken(t, "run-10")})
			return err
		}, false},
		{"reach into the system namespace", func(c workflowservice.WorkflowServiceClient) error {
			_, err := c.DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: "temporal-system"})
			return err
		}, false},
		{"describe its namespace", func(c workflowservice.WorkflowServiceClient) error {
			_, err := c.DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: "default"})
			return err
		}, true},
	}
	for _, who := range []struct {
		name, token string
		agent       bool
	}{
		{"agent", agent, true},
		{"agent of another folder", Token(strings.Repeat("x", 43)).MintAgentToken("node/run-1/", "run-1"), false},
		{"forged agent", agent[:len(agent)-2] + "AA", false},
		{"stranger", "", false},
		{"browser", token.uiKey(), false},
	} {
		conn, err := dial(s.Address(), Token(who.token))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for _, call := range calls {
			err := call.call(workflowservice.NewWorkflowServiceClient(conn))
			allowed := who.agent && call.ok
			if allowed && err != nil || !allowed && status.Code(err) != codes.PermissionDenied {
				t.Errorf("%s: %s: got %v, want allowed %v", who.name, call.name, err, allowed)
			}
		}
	}
}

func signal(ctx context.Context, id string) func(workflowservice.WorkflowServiceClient) error {
	return func(c workflowservice.WorkflowServiceClient) error {
		_, err := c.SignalWorkflowExecution(ctx, &workflowservice.SignalWorkflowExecutionRequest{
			Namespace: "default", SignalName: "notice", WorkflowExecution: execution(id),
		})
		return err
	}
}

func describe(ctx context.Context, id string) func(workflowservice.WorkflowServiceClient) error {
	return func(c workflowservice.WorkflowServiceClient) error {
		_, err := c.DescribeWorkflowExecution(ctx, &workflowservice.DescribeWorkflowExecutionRequest{Namespace: "default", Execution: execution(id)})
		return err
	}
}

func pollQueue(ctx context.Context, queue string) func(workflowservice.WorkflowServiceClient) error {
	return func(c workflowservice.WorkflowServiceClient) error {
		_, err := c.PollActivityTaskQueue(ctx, &workflowservice.PollActivityTaskQueueRequest{
			Namespace: "default", TaskQueue: &taskqueuepb.TaskQueue{Name: queue, Kind: enums.TASK_QUEUE_KIND_NORMAL},
		})
		return err
	}
}

// TestPorts: everything listens on loopback, and but for the frontend and the UI no port talks to somebody without the certificate, which
// is another at each start and in no file.
func TestPorts(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	s, _ := startIn(t, mkdir(t, filepath.Join(temporary, "state")))
	known := map[int]bool{s.ports.Frontend: true, s.ports.UI: true}
	internal := 0
	for _, listening := range listeners(t) {
		if listening.ip != "0100007F" { // 127.0.0.1 in the kernel's notation
			t.Errorf("port %d listens on %s", listening.port, listening.ip)
		}
		if known[listening.port] {
			continue
		}
		internal++
		for name, creds := range map[string]credentials.TransportCredentials{
			"plain": insecure.NewCredentials(),
			"tls":   credentials.NewTLS(&tls.Config{InsecureSkipVerify: true}),
		} {
			conn, err := grpc.NewClient(address(listening.port), grpc.WithTransportCredentials(creds))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err = healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
			if status.Code(err) != codes.Unavailable {
				t.Errorf("%s call to internal port %d: got %v, want Unavailable", name, listening.port, err)
			}
		}
	}
	if internal < 3 { // internal frontend, history, matching
		t.Errorf("found %d internal ports: this test looks in the wrong place", internal)
	}

	mine := certificate(t, known)
	point, err := mine.PublicKey.(*ecdsa.PublicKey).Bytes() // the usual forms of the key have it, too
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(temporary, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rest, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the database's journals come and go
		}
		for written := rest; ; {
			if bytes.Contains(written, point) || bytes.Contains(written, mine.Raw) {
				t.Errorf("%s holds the certificate or the key of the internal ports", path)
			}
			var block *pem.Block
			if block, rest = pem.Decode(rest); block == nil {
				return err
			}
			written = block.Bytes
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, listening := range listeners(t) {
		known[listening.port] = true
	}
	again, _ := start(t)
	known[again.ports.Frontend], known[again.ports.UI] = true, true
	if certificate(t, known).Equal(mine) {
		t.Error("another start has the same certificate")
	}
}

// certificate is that of the first port of this process that is not among the known, and answers with one.
func certificate(t *testing.T, known map[int]bool) *x509.Certificate {
	t.Helper()
	dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: 10 * time.Second}, Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}}
	for _, listening := range listeners(t) {
		if known[listening.port] {
			continue
		}
		conn, err := dialer.DialContext(bounded(t), "tcp", address(listening.port))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.(*tls.Conn).ConnectionState().PeerCertificates[0]
	}
	t.Fatal("there is no internal port")
	return nil
}

type listener struct {
	ip   string
	port int
}

// listeners reads from /proc which TCP ports this process listens on.
func listeners(t *testing.T) []listener {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	mine := map[string]bool{}
	for _, fd := range fds {
		if target, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil {
			mine[target] = true
		}
	}
	var found []listener
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		data, err := os.ReadFile(table)
		if err != nil {
			continue // no IPv6 here
		}
		for _, line := range strings.Split(string(data), "\n")[1:] {
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != "0A" || !mine["socket:["+f[9]+"]"] { // 0A: listening
				continue
			}
			var l listener
			ip, port, _ := strings.Cut(f[1], ":")
			if _, err := fmt.Sscanf(port, "%X", &l.port); err != nil {
				t.Fatal(err)
			}
			l.ip = ip
			found = append(found, l)
		}
	}
	return found
}
