package embedded

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
)

// TestUI opens a printed URL as a browser does, and knocks without the key.
func TestUI(t *testing.T) {
	s, token := start(t)
	c := connect(t, s, string(token))
	const id = "rollout/production" // a slash in the ID
	run, err := c.ExecuteWorkflow(bounded(t), client.StartWorkflowOptions{ID: id, TaskQueue: "none"}, nap, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	printed := token.WorkflowURL(s.UIAddress(), "default", id, run.GetRunID())
	if strings.Contains(printed, string(token)) {
		t.Error("the printed URL holds the token itself")
	}

	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser, stranger := &http.Client{Jar: jar, Timeout: 10 * time.Second}, &http.Client{Timeout: 10 * time.Second}
	api := "/api/v1/namespaces/default/workflows/" + url.PathEscape(id)
	for _, tc := range []struct {
		name, method, url string
		http              *http.Client
		header            http.Header
		status            int
		body              string
	}{
		{name: "no key", url: "/", http: stranger, status: 401, body: "URL that sluice prints"},
		{name: "no key, api", url: api, http: stranger, status: 401},
		{name: "no key, but a bearer", url: api, http: stranger, header: http.Header{"Authorization": {"Bearer " + string(token)}}, status: 401},
		{name: "wrong key", url: "/?key=abc", http: stranger, status: 401},
		{name: "printed URL", url: strings.TrimPrefix(printed, s.UIAddress()), http: browser, status: 200, body: `location.replace("/namespaces/default/workflows/rollout%2fproduction/` + run.GetRunID() + `/history")`},
		{
			name: "printed list", url: strings.TrimPrefix(token.WorkflowURL(s.UIAddress(), "default", "", ""), s.UIAddress()), http: browser, status: 200,
			body: `location.replace("/namespaces/default/workflows?query=workflowtype%3d%22sluice.pipeline%22")`,
		},
		{name: "page", url: "/namespaces/default/workflows", http: browser, status: 200, body: "<!doctype html>"},
		{name: "settings", url: "/api/v1/settings", http: browser, status: 200, body: "default"},
		{name: "namespaces", url: "/api/v1/namespaces", http: browser, status: 200, body: "default"},
		{name: "workflow", url: api, http: browser, status: 200, body: run.GetRunID()},
		{name: "stale bearer of a browser", url: api, http: browser, header: http.Header{"Authorization": {"Bearer x"}}, status: 200},
		{name: "raw history", url: api + "/run/" + run.GetRunID() + "/history.json", http: browser, status: 200, body: `"name":"nap"`},
		{name: "another site's page", method: "POST", url: api + "/terminate", http: browser, header: http.Header{"Sec-Fetch-Site": {"cross-site"}}, status: 403},
		{name: "another port's page", method: "POST", url: api + "/terminate", http: browser, header: http.Header{"Sec-Fetch-Site": {"same-site"}}, status: 403},
		{name: "terminate", method: "POST", url: api + "/terminate", http: browser, header: http.Header{"Sec-Fetch-Site": {"same-origin"}}, status: 200},
		{name: "no key, codec", method: "POST", url: "/codec/decode", http: stranger, status: 401},
		{name: "codec", method: "POST", url: "/codec/decode", http: browser, status: 200, body: "decoded /codec/decode"},
		{name: "codec of another site's page", method: "POST", url: "/codec/decode", http: browser, header: http.Header{"Sec-Fetch-Site": {"cross-site"}}, status: 403},
		{name: "codec in the settings", url: "/api/v1/settings", http: browser, status: 200, body: `"endpoint":"/codec"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			request, err := http.NewRequestWithContext(t.Context(), tc.method, s.UIAddress()+tc.url, strings.NewReader(""))
			if err != nil {
				t.Fatal(err)
			}
			for name, values := range tc.header {
				request.Header[name] = values
			}
			response, err := tc.http.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			if response.StatusCode != tc.status || !strings.Contains(strings.ToLower(string(body)), strings.ToLower(tc.body)) {
				t.Errorf("got %s\n%.300s\nwant %d with %q", response.Status, body, tc.status, tc.body)
			}
			if strings.Contains(string(body), token.uiKey()) {
				t.Error("the page that the browser goes to has the key")
			}
		})
	}
}
