// Package quality evaluates whether a text looks like prose, by the published rules of Gopher, C4 and FineWeb. Their parameters, with the
// source of each number, are in transform.GopherRules, transform.C4Rules and transform.FineWebRules of package dsl/transform; the functions
// here define how they are measured. It does no I/O.
//
// Where the papers do not define a measure, it is the simplest one that needs no language model: words are separated by white space (in
// scripts without spaces, each letter is a word), lines by line feeds, and characters are Unicode code points.
package quality

import (
	"fmt"
	"slices"

	"github.com/sluiceml/sluice/dsl/transform"
)

// The names of the rule sets.
const (
	Gopher  = "gopher"
	C4      = "c4"
	FineWeb = "fineweb"
)

// Filter applies sets of rules to texts. It is safe for concurrent use.
type Filter struct {
	sets []set
}

// set is a set of rules. evaluate returns the text as edited by the rules, and the rule that it fails, or "".
type set struct {
	name     string
	rules    []string
	evaluate func(text string) (edited, failed string)
}

// New returns the filter for a config, whose parameters must be complete.
func New(c transform.QualityFilter) (*Filter, error) {
	if len(c.Rules) == 0 {
		return nil, fmt.Errorf("rules: name at least one of %s, %s and %s", Gopher, C4, FineWeb)
	}
	f := &Filter{}
	for i, name := range c.Rules {
		if slices.Contains(c.Rules[:i], name) {
			return nil, fmt.Errorf("rules: %s is listed twice", name)
		}
		s := set{name: name}
		switch name {
		case Gopher:
			g, err := newGopher(c.Gopher)
			if err != nil {
				return nil, err
			}
			s.rules, s.evaluate = gopherNames(), g.evaluate
		case C4:
			s.rules, s.evaluate = c4Names, c4{c.C4}.evaluate
		case FineWeb:
			s.rules, s.evaluate = fineWebNames, fineWeb{c.FineWeb}.evaluate
		default:
			return nil, fmt.Errorf("rules: %q is not one of %s, %s and %s", name, Gopher, C4, FineWeb)
		}
		f.sets = append(f.sets, s)
	}
	return f, nil
}

// Rules returns the names of all rules that texts may fail, in the order in which they are applied, such as gopher/stop_words.
func (f *Filter) Rules() []string {
	var names []string
	for _, s := range f.sets {
		for _, rule := range s.rules {
			names = append(names, s.name+"/"+rule)
		}
	}
	return names
}

// Evaluate returns the text as edited by the rules, and the first rule that it fails, or "" if it passes all.
func (f *Filter) Evaluate(text string) (edited, failed string) {
	for _, s := range f.sets {
		if text, failed = s.evaluate(text); failed != "" {
			return text, s.name + "/" + failed
		}
	}
	return text, ""
}

// share returns part / whole, or 0 if whole is 0.
func share(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
