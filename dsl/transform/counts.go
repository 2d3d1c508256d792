package transform

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
)

// Counts are the names that a cleaning counts by, under each of its outputs that counts by name, as far as they are known before it runs.
type Counts map[string]*KnownNames

// KnownNames are the names of what is counted under one output: all of them, or what they begin with.
type KnownNames struct{ Names, Prefixes []string }

// Has reports whether something may be counted under a name.
func (n *KnownNames) Has(name string) bool {
	return slices.Contains(n.Names, name) || slices.ContainsFunc(n.Prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// Counter is a transform's config that counts by more than its own name and the reasons why rows are rejected.
type Counter interface {
	// Counts adds the names that the transform with a label counts by.
	Counts(to Counts, label string, config *yaml.Node)
}

func (c Counts) add(output string, names ...string) {
	c[output].Names = append(c[output].Names, names...)
}

func (c Counts) addPrefix(output, prefix string) {
	c[output].Prefixes = append(c[output].Prefixes, prefix)
}

// Counts are the names that a cleaning counts by; nil when its transforms are not right.
func (g *Cleaning) Counts() Counts {
	if len(g.errors) > 0 || g.counts != nil {
		return g.counts
	}
	counts := Counts{"rules": {}, "reasons": {}, "splits": {}, "masked": {}, "profiles": {}}
	for at := range g.all {
		w := &g.all[at]
		counts.addPrefix("reasons", w.label()+"/")
		if transforms[w.typ].drops {
			counts.add("rules", w.label())
		}
		if t, ok := Config(w.typ).(Counter); ok {
			t.Counts(counts, w.label(), document.Lookup(g.nodes[at], "config"))
		}
		if w.writes() {
			counts.add("splits", g.parts(at)...)
		}
	}
	g.counts = counts
	return counts
}
