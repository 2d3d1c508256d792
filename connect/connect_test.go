package connect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/sluiceml/sluice/connect/embedded"
	"github.com/sluiceml/sluice/internal/testing/proctest"
)

// connectEnv makes the test binary a process that connects by the state folder it names, says whether it holds it, and waits for the
// end of its stdin.
const connectEnv = "SLUICE_TEST_CONNECT"

func init() {
	for _, name := range []string{"TEMPORAL_ADDRESS", "TEMPORAL_PROFILE", "TEMPORAL_CONFIG_FILE"} {
		os.Unsetenv(name) // of whoever runs the tests
	}
	if dir := os.Getenv(connectEnv); dir != "" {
		serve(dir)
		os.Exit(0)
	}
}

func options(dir string) Options {
	return Options{Dir: dir, Logger: slog.New(slog.DiscardHandler), ServerLogLevel: slog.LevelWarn}
}

func serve(dir string) {
	c, err := Dial(context.Background(), options(dir))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	if c.Holder != nil {
		fmt.Println("holder", c.Info.PID)
	} else {
		fmt.Println("attached", c.Info.PID)
	}
	io.Copy(io.Discard, os.Stdin)
}

// part is what a spawned process says of itself: its part, and the holder's PID.
func part(t *testing.T, p *proctest.Process) (part string, holder int) {
	t.Helper()
	line := p.Says()
	part, pid, _ := strings.Cut(line, " ")
	holder, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatalf("the process says %q", line)
	}
	return part, holder
}

// TestManyConnectAtOnce: of processes that connect by one folder at once, one starts the server and the others attach to it. When it
// is killed, the next one starts a server on the same ports, with the same workflows.
func TestManyConnectAtOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), ".sluice")
	processes := make([]*proctest.Process, 3)
	for i := range processes {
		processes[i] = proctest.Spawn(t, connectEnv, dir)
	}
	var first *proctest.Process
	parts, holders := map[string]int{}, map[int]bool{}
	for _, p := range processes {
		name, holder := part(t, p)
		parts[name]++
		holders[holder] = true
		if name == "holder" {
			first = p
		}
	}
	if parts["holder"] != 1 || parts["attached"] != 2 || len(holders) != 1 {
		t.Fatalf("parts %v with holders %v, want one holder and two attached to it", parts, holders)
	}

	attached := connect(t, dir)
	if attached.Holder != nil || attached.Info.PID != first.PID() {
		t.Errorf("attached to %+v as holder %v, want to process %d", attached.Info, attached.Holder != nil, first.PID())
	}
	run, err := attached.Client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "run-1", TaskQueue: "nobody"}, "anything")
	if err != nil {
		t.Fatal(err)
	}
	first.Kill()

	heir := connect(t, dir)
	if heir.Holder == nil {
		t.Fatalf("attached to %+v, a killed process", heir.Info)
	}
	if heir.Info.TemporalAddress != attached.Info.TemporalAddress || heir.Info.UIAddress != attached.Info.UIAddress {
		t.Errorf("addresses changed from %+v to %+v", attached.Info, heir.Info)
	}
	if _, err := heir.Client.DescribeWorkflowExecution(t.Context(), run.GetID(), run.GetRunID()); err != nil {
		t.Errorf("the workflow is lost: %v", err)
	}
}

func connect(t *testing.T, dir string) *Connection {
	t.Helper()
	c, err := Dial(t.Context(), options(dir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}

// TestSilentHolder: of a holder that does not answer is told while it is waited for, and at the end what to do.
func TestSilentHolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), ".sluice")
	p := proctest.Spawn(t, connectEnv, dir)
	part(t, p)
	if err := syscall.Kill(p.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	o := options(dir)
	o.Patience = sayAfter + time.Second
	var told []string
	o.Waiting = func(what string) { told = append(told, what) }
	_, err := Dial(t.Context(), o)
	if !errors.Is(err, ErrSilent) || !strings.Contains(err.Error(), fmt.Sprintf("`kill -CONT %d`", p.PID())) {
		t.Errorf("got %v, want ErrSilent with what to do", err)
	}
	if want := fmt.Sprintf("waiting for process %d, which holds the state folder %s, to answer; if it is stopped, `kill -CONT %[1]d` continues it", p.PID(), dir); len(told) != 1 || told[0] != want {
		t.Errorf("told %q, want %q", told, want)
	}
	if err := syscall.Kill(p.PID(), syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if c := connect(t, dir); c.Info.PID != p.PID() {
		t.Errorf("connected to process %d", c.Info.PID)
	}
}

// TestCluster connects by Temporal's own environment variables, to a server that happens to be ours.
func TestCluster(t *testing.T) {
	dir := t.TempDir()
	own := connect(t, dir)
	if own.WorkflowURL("run-1", "") == "" || own.MintAgentToken("node/run-1/", "run-1") == "" {
		t.Error("the holder has no workflow URL or agent token")
	}
	token, err := embedded.ReadToken(own.Info.TokenFile)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TEMPORAL_ADDRESS", own.Info.TemporalAddress)
	t.Setenv("TEMPORAL_GRPC_META_AUTHORIZATION", "Bearer "+string(token))

	c := connect(t, filepath.Join(dir, "unused"))
	if _, err := c.Client.WorkflowService().ListNamespaces(t.Context(), &workflowservice.ListNamespacesRequest{}); err != nil {
		t.Error(err)
	}
	if c.Holder != nil || c.Info.TemporalAddress != own.Info.TemporalAddress || c.Info.Namespace != "default" {
		t.Errorf("connected to %+v", c.Info)
	}
	if c.WorkflowURL("run-1", "") != "" || c.MintAgentToken("node/run-1/", "run-1") != "" {
		t.Error("a cluster has a workflow URL or an agent token of ours")
	}
	if _, err := os.Stat(filepath.Join(dir, "unused")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a state folder was made for a cluster: %v", err)
	}
}

func TestClusterUnreachable(t *testing.T) {
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody.Close()
	t.Setenv("TEMPORAL_ADDRESS", nobody.Addr().String())
	before := time.Now()
	_, err = Dial(t.Context(), options(t.TempDir()))
	if err == nil || !strings.Contains(err.Error(), nobody.Addr().String()) || !strings.Contains(err.Error(), "TEMPORAL_ADDRESS") {
		t.Errorf("got %v, want an error that names %s and TEMPORAL_ADDRESS", err, nobody.Addr())
	}
	if took := time.Since(before); took > 30*time.Second {
		t.Errorf("took %v", took)
	}
}

// TestStartFails: a failed start must give the folder free.
func TestStartFails(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	o := options(t.TempDir())
	o.UIPort = portOf(taken.Addr().String())
	_, err = Dial(t.Context(), o)
	if !errors.Is(err, embedded.ErrPortInUse) {
		t.Fatalf("got %v, want ErrPortInUse", err)
	}
	connect(t, o.Dir)
}
