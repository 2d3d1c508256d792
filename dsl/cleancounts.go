package dsl

import (
	"encoding/json"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/nearest"
)

// zeroCounts are the outputs of a kind that count by name, with what a name stands for under which nothing was counted.
func zeroCounts(sp spec.Spec) map[string]json.RawMessage {
	if _, ok := sp.(*spec.Clean); ok {
		return map[string]json.RawMessage{"rules": json.RawMessage(`{"dropped":0}`), "reasons": json.RawMessage("0")}
	}
	return nil
}

// cleanCounts are the names that a cleaning counts by, as far as they are known before it runs: all of them, or what they begin with.
type cleanCounts struct{ names, prefixes []string }

func (n cleanCounts) has(name string) bool {
	return slices.Contains(n.names, name) || slices.ContainsFunc(n.prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// countsOf returns the names by output of a clean step; nil when its transforms are not right.
func (c *checker) countsOf(s *step) map[string]*cleanCounts {
	if known, ok := c.counts[s]; ok {
		return known
	}
	g := c.graphOf(s)
	if len(g.errors) > 0 {
		return nil
	}
	counts := map[string]*cleanCounts{"rules": {}, "reasons": {}, "splits": {}, "masked": {}, "profiles": {}}
	for at := range g.all {
		w, config := &g.all[at], document.Lookup(g.nodes[at], "config")
		counts["reasons"].prefixes = append(counts["reasons"].prefixes, w.label()+"/")
		counts["rules"].add(ruleNames(w, config))
		if w.writes() {
			counts["splits"].names = append(counts["splits"].names, g.parts(at)...)
		}
		if w.typ == "Profile" {
			counts["profiles"].names = append(counts["profiles"].names, w.label())
		}
		if w.typ == "MaskPII" {
			counts["masked"].names = append(counts["masked"].names, maskedKinds(config)...)
		}
	}
	c.counts[s] = counts
	return counts
}

func (n *cleanCounts) add(names, prefixes []string) {
	n.names, n.prefixes = append(n.names, names...), append(n.prefixes, prefixes...)
}

// ruleNames are the names that a transform counts the rows by that it drops, or what these begin with.
func ruleNames(w *wiring, config *yaml.Node) (names, prefixes []string) {
	switch w.typ {
	case "Combine", "Decontaminate", "Deduplicate", "Explode", "Filter", "Sample":
		return []string{w.label()}, nil
	case "DetectLanguage":
		if document.Lookup(config, "keep") != nil {
			return []string{w.label()}, nil
		}
	case "MaskPII":
		if action := document.Lookup(config, "action"); action != nil && action.Value == "drop" {
			return []string{w.label()}, nil
		}
	case "Exec":
		return nil, []string{w.label() + "/"}
	case "QualityFilter":
		own := ""
		if w.label() != w.typ {
			own = w.label() + "/"
		}
		for n := range document.Scalars(document.Lookup(config, "rules")) {
			prefixes = append(prefixes, own+n.Value+"/")
		}
	}
	return nil, prefixes
}

// maskedKinds are the kinds that a MaskPII counts.
func maskedKinds(config *yaml.Node) []string {
	var kinds []string
	for n := range document.Scalars(document.Lookup(config, "kinds")) {
		kinds = append(kinds, n.Value)
	}
	if len(kinds) == 0 {
		kinds = slices.Clone(piiKinds)
	}
	for name := range document.Entries(config, "patterns") {
		kinds = append(kinds, name.Value)
	}
	return kinds
}

// checkCounts reports counts of a cleaning that nothing counts, such as those of a rule whose name is misspelt.
func (c *checker) checkCounts(e *expr.Expression, s *step) {
	for _, r := range e.Refs {
		of, path := s, r.Path
		switch {
		case path[0].Name == "steps" && len(path) > 2:
			of, path = c.byID[path[1].Name], path[2:]
		case e.Scope != expr.ScopeGate && e.Scope != expr.ScopeUntil:
			continue
		}
		if of == nil || of.Kind != spec.KindClean || len(path) < 2 || path[1].Optional {
			continue
		}
		counts := c.countsOf(of)[path[0].Name]
		if name := path[1].Name; counts != nil && !counts.has(name) {
			hint := nearest.Hint(name, slices.Concat(counts.names, counts.prefixes))
			verb := "counts no "
			if path[0].Name == "profiles" {
				verb = "has no "
			}
			e.Report(c.src, max(strings.Index(e.Text, name), 0), "output", hint, "`"+of.ID+"` "+verb+path[0].Name+" by the name `"+name+"`")
		}
	}
}
