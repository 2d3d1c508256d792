package worker

import (
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
	cluster := &Session{Connection: &Connection{Client: s.Client, Info: s.Info}}
	cluster.Info.Namespace = namespace
	await(t, "search attributes in a new namespace", func() bool { // the server learns of the namespace in its own time
		if err := cluster.ensureSearchAttributes(t.Context()); err != nil {
			t.Log(err)
			return false
		}
		known, err := s.Client.OperatorService().ListSearchAttributes(t.Context(), &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
		return err == nil && cmp.Equal(contract.SearchAttributes(), known.GetCustomAttributes())
	})
	if err := cluster.ensureSearchAttributes(t.Context()); err != nil {
		t.Errorf("a second time: %v", err)
	}

	token := s.MintAgentToken("node/r/", "r") // may do nothing of this
	weak, err := client.DialContext(t.Context(), client.Options{
		HostPort: s.Info.TemporalAddress, Namespace: s.Info.Namespace, HeadersProvider: ownerHeaders(token),
		Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(weak.Close)
	err = (&Session{Connection: &Connection{Client: weak, Info: s.Info}}).ensureSearchAttributes(t.Context())
	if contract.ErrorType(err) != contract.ErrInvalid || !strings.Contains(err.Error(), "temporal operator search-attribute create --namespace "+s.Info.Namespace) {
		t.Errorf("without the right to: %v, want an error that says what to run", err)
	}
}
