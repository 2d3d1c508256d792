// Package pii finds personal data in text: e-mail addresses, telephone numbers, IP addresses, payment cards, bank accounts and what
// patterns of one's own match. It is pure, and conservative: what has a checksum must meet it, and digits that could be anything are
// left alone.
package pii

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Match is a piece of personal data in a text.
type Match struct {
	Kind       string
	Start, End int
	// Value is the same for all ways to write the same: an address in small letters, a number without separators.
	Value string
}

// finder yields the matches of one kind, in any order; they must not be empty.
type finder func(text string, yield func(start, end int, value string))

// finders by kind. Where matches of two kinds overlap, that of the kind that comes first here is taken. Those of numbers know ASCII alone.
var finders = []struct {
	kind    string
	find    finder
	numbers bool
}{
	{"email", findEmails, false},
	{"iban", findIBANs, true},
	{"card", findCards, true},
	{"ip", findIPs, true},
	{"phone", findPhones, true},
}

// Kinds are the kinds of personal data that are known by themselves.
func Kinds() []string {
	var names []string
	for _, f := range finders {
		names = append(names, f.kind)
	}
	return names
}

// Finder finds personal data of some kinds. It may be used from several goroutines.
type Finder struct {
	kinds []string
	finds []finder
	words int // so many of finds look at the text as it is, the others at its numbers in ASCII
}

// NewFinder returns a Finder for these kinds and for patterns (RE2) by the kinds they stand for, which go before the others.
func NewFinder(kinds []string, patterns map[string]string) (*Finder, error) {
	f := &Finder{}
	for kind := range patterns {
		f.kinds = append(f.kinds, kind)
	}
	slices.Sort(f.kinds)
	for _, kind := range f.kinds {
		if slices.Contains(Kinds(), kind) {
			return nil, fmt.Errorf("patterns: %s is already a built-in kind; give the pattern another name", kind)
		}
		p, err := regexp.Compile(patterns[kind])
		if err != nil {
			return nil, fmt.Errorf("patterns: %s: %w", kind, err)
		}
		if p.MatchString("") {
			return nil, fmt.Errorf("patterns: %s matches the empty string, which is everywhere", kind)
		}
		f.finds = append(f.finds, findPattern(p))
	}
	f.words = len(f.finds)
	for _, known := range finders {
		if slices.Contains(kinds, known.kind) {
			f.kinds, f.finds = append(f.kinds, known.kind), append(f.finds, known.find)
			if !known.numbers {
				f.words = len(f.finds)
			}
		}
	}
	for _, kind := range kinds {
		if !slices.Contains(f.kinds, kind) {
			return nil, fmt.Errorf("kinds: %q is not one of %s", kind, strings.Join(Kinds(), ", "))
		}
	}
	return f, nil
}

// Kinds are the kinds that the Finder finds.
func (f *Finder) Kinds() []string { return f.kinds }

// Find returns what there is in text, from the left to the right, without overlaps.
func (f *Finder) Find(text string) []Match {
	var all []Match
	var shifts []shift
	for i, find := range f.finds {
		if i == f.words {
			text, shifts = plainText(text)
		}
		known := len(all)
		find(text, func(start, end int, value string) {
			m := Match{f.kinds[i], before(shifts, start), before(shifts, end), value}
			if _, taken := slices.BinarySearchFunc(all[:known], m, overlap); !taken {
				all = append(all, m)
			}
		})
		if len(all) > known {
			slices.SortFunc(all, func(a, b Match) int { return cmp.Compare(a.Start, b.Start) })
		}
	}
	return all
}

// overlap orders matches, and calls those equal that share a byte.
func overlap(a, b Match) int {
	switch {
	case a.End <= b.Start:
		return -1
	case b.End <= a.Start:
		return 1
	}
	return 0
}

// Replace replaces each match in text by what with returns for it. What lies between matches stays as it is.
func Replace(text string, matches []Match, with func(Match) string) string {
	if len(matches) == 0 {
		return text
	}
	var b strings.Builder
	b.Grow(len(text))
	at := 0
	for _, m := range matches {
		b.WriteString(text[at:m.Start])
		b.WriteString(with(m))
		at = m.End
	}
	b.WriteString(text[at:])
	return b.String()
}

func findPattern(p *regexp.Regexp) finder {
	return func(text string, yield func(int, int, string)) {
		for _, m := range p.FindAllStringIndex(text, -1) {
			if m[0] < m[1] {
				yield(m[0], m[1], text[m[0]:m[1]])
			}
		}
	}
}
