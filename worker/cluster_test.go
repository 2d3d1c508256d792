package worker

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/connect"
	"github.com/sluiceml/sluice/connect/embedded"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/internal/fault"
)

// A namespace of somebody else's cluster lacks the search attributes. They are created once; who may not do so is told who has to
// do what.
func TestSearchAttributesOfACluster(t *testing.T) {
	s := session(t)
	const namespace = "bare"
	_, err := s.Client.WorkflowService().RegisterNamespace(t.Context(), &workflowservice.RegisterNamespaceRequest{
		Namespace: namespace, WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	cluster := &connect.Connection{Client: s.Client, Info: s.Info}
	cluster.Info.Namespace = namespace
	await(t, "search attributes in a new namespace", func() bool { // the server learns of the namespace in its own time
		if err := cluster.EnsureSearchAttributes(t.Context()); err != nil {
			t.Log(err)
			return false
		}
		known, err := s.Client.OperatorService().ListSearchAttributes(t.Context(), &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
		return err == nil && cmp.Equal(embedded.SearchAttributes(), known.GetCustomAttributes())
	})
	if err := cluster.EnsureSearchAttributes(t.Context()); err != nil {
		t.Errorf("a second time: %v", err)
	}

	token := s.MintAgentToken("node/r/", "r") // may do nothing of this
	weak, err := client.DialContext(t.Context(), client.Options{
		HostPort: s.Info.TemporalAddress, Namespace: s.Info.Namespace, HeadersProvider: bearer(token),
		Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(weak.Close)
	err = (&connect.Connection{Client: weak, Info: s.Info}).EnsureSearchAttributes(t.Context())
	if fault.TypeOf(err) != fault.Invalid || !strings.Contains(err.Error(), "temporal operator search-attribute create --namespace "+s.Info.Namespace) {
		t.Errorf("without the right to: %v, want an error that says what to run", err)
	}
}

// bearer puts a token on every call.
type bearer string

// GetHeaders implements client.HeadersProvider.
func (b bearer) GetHeaders(context.Context) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

// A cluster may lack the namespace that is asked for: a client says so and how to create it, and a worker that is told to creates it. The
// namespace can be used at once, and the second worker finds it there.
func TestNamespaceOfACluster(t *testing.T) {
	s := session(t)
	token, err := embedded.ReadToken(s.Info.TokenFile)
	if err != nil {
		t.Fatal(err)
	}
	const namespace = "fresh"
	t.Setenv("TEMPORAL_ADDRESS", s.Info.TemporalAddress)
	t.Setenv("TEMPORAL_NAMESPACE", namespace)
	t.Setenv("TEMPORAL_GRPC_META_AUTHORIZATION", "Bearer "+string(token))
	dir := t.TempDir()

	_, err = connect.Dial(t.Context(), connect.Options{Dir: dir, Logger: slog.New(slog.DiscardHandler), ServerLogLevel: slog.LevelWarn})
	if fault.TypeOf(err) != fault.Invalid || !strings.Contains(err.Error(), "namespace fresh does not exist at "+s.Info.TemporalAddress) ||
		!strings.Contains(err.Error(), "sluice worker --create-namespace") {
		t.Fatalf("without the namespace: %v, want an error that says that and how to create it", err)
	}
	for _, which := range []string{"first", "second"} {
		o := connect.Options{Dir: dir, Logger: slog.New(slog.DiscardHandler), ServerLogLevel: slog.LevelWarn}
		o.CreateNamespace = true
		c, err := connect.Dial(t.Context(), o)
		if err != nil {
			t.Fatalf("the %s that creates it: %v", which, err)
		}
		_, err = c.Client.DescribeTaskQueue(t.Context(), contract.TaskQueue, 0)
		if err != nil {
			t.Errorf("the %s cannot use it: %v", which, err)
		}
		if err := c.EnsureSearchAttributes(t.Context()); err != nil {
			t.Errorf("the %s: %v", which, err)
		}
		if err := control.StartRun(t.Context(), c.Client, contract.RunInput{Run: which, Name: "first"}); err != nil {
			t.Errorf("a run cannot be started at once: %v", err)
		}
		c.Client.Close()
	}
}
