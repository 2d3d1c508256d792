package worker

import (
	"strings"
	"testing"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/connect/embedded"
)

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

	_, err = Connect(t.Context(), options(dir))
	if contract.ErrorType(err) != contract.ErrInvalid || !strings.Contains(err.Error(), "namespace fresh does not exist at "+s.Info.TemporalAddress) ||
		!strings.Contains(err.Error(), "sluice worker --create-namespace") {
		t.Fatalf("without the namespace: %v, want an error that says that and how to create it", err)
	}
	for _, which := range []string{"first", "second"} {
		o := options(dir)
		o.CreateNamespace = true
		c, err := Connect(t.Context(), o)
		if err != nil {
			t.Fatalf("the %s that creates it: %v", which, err)
		}
		_, err = c.Client.DescribeTaskQueue(t.Context(), contract.TaskQueue, 0)
		if err != nil {
			t.Errorf("the %s cannot use it: %v", which, err)
		}
		if err := (&Session{Connection: c}).ensureSearchAttributes(t.Context()); err != nil {
			t.Errorf("the %s: %v", which, err)
		}
		if err := StartRun(t.Context(), c.Client, contract.RunInput{Run: which, Name: "first"}); err != nil {
			t.Errorf("a run cannot be started at once: %v", err)
		}
		c.Client.Close()
	}
}
