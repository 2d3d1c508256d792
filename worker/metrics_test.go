package worker

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestMetrics: what the SDK and workflows count is at /metrics, under the names that Prometheus expects, and nothing listens when it is over.
func TestMetrics(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	m := newMetrics(log)
	m.sdk().WithTags(map[string]string{"status": "succeeded"}).Counter("sluice_runs").Inc(2)
	m.sdk().WithTags(map[string]string{"workflow-type": "sluice.train"}).Counter("sluice_train_steps").Inc(7)
	address := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	if err := m.listen(t.Context(), address, gateways(t, t.TempDir()), log); err != nil {
		t.Fatal(err)
	}
	await(t, "the counts", func() bool {
		text := get(t, "http://"+address+"/metrics")
		return strings.Contains(text, `sluice_runs_total{status="succeeded"} 2`) &&
			strings.Contains(text, `sluice_train_steps_total{workflow_type="sluice_train"} 7`) && strings.Contains(text, "go_goroutines")
	})
	if err := newMetrics(log).listen(t.Context(), address, gateways(t, t.TempDir()), log); err == nil || !strings.Contains(err.Error(), "--metrics-listen") {
		t.Errorf("a second one on the same address: %v", err)
	}
	if err := m.close(); err != nil {
		t.Error(err)
	}
	if _, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address); err == nil {
		t.Error("it listens when it is closed")
	}
}

// The page has each metric that the code names, and no other.
func TestMetricsAreDocumented(t *testing.T) {
	named := func(path, pattern string) (names []string) {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(raw), -1) {
			names = append(names, found[1])
		}
		return names
	}
	var code []string
	for _, counter := range named("../workflows/metrics.go", `"(sluice_\w+)"`) {
		code = append(code, counter+"_total")
	}
	code = append(code, named("../serving/gateway/metrics.go", `"(sluice_\w+)"`)...)
	page := named("../docs/metrics.md", "`(sluice_\\w+)`")
	slices.Sort(code)
	slices.Sort(page)
	if !slices.Equal(code, page) {
		t.Errorf("docs/metrics.md has %v\nthe code %v", page, code)
	}
}

// get is the body of an answer, empty when there is none.
func get(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return ""
	}
	return string(body)
}
