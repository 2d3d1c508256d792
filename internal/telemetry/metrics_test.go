package telemetry

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"
)

var update = flag.Bool("update", false, "write docs/metrics.md anew")

// TestPage keeps docs/metrics.md what the table says; -update writes it.
func TestPage(t *testing.T) {
	const path = "../../docs/metrics.md"
	want := page(t)
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("docs/metrics.md is stale (%v): run `make generate`", err)
	}
}

func page(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/metrics.md.tmpl")
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := template.Must(template.New("").Funcs(template.FuncMap{"table": table}).Parse(string(text))).Execute(&b, nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// table lists the metrics of a group, which all have some more labels.
func table(group string, more ...string) (string, error) {
	groups := Groups()
	i := slices.IndexFunc(groups, func(g Group) bool { return g.Name == group })
	if i < 0 {
		return "", fmt.Errorf("there is no group %q", group)
	}
	var b strings.Builder
	b.WriteString("| metric | type | labels | |\n|---|---|---|---|\n")
	for _, m := range groups[i].Metrics {
		var labels []string
		for _, name := range more {
			labels = append(labels, "`"+name+"`")
		}
		for _, l := range m.Labels {
			label := "`" + l.Name + "`"
			if len(l.Values) > 0 {
				label += ": " + strings.Join(l.Values, ", ")
			}
			labels = append(labels, label)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, m.Type, strings.Join(labels, "; "), m.Help)
	}
	return b.String(), nil
}

// TestNames holds the table to Prometheus's conventions, but for Triton's names: counters end in _total, others do not, and no name is used twice.
func TestNames(t *testing.T) {
	var names []string
	for _, g := range Groups() {
		for _, m := range g.Metrics {
			names = append(names, m.Name)
			triton := strings.HasPrefix(m.Name, "nv_inference_") // whose counters have no suffix
			if !regexp.MustCompile(`^(sluice|nv_inference)_[a-z_]+$`).MatchString(m.Name) ||
				(m.Type == Counter && !triton) != strings.HasSuffix(m.Name, "_total") {
				t.Errorf("%s is no name for a %s", m.Name, m.Type)
			}
			if m.Help == "" || strings.HasSuffix(m.Help, ".") || strings.Contains(m.Help, "|") {
				t.Errorf("%s: help %q", m.Name, m.Help)
			}
		}
	}
	slices.Sort(names)
	if once := slices.Compact(slices.Clone(names)); !slices.Equal(once, names) {
		t.Errorf("names are used twice: %v", names)
	}
}
