package gateway

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestPagesAreRefused(t *testing.T) {
	b := newBench(t, 0)
	doc := b.route(t, nil, weightedBehaviour{"1", "echo", 1})
	b.untilServing(t, doc.Revision)
	const control = "/sluice/v1/targets/m"
	for _, tc := range []struct {
		name, method, path, host string
		header                   []string
		status                   int
	}{
		{"a client", "POST", inferPath, "127.0.0.1:8080", []string{"Content-Type", "application/json; charset=utf-8"}, 200},
		{"a client through a proxy", "POST", inferPath, "models.example.com", []string{"Content-Type", "application/json"}, 200},
		{"a page", "POST", inferPath, "127.0.0.1:8080", []string{"Content-Type", "application/json", "Origin", "https://example.com"}, 403},
		{"a page in a frame", "POST", inferPath, "127.0.0.1:8080", []string{"Content-Type", "application/json", "Origin", "null"}, 403},
		{"a page of a name that was rebound", "POST", inferPath, "example.com:8080", []string{"Content-Type", "application/json", "Origin", "http://example.com:8080"}, 403},
		{"a page that reads", "GET", "/v2/models/m", "127.0.0.1:8080", []string{"Origin", "https://example.com"}, 403},
		{"a type that needs no leave", "POST", inferPath, "127.0.0.1:8080", []string{"Content-Type", "text/plain"}, 415},
		{"no type", "POST", inferPath, "127.0.0.1:8080", nil, 415},
		{"control", "GET", control, "127.0.0.1:8080", nil, 200},
		{"control over IPv6", "GET", control, "[::1]:8080", nil, 200},
		{"control at localhost", "GET", control + "/stats", "localhost", nil, 200},
		{"control from a page", "POST", control + "/reload", "127.0.0.1:8080", []string{"Origin", "https://example.com"}, 403},
		{"reload through a proxy", "POST", control + "/reload", "models.example.com", nil, 403},
		{"stats through a proxy", "GET", control + "/stats", "models.example.com", nil, 403},
		{"state of a name that was rebound", "GET", control, "example.com:8080", nil, 403},
		{"metrics through a proxy", "GET", "/metrics", "models.example.com", nil, 403},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := httptest.NewRequest(tc.method, tc.path, strings.NewReader(request))
			r.Host = tc.host
			for i := 0; i+1 < len(tc.header); i += 2 {
				r.Header.Set(tc.header[i], tc.header[i+1])
			}
			w := httptest.NewRecorder()
			b.ServeHTTP(w, r)
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
		{"without", labelled, "", 401},
		{"with another", labelled, LabelHeader("x"), 401},
		{"no label", request, "", 200},
	} {
		if w := b.do(http.MethodPost, inferPath, tc.body, "Authorization", tc.authorization); w.Code != tc.status {
			t.Errorf("%s: %d %s, want %d", tc.name, w.Code, w.Body, tc.status)
		}
	}
	if c := b.Stats().At(doc.Revision).Versions["1"]; c.Requests != 2 || c.Wrong != 1 || c.Refused != 0 {
		t.Errorf("counts %+v", c)
	}
}
