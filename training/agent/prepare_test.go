package agent

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/testing/s3test"
	"github.com/sluiceml/sluice/store"
)

// A node that cannot reach the store says so as one that is lost. What is not there is another matter.
func TestCutOff(t *testing.T) {
	s3test.Environment(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/xml")
		_, _ = io.WriteString(w, "<ListBucketResult></ListBucketResult>")
	}))
	away, err := store.Open(t.Context(), "s3://acme/?endpoint="+server.URL)
	server.Close()
	if err != nil {
		t.Fatal(err)
	}
	err = away.Patient(store.Patience{Limit: 300 * time.Millisecond}).GetJSON(t.Context(), "key", new(int))
	err = cutOff(fault.New(fault.Infrastructure, "fetch the workspace: "+err.Error(), err))
	if why := fault.Of(err); why.Type != fault.Preempted || !why.Final || !strings.HasPrefix(why.Message, "it cannot reach the store: fetch the workspace: ") {
		t.Errorf("it ends with %v, want that it cannot reach the store", err)
	}
	if err := cutOff(store.ErrNotFound); fault.TypeOf(err) != fault.Infrastructure {
		t.Errorf("what is not there is of type %q", fault.TypeOf(err))
	}
}
