package expr

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"

	"github.com/sluiceml/sluice/dsl/advice"
	"github.com/sluiceml/sluice/internal/suggest"
)

// Functions are the names of the functions and macros of the language, sorted. Operators have other names than they are written with.
var Functions = sync.OnceValues(func() ([]string, error) {
	env, err := baseEnv()
	if err != nil {
		return nil, err
	}
	var names []string
	for name := range env.Functions() {
		if !strings.ContainsAny(name, "_@!") || strings.Contains(name, ".") {
			names = append(names, name)
		}
	}
	for _, macro := range env.Macros() {
		names = append(names, macro.Function())
	}
	slices.Sort(names)
	return slices.Compact(names), nil
})

var (
	// called is a call up to its parenthesis: the namespace of the function, if it has one, and its name.
	called      = regexp.MustCompile(`(?:([a-z]+)\.)?(\w+)\s*$`)
	inNamespace = regexp.MustCompile(`^[a-z]+\.\w+\s*\(`)
)

// unknownFunction reports a call of a function that there is not, where message is of one. CEL reports it at the parenthesis, and what
// stands before the dot as well.
func (x *explainer) unknownFunction(message string, offset int) bool {
	m := undeclared.FindStringSubmatch(message)
	known, err := Functions()
	if m == nil || m[1] == "now" || err != nil {
		return false
	}
	text := []rune(x.e.Text)
	if offset >= len(text) {
		return false
	}
	if isNamespace(m[1], known) && inNamespace.MatchString(string(text[offset:])) {
		return true // its function is reported
	}
	if text[offset] != '(' {
		return false
	}
	before := string(text[:offset])
	at := called.FindStringSubmatchIndex(before)
	if at == nil || before[at[4]:at[5]] != m[1] {
		return false
	}
	name, start := m[1], at[4]
	if at[2] >= 0 && isNamespace(before[at[2]:at[3]], known) {
		name, start = before[at[2]:at[5]], at[2]
	}
	message = "unknown function `" + name + "`"
	if slices.Contains(known, name) {
		message = "`" + name + "` does not take these arguments"
	}
	x.e.Report(x.src, len([]rune(before[:start])), "function", cmp.Or(advice.Function(name, known), suggest.DidYouMean(name, known)), message)
	return true
}

// isNamespace reports whether functions have names that begin with it and a dot.
func isNamespace(name string, functions []string) bool {
	return slices.ContainsFunc(functions, func(f string) bool { return strings.HasPrefix(f, name+".") })
}

// findUnknownCalls finds where the arguments of unknown functions begin and end.
func (x *explainer) findUnknownCalls(issues *cel.Issues) {
	text := []rune(x.e.Text)
	for _, err := range issues.Errors() {
		offset := charOffset(x.e.Text, err.Location.Line(), err.Location.Column())
		if !undeclared.MatchString(err.Message) || offset >= len(text) || text[offset] != '(' {
			continue
		}
		depth, end := 0, offset
		for ; end < len(text); end++ {
			switch text[end] {
			case '(':
				depth++
			case ')':
				depth--
			}
			if depth == 0 {
				break
			}
		}
		x.unknown = append(x.unknown, [2]int{offset, end})
	}
}

// inUnknownCall reports whether an offset is among the arguments of an unknown function.
func (x *explainer) inUnknownCall(offset int) bool {
	return slices.ContainsFunc(x.unknown, func(call [2]int) bool { return offset > call[0] && offset < call[1] })
}
