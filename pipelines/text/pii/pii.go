// Package pii finds personal data in text: e-mail addresses, telephone numbers, IP addresses, payment cards, bank accounts, and matches of
// the user's own patterns. It does no I/O. It is conservative: where there is a checksum it must be valid, and digits that could be
// anything are left alone.
package pii

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Match is an occurrence of personal data in a text.
type Match struct {
	Kind       string
	Start, End int
	// Value is the same for all spellings: an address in lower case, a number without separators.
	Value string
}

// finder yields the matches of one kind, in any order. Matches are never empty.
type finder func(text string, yield func(start, end int, value string))

// finders are the built-in kinds. If matches of two kinds overlap, the kind that comes first in this list wins. Finders of numbers need
// plainText.
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

// Kinds returns the built-in kinds of personal data.
func Kinds() []string {
	var names []string
	for _, f := range finders {
		names = append(names, f.kind)
	}
	return names
}

// Finder finds personal data of some kinds. It is safe for concurrent use.
type Finder struct {
	kinds []string
	finds []finder
	words int // this many of finds read the text unchanged, the others its plainText
}

// NewFinder returns a Finder for kinds, and for patterns (RE2) by the name of their kind. Patterns take precedence over built-in kinds.
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

// Kinds returns the kinds that the Finder finds.
func (f *Finder) Kinds() []string { return f.kinds }

// Find returns the matches in text, from left to right, without overlaps.
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

// overlap orders matches; matches that overlap compare as equal.
func overlap(a, b Match) int {
	switch {
	case a.End <= b.Start:
		return -1
	case b.End <= a.Start:
		return 1
	}
	return 0
}

// Replace replaces each match in text by the result of with. Text between matches is unchanged.
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
