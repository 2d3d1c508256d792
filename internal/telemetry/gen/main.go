// Gen writes docs/metrics.md from the table of metrics.
package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/template"

	"github.com/sluiceml/sluice/internal/telemetry"
)

//go:embed metrics.md.tmpl
var text string

func main() {
	page, err := render()
	if err == nil && len(os.Args) == 2 {
		err = os.WriteFile(os.Args[1], page, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// render is the page.
func render() ([]byte, error) {
	page, err := template.New("metrics.md").Funcs(template.FuncMap{"table": table}).Parse(text)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = page.Execute(&b, nil)
	return b.Bytes(), err
}

// table lists the metrics of a group, which all have some more labels.
func table(group string, more ...string) (string, error) {
	groups := telemetry.Groups()
	i := slices.IndexFunc(groups, func(g telemetry.Group) bool { return g.Name == group })
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
