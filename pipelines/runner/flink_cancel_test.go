package runner_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluiceml/sluice/pipelines/runner"
)

// A job that ends between the look and the word to cancel has ended, as was asked.
func TestCancelOfAJobThatEnds(t *testing.T) {
	for _, status := range []int{http.StatusConflict, http.StatusNotFound} {
		var state atomic.Value
		state.Store("RUNNING")
		mux := http.NewServeMux()
		mux.HandleFunc("GET /jobs/overview", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"jobs": [{"jid": "1", "name": "mine-1", "state": %q}]}`, state.Load())
		})
		mux.HandleFunc("PATCH /jobs/1", func(w http.ResponseWriter, _ *http.Request) {
			state.Store("FINISHED")
			http.Error(w, "the job has already reached another terminal state", status)
		})
		server := httptest.NewServer(mux)
		defer server.Close()
		if err := runner.CancelFlink(t.Context(), strings.TrimPrefix(server.URL, "http://"), "mine"); err != nil {
			t.Errorf("status %d: %v", status, err)
		}
	}
}

func TestCancelIsRefused(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /jobs/overview", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"jobs": [{"jid": "1", "name": "mine-1", "state": "RUNNING"}]}`)
	})
	mux.HandleFunc("PATCH /jobs/1", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "not you", http.StatusForbidden) })
	server := httptest.NewServer(mux)
	defer server.Close()
	err := runner.CancelFlink(t.Context(), strings.TrimPrefix(server.URL, "http://"), "mine")
	if err == nil || !strings.Contains(err.Error(), "403") || !strings.Contains(err.Error(), "not you") {
		t.Errorf("got %v, want Flink's refusal", err)
	}
}
