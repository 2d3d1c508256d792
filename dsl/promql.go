package dsl

import (
	"regexp"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/internal/suggest"
)

var (
	promWord     = regexp.MustCompile(`^\$[A-Za-z_]\w*$`)
	promVariable = regexp.MustCompile(`^\$(?:\{?[A-Za-z_]\w*\}?)?`)
	// promModifiers are what may follow a range and leaves it one.
	promModifiers = regexp.MustCompile(`^\s*((offset\s+-?\w+|@\s*(\d+(\.\d+)?|(start|end)\(\)))\s*)*$`)
	promClosing   = map[byte]byte{'(': ')', '[': ']', '{': '}'}
)

// queryMistake says what is wrong with a query that no server can answer with one number, and what to do; both are empty when it may be one.
// In the query, variables such as $candidate are replaced before it is asked.
func queryMistake(query string, variables ...string) (what, hint string) {
	var open []byte
	for i := 0; i < len(query); i++ {
		switch c := query[i]; c {
		case '"', '\'', '`':
			length := textLength(query[i:])
			if length < 0 {
				return "a text in the query has no closing " + string(c), ""
			}
			if name := query[i+1 : i+length-1]; len(variables) > 0 && promWord.MatchString(name) && !slices.Contains(variables, name) && !strings.Contains(query, "label_replace") {
				return "`" + name + "` stands for nothing in the query", suggest.Hint(name, variables)
			}
			i += length - 1
		case '#':
			if end := strings.IndexByte(query[i:], '\n'); end >= 0 {
				i += end
			} else {
				i = len(query)
			}
		case '$':
			if name := promVariable.FindString(query[i:]); !slices.Contains(variables, name) {
				return "Prometheus has no variables, and `" + name + "` is not replaced", "write what it stands for, such as [5m]"
			}
		case '(', '[', '{':
			open = append(open, promClosing[c])
		case ')', ']', '}':
			if len(open) == 0 || open[len(open)-1] != c {
				return "`" + string(c) + "` closes nothing in the query", ""
			}
			open = open[:len(open)-1]
			if c == ']' && len(open) == 0 && promModifiers.MatchString(query[i+1:]) {
				return "the query gives the values of a time, but must give one number", "write a function around it, such as max_over_time(...) or rate(...)"
			}
		}
	}
	switch {
	case len(open) > 0:
		return "the query has no closing `" + string(open[len(open)-1]) + "`", ""
	case strings.TrimSpace(query) == "":
		return "the query is empty", "write for example max(feature_psi)"
	}
	return "", ""
}

// textLength is the length of the quoted text that s begins with; negative when it has no end.
func textLength(s string) int {
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == s[0]:
			return i + 1
		case s[i] == '\\' && s[0] != '`':
			i++
		}
	}
	return -1
}
