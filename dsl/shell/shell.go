// Package shell tells what a command starts, as far as that can be told without running it.
package shell

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// notPlain are the characters that make shell code more than plain words: quotes, expansions, redirections, groups, comments.
const notPlain = "'\"\\`(){}[]<>|*?~#!"

var (
	variable    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	variableSet = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)
	// listOperator is what separates the commands of a list of which all are run, or all until one fails.
	listOperator = regexp.MustCompile(`&&|;|\n`)
)

// IsVariable reports whether a variable can have this name.
func IsVariable(name string) bool { return variable.MatchString(name) }

// Started returns the programs with their words that a command is sure to start: what `env`, `exec` or `nohup` becomes, and the commands
// that a shell is given by -c. Of code that is more than a list of plain commands it knows nothing.
func Started(words []string) [][]string {
	words = behindWrappers(words)
	code, isCode := shellCode(words)
	if !isCode {
		return [][]string{words}
	}
	if strings.ContainsAny(code, notPlain) {
		return nil
	}
	var all [][]string
	for _, command := range listOperator.Split(code, -1) {
		words := strings.Fields(command)
		if len(words) > 0 && slices.Contains([]string{"if", "for", "while", "until", "case", "test", ".", "source"}, words[0]) {
			return nil // what follows may not be reached, or in another environment
		}
		all = append(all, behindWrappers(words))
	}
	return all
}

// behindWrappers are the words from the program on that takes the place of those before it; none where that cannot be told.
func behindWrappers(words []string) []string {
	for len(words) > 0 {
		switch base := path.Base(words[0]); {
		case variableSet.MatchString(words[0]), base == "exec", base == "nohup":
			words = words[1:]
		case base == "env":
			words = words[1:]
			if len(words) > 0 && words[0] == "-i" {
				words = words[1:]
			}
			if len(words) > 0 && strings.HasPrefix(words[0], "-") {
				return nil
			}
		default:
			return words
		}
	}
	return nil
}

// shellCode returns what a shell is given by -c.
func shellCode(words []string) (code string, ok bool) {
	if len(words) == 0 || !slices.Contains([]string{"sh", "bash", "dash", "zsh", "ksh"}, path.Base(words[0])) {
		return "", false
	}
	if i, _ := codeAt(words); i > 0 {
		return words[i], true
	}
	return "", false
}

// BashCode returns the index of the word that is code for bash, or a shell of which bash reads the code, and whether variables that are
// not set end it; 0 where there is none.
func BashCode(words []string) (at int, nounset bool) {
	own := behindWrappers(words)
	if len(own) == 0 || !slices.Contains([]string{"sh", "bash", "dash"}, path.Base(own[0])) {
		return 0, false
	}
	if at, nounset = codeAt(own); at > 0 {
		at += len(words) - len(own)
	}
	return at, nounset
}

// codeAt returns the index of the code among the words of a shell, and whether its options have it end at variables that are not set.
func codeAt(words []string) (at int, nounset bool) {
	for i := 1; i+1 < len(words); i++ {
		option := words[i]
		short := !strings.HasPrefix(option, "--")
		nounset = nounset || short && strings.Contains(option, "u")
		switch {
		case !strings.HasPrefix(option, "-"):
			return 0, false // a script, whose own words follow
		case short && strings.HasSuffix(option, "c"):
			return i + 1, nounset
		case strings.HasSuffix(option, "o"): // as in -euo pipefail
			i++
			nounset = nounset || words[i] == "nounset"
		}
	}
	return 0, false
}
