package promquery

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/testing/promtest"
)

// fake answers queries as Prometheus's HTTP API does.
func fake(t *testing.T, status int, body string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/base/api/v1/query" || r.FormValue("query") != `max(psi{model="spam"})` {
			t.Errorf("asked for %s", r.URL)
		}
		w.WriteHeader(status)
		w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	return server.URL + "/base"
}

func TestAsk(t *testing.T) {
	vector := func(samples string) string {
		return `{"status":"success","data":{"resultType":"vector","result":[` + samples + `]}}`
	}
	one := `{"metric":{"model":"spam"},"value":[1767322800.5,"0.25"]}`
	tests := []struct {
		name   string
		status int
		body   string
		want   string // the value, "none", or the error's type and a part of it
	}{
		{"a vector", 200, vector(one), "0.25"},
		{"a scalar", 200, `{"status":"success","data":{"resultType":"scalar","result":[1767322800.5,"-3"]}}`, "-3"},
		{"infinite", 200, vector(`{"metric":{},"value":[1,"+Inf"]}`), "+Inf"},
		{"nothing", 200, vector(""), "none"},
		{"not a number", 200, vector(`{"metric":{},"value":[1,"NaN"]}`), "none"},
		{"two series", 200, vector(one + "," + one), "invalid: the result has 2 series"},
		{"a matrix", 200, `{"status":"success","data":{"resultType":"matrix","result":[]}}`, "invalid: the result is a matrix"},
		{"no query", 400, `{"status":"error","errorType":"bad_data","error":"parse error: unexpected end"}`, "invalid: parse error"},
		{"too slow", 503, `{"status":"error","errorType":"timeout","error":"query timed out"}`, `infrastructure: server error: 503: {"status":"error","errorType":"timeout","error":"query timed out"}`},
		{"something else", 404, "<html>not found</html>", "infrastructure: client error: 404: <html>not found</html>"},
		{"too much", 200, vector(strings.Repeat(" ", maxAnswer)), "infrastructure: bad_response"},
		{"text", 200, vector(`{"metric":{},"value":[1,"x"]}`), "infrastructure: bad_response"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			value, err := Ask(t.Context(), fake(t, tt.status, tt.body), `max(psi{model="spam"})`)
			got := "none"
			if value != nil {
				got = fmt.Sprintf("%v", *value)
			}
			if err != nil {
				_, what, _ := strings.Cut(fault.Message(err), "/base: ")
				got = fault.TypeOf(err) + ": " + what
			}
			if !strings.HasPrefix(got, tt.want) {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
	asked := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer other.Close()
	elsewhere := strings.Replace(other.URL, "127.0.0.1", "localhost", 1)
	redirects := httptest.NewServer(http.RedirectHandler(elsewhere, http.StatusFound))
	defer redirects.Close()
	_, err := Ask(t.Context(), redirects.URL, "up")
	if asked || fault.TypeOf(err) != fault.Infrastructure || !strings.Contains(err.Error(), "it redirects to localhost:") {
		t.Errorf("redirected to another host (asked: %v): %v", asked, err)
	}
	if _, err := Ask(t.Context(), "http://127.0.0.1:1", "up"); fault.TypeOf(err) != fault.Infrastructure {
		t.Errorf("nobody there: %v", err)
	}
	if _, err := Ask(t.Context(), "file:///etc/passwd", "up"); fault.TypeOf(err) != fault.Invalid {
		t.Errorf("another scheme: %v", err)
	}
}

// TestPrometheus asks a real server.
func TestPrometheus(t *testing.T) {
	base := promtest.Start(t)
	ask := func(query string) (*float64, error) {
		return Ask(t.Context(), base, query)
	}
	for query, want := range map[string]float64{"vector(0.25)": 0.25, "1 + 1": 2} {
		if value, err := ask(query); err != nil || value == nil || *value != want {
			t.Errorf("%s: got %v, %v", query, value, err)
		}
	}
	for _, query := range []string{"no_such_metric", "vector(0) / 0"} {
		if value, err := ask(query); err != nil || value != nil {
			t.Errorf("%s: got %v, %v, want no value", query, value, err)
		}
	}
	for _, query := range []string{"sum(", `label_replace(vector(1), "a", "b", "", "") or vector(2)`} {
		if _, err := ask(query); fault.TypeOf(err) != fault.Invalid {
			t.Errorf("%s: %v", query, err)
		}
	}
}
