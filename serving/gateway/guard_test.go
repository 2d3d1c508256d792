package gateway

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPagesAreRefused(t *testing.T) {
	b := newBench(t, 0)
	doc := b.route(t, nil, weightedBehaviour{"1", "echo", 1})
	b.untilServing(t, doc.Revision)
	const control = "/sluice/v1/targets/m"
	model, controller, metrics := readOnLoopback(b), b.Control(), onLoopback(b.Metrics())
	for _, tc := range []struct {
		door                     http.Handler
		name, method, path, host string
		header                   []string
		status                   int
	}{
		{model, "a client", "POST", inferPath, "127.0.0.1:8080", []string{"Content-Type", "application/json; charset=utf-8"}, 200},
		{model, "a client through a proxy", "POST", inferPath, "models.example.com", []string{"Content-Type", "application/json"}, 200},
		{model, "a page", "POST", inferPath, "127.0.0.1:8080", []string{"Content-Type", "application/json", "Origin", "https://example.com"}, 403},
		{model, "a page in a frame", "POST", inferPath, "127.0.0.1:8080", []string{"Content-Type", "application/json", "Origin", "null"}, 403},
		{model, "a page of a name that was rebound", "POST", inferPath, "example.com:8080", []string{"Content-Type", "application/json", "Origin", "http://example.com:8080"}, 403},
		{model, "a page that reads", "GET", "/v2/models/m", "127.0.0.1:8080", []string{"Origin", "https://example.com"}, 403},
		{model, "a page that reads from its own name", "GET", "/v2/models/m", "example.com:8080", nil, 403},
		{model, "a client that reads", "GET", "/v2/models/m", "localhost:8080", nil, 200},
		{model, "a load balancer", "GET", "/v2/health/ready", "models.example.com", nil, 200},
		{model, "a type that needs no leave", "POST", inferPath, "127.0.0.1:8080", []string{"Content-Type", "text/plain"}, 415},
		{model, "a client that names no type", "POST", inferPath, "127.0.0.1:8080", nil, 200},
		{model, "a page that names no type", "POST", inferPath, "127.0.0.1:8080", []string{"Origin", "https://example.com"}, 403},
		{controller, "control", "GET", control, "127.0.0.1:8080", nil, 200},
		{controller, "control over IPv6", "GET", control, "[::1]:8080", nil, 200},
		{controller, "control at localhost", "GET", control + "/stats", "localhost", nil, 200},
		{controller, "control from a page", "POST", control + "/reload", "127.0.0.1:8080", []string{"Origin", "https://example.com"}, 403},
		{controller, "reload through a proxy", "POST", control + "/reload", "models.example.com", nil, 403},
		{controller, "stats through a proxy", "GET", control + "/stats", "models.example.com", nil, 403},
		{controller, "state of a name that was rebound", "GET", control, "example.com:8080", nil, 403},
		{metrics, "metrics", "GET", "/metrics", "127.0.0.1:9464", nil, 200},
		{metrics, "metrics through a proxy", "GET", "/metrics", "models.example.com", nil, 403},
		{metrics, "metrics from a page", "GET", "/metrics", "127.0.0.1:9464", []string{"Origin", "https://example.com"}, 403},
		{metrics, "the model at the port of metrics", "POST", inferPath, "127.0.0.1:9464", []string{"Content-Type", "application/json"}, 404},
		{metrics, "control at the port of metrics", "GET", control, "127.0.0.1:9464", nil, 404},
		{controller, "metrics at the port of control", "GET", "/metrics", "127.0.0.1:9465", nil, 404},
		{controller, "reload", "POST", control + "/reload", "127.0.0.1:9464", nil, 202},
		{controller, "the model at the port of control", "POST", inferPath, "127.0.0.1:9464", []string{"Content-Type", "application/json"}, 404},
		{model, "control at the model's port", "GET", control, "127.0.0.1:8080", nil, 404},
		{model, "stats at the model's port", "GET", control + "/stats", "127.0.0.1:8080", nil, 404},
		{model, "reload at the model's port", "POST", control + "/reload", "127.0.0.1:8080", nil, 404},
		{model, "metrics at the model's port", "GET", "/metrics", "127.0.0.1:8080", nil, 404},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := httptest.NewRequest(tc.method, tc.path, strings.NewReader(request))
			r.Host = tc.host
			for i := 0; i+1 < len(tc.header); i += 2 {
				r.Header.Set(tc.header[i], tc.header[i+1])
			}
			w := httptest.NewRecorder()
			tc.door.ServeHTTP(w, r)
			if w.Code != tc.status {
				t.Errorf("%d %s, want %d", w.Code, w.Body, tc.status)
			}
		})
	}
}

func TestLabelsNeedTheKey(t *testing.T) {
	state := t.TempDir()
	key, err := EnsureLabelKey(state)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := EnsureLabelKey(state); err != nil || again != key {
		t.Fatalf("the key changes: %v", err)
	}
	if info, err := os.Stat(filepath.Join(state, "label.key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of the key: %v, %v, want that only its owner can read it", info, err)
	}
	b := newBench(t, 0)
	b.opts.LabelKey = key
	doc := b.route(t, nil, weightedBehaviour{"1", "echo", 1})
	b.untilServing(t, doc.Revision)
	labelled := strings.Replace(request, `{`, `{"parameters":{"label":0},`, 1)
	for _, tc := range []struct {
		name, body, authorization string
		status                    int
	}{
		{"with the key", labelled, LabelHeader(key), 200},
		{"with the scheme in other letters", labelled, "bearer " + key, 200},
		{"without", labelled, "", 401},
		{"with another", labelled, LabelHeader("x"), 401},
		{"no label", request, "", 200},
	} {
		if w := b.do(http.MethodPost, inferPath, tc.body, "Authorization", tc.authorization); w.Code != tc.status {
			t.Errorf("%s: %d %s, want %d", tc.name, w.Code, w.Body, tc.status)
		}
	}
	if c := b.Stats().At(doc.Revision).Versions["1"]; c.Requests != 3 || c.Wrong != 2 || c.Refused != 0 {
		t.Errorf("counts %+v", c)
	}
}
