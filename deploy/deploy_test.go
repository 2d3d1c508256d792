// Package deploy holds configuration alone, and these tests of it.
package deploy

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/internal/telemetry"
	"github.com/sluiceml/sluice/internal/testing/rig"
)

// TestRules runs promtool, of Prometheus, on the tests of the alerts.
func TestRules(t *testing.T) {
	promtool, err := rig.Installed("prometheus", "promtool")
	if err != nil {
		rig.Skip(t, err)
	}
	if out, err := exec.CommandContext(t.Context(), promtool, "test", "rules", "prometheus/rules_test.yml").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// query is an expression and what is written with its labels: legends, summaries.
type query struct{ where, expr, text string }

// TestQueries holds dashboards and alerts to the table of metrics: they name no metric of Sluice's that there is not, and no label that
// none of the query's metrics has. Each alert has a test.
func TestQueries(t *testing.T) {
	metrics := map[string][]string{"up": {"job", "instance"}}
	for _, g := range telemetry.Groups() {
		for _, m := range g.Metrics {
			labels := append(m.LabelNames(), "namespace", "job", "instance")
			metrics[m.Name] = labels
			if m.Type == telemetry.Histogram {
				metrics[m.Name+"_bucket"] = append(labels, "le")
			}
		}
	}
	name := regexp.MustCompile(`\b(sluice_\w+|up)\b`)
	label := regexp.MustCompile(`\{\{(?: *\$labels\.)?(\w+) *\}\}|(\w+) *(?:=~|!=|!~|=)"`)
	grouping := regexp.MustCompile(`\bby \(([^)]*)\)`)
	for _, q := range append(panels(t), rules(t)...) {
		var labels []string
		foreign := strings.Contains(q.expr, "temporal_") || strings.Contains(q.expr, "service_latency") || strings.Contains(q.expr, "persistence_")
		for _, found := range name.FindAllString(q.expr, -1) {
			has, ok := metrics[found]
			if !ok {
				t.Errorf("%s: there is no metric %s", q.where, found)
			}
			labels = append(labels, has...)
		}
		if foreign {
			continue
		}
		if len(labels) == 0 {
			t.Errorf("%s: %s names no metric that is known here", q.where, q.expr)
		}
		var used []string
		for _, found := range label.FindAllStringSubmatch(q.expr+" "+q.text, -1) {
			used = append(used, found[1]+found[2])
		}
		for _, found := range grouping.FindAllStringSubmatch(q.expr, -1) {
			used = append(used, strings.Split(found[1], ", ")...)
		}
		for _, l := range used {
			if !slices.Contains(labels, l) {
				t.Errorf("%s: no metric of %s has the label %s", q.where, q.expr, l)
			}
		}
	}
}

// panels are the queries of all panels of the dashboards. Panels do not overlap.
func panels(t *testing.T) (queries []query) {
	t.Helper()
	paths, err := filepath.Glob("grafana/dashboards/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	for _, path := range paths {
		var dashboard struct {
			Panels []struct {
				ID      int
				Title   string
				Type    string
				GridPos struct{ X, Y, W, H int }
				Targets []struct{ Expr, LegendFormat string }
			}
		}
		raw, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(raw, &dashboard)
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		taken := map[[2]int]string{}
		for _, p := range dashboard.Panels {
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
						t.Fatalf("%s: the panel %q is where %q is, or too wide", path, p.Title, other)
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
			for _, target := range p.Targets {
				queries = append(queries, query{path + ": " + p.Title, target.Expr, target.LegendFormat})
			}
		}
	}
	return queries
}

// rules are those of the alerts.
func rules(t *testing.T) (queries []query) {
	t.Helper()
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations map[string]string
			}
		}
	}
	raw, err := os.ReadFile("prometheus/rules.yml")
	if err == nil {
		err = yaml.Unmarshal(raw, &file)
	}
	if err != nil {
		t.Fatal(err)
	}
	tests, err := os.ReadFile("prometheus/rules_test.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			queries = append(queries, query{"alert " + r.Alert, r.Expr, r.Annotations["summary"] + r.Annotations["description"]})
			if !strings.Contains(string(tests), "alertname: "+r.Alert+"\n") {
				t.Errorf("the alert %s has no test", r.Alert)
			}
		}
	}
	return queries
}
