package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// TestRefused: a request that is refused with 429 is repeated and counted, and another error ends a load.
func TestRefused(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch asked.Add(1) {
		case 1, 2:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		case 4:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	do, err := overREST(server.URL, mlp{width: 1})
	if err != nil {
		t.Fatal(err)
	}
	var refused atomic.Int64
	if err := do.insist(t.Context(), &refused); err != nil || refused.Load() != 2 {
		t.Errorf("%v after %d refusals", err, refused.Load())
	}
	if err := do.insist(t.Context(), &refused); err == nil || !strings.Contains(err.Error(), "503") || refused.Load() != 2 {
		t.Errorf("%v after %d refusals", err, refused.Load())
	}
}
