package shell

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
)

// readers are programs that read their arguments as a shell would, or hand them on to one.
var readers = []string{
	"sh", "bash", "dash", "zsh", "ksh", "fish", "pwsh", "powershell", "ssh", "docker", "podman", "kubectl", "env", "expr", "test", "[", "awk", "perl", "ruby", "php",
	"node", "make", "envsubst", "jq", "yq", "parallel", "watch", "hyperfine",
}

// builtins are commands of a shell that are no programs, or do nothing as such.
var builtins = []string{
	"cd", "source", ".", "export", "ulimit", "alias", "set", "unset", "eval", "exec", "umask", "pushd", "popd", "module", "declare", "if", "for", "while", "[[",
}

// fileReaders are programs to whose arguments a pattern of names is nothing but a name.
var fileReaders = []string{
	"cat", "wc", "ls", "cp", "mv", "rm", "head", "tail", "sort", "gzip", "gunzip", "zcat", "zstd", "tac", "paste", "md5sum", "sha256sum", "touch", "chmod", "du",
}

// pipedTo are programs that read what another writes.
var pipedTo = []string{"wc", "grep", "egrep", "sed", "awk", "head", "tail", "sort", "uniq", "cut", "tr", "tee", "xargs", "jq", "gzip", "zstd", "less", "cat", "bash", "sh"}

var (
	// ofSluice is an expression, which is replaced before the program is started, or what has its form.
	ofSluice = regexp.MustCompile(`\$?\$\{[^}]*\}`)
	// variableRead is a variable at the beginning of a word or of a part of one, as a shell would expand it.
	variableRead   = regexp.MustCompile(`(?:^|[=/:,@ ])\$(\w+)`)
	capitals       = regexp.MustCompile(`^[A-Z][A-Z0-9_]+$`)
	substitution   = regexp.MustCompile(`\$\([a-z][\w-]*(?: [^)]*)?\)|^` + "`[a-z][^`]*`$")
	home           = regexp.MustCompile(`(?:^|=)~/`)
	redirection    = regexp.MustCompile(`^(?:&&|\|\||[0-9&]?>>?(?:&[0-9]|[\w./$-]*[a-z/][\w./$-]*)?|[<&\\])$`)
	ended          = regexp.MustCompile(`^(?:[\w./-]+\.(?:py|sh))?;$`)
	quoted         = regexp.MustCompile(`^'[^']*'$`)
	interpreter    = regexp.MustCompile(`^(python[0-9.]*|bash|sh|zsh|torchrun|Rscript)$`)
	scriptAndWords = regexp.MustCompile(`^([\w./-]+\.(?:py|sh|R)) +([^ ].*)$`)
	glued          = regexp.MustCompile(`^(--[a-z][\w-]*) +([^ ]+)$`)
)

// code are options that are followed by code of a language, and patternOptions those of file readers that are followed by a pattern.
var (
	code           = []string{"-c", "-e", "-r", "--eval"}
	patternOptions = []string{"-I", "--ignore", "--hide", "--exclude"}
)

// Variable finds a variable in a text that a shell would expand: one that it has for sure, since it is set for every program or isSet.
func Variable(text string, isSet func(name string) bool) (found string) {
	for _, m := range variableRead.FindAllStringSubmatch(withoutExpressions(text), -1) {
		if name := m[1]; isSet(name) || strings.HasPrefix(name, "SLUICE_") || slices.Contains([]string{"HOME", "PWD", "USER", "PATH"}, name) {
			return "$" + name
		}
	}
	return ""
}

// Substituted finds in a text what a shell would put the output of a command in the place of.
func Substituted(text string) string { return substitution.FindString(withoutExpressions(text)) }

// withoutExpressions is a text without what is replaced in it, and what is escaped: that is meant.
func withoutExpressions(text string) string { return ofSluice.ReplaceAllString(text, "x") }

// Check reports what a command has for a shell to read: there is none. isSet tells the variables that the program has, and exists the
// files of the workspace, where it is known.
func Check(r document.Reporter, command *yaml.Node, isSet func(variable string) bool, exists func(path string) bool) {
	words := document.Items(command)
	if len(words) == 0 || words[0].Kind != yaml.ScalarNode {
		return
	}
	if program := words[0].Value; !strings.HasPrefix(program, "${") && checkProgram(r, words, exists) {
		return
	}
	if m := scriptAndWords.FindStringSubmatch(words[min(1, len(words)-1)].Value); m != nil && !strings.Contains(m[2], "- ") && interpreter.MatchString(path.Base(words[0].Value)) {
		r.Warnf(words[1], "shell", "write "+m[1]+", "+strings.Join(strings.Fields(m[2]), ", "), "%q as a whole is taken as the name of the script", words[1].Value)
		return
	}
	for i, word := range words {
		if word.Kind != yaml.ScalarNode {
			continue
		}
		if slices.Contains(readers, path.Base(word.Value)) {
			return
		}
		if i > 0 && checkArgument(r, words, i, isSet) {
			return
		}
	}
}

// checkProgram reports a program that is none. exists is nil where the workspace is not known.
func checkProgram(r document.Reporter, words []*yaml.Node, exists func(string) bool) (found bool) {
	at, program := words[0], words[0].Value
	variable, value, sets := strings.Cut(program, "=")
	switch {
	case slices.Contains(builtins, program):
		r.Warnf(at, "shell", "use a `script`", "`%s` is a command of the shell, not a program", program)
	case isSeveralWords(program) && (exists == nil || !exists(program)):
		hint := "write [" + strings.Join(strings.Fields(program), ", ") + "], or use `script:` for a shell command"
		if len(words) > 1 && strings.Contains(words[1].Value, " ") {
			hint = "write each word as an item of its own, or use `script: |` for several commands"
		}
		r.Warnf(at, "shell", hint, "%q as a whole is taken as the name of a program", program)
	case home.MatchString(program), strings.HasPrefix(program, "$") && !strings.HasPrefix(program, "${"):
		r.Errorf(at, "shell", "write the whole path, or use a `script`", "a command is not run by a shell: `%s` is not expanded", program)
	case sets && variableSet.MatchString(program) && len(words) > 1:
		r.Errorf(at, "shell", "write `env: {"+variable+": \""+value+"\"}` at the step, and begin with the program", "a command is not run by a shell: `%s` is taken as the program", program)
	default:
		return false
	}
	return true
}

// isSeveralWords reports whether a program has a space in its name, or in what comes before a first slash.
func isSeveralWords(program string) bool {
	text := strings.TrimSpace(withoutExpressions(program))
	first, _, found := strings.Cut(text, " ")
	return found && (!strings.Contains(first, "/") || strings.Contains(path.Base(text), " "))
}

// checkArgument reports what only a shell would read in one argument.
func checkArgument(r document.Reporter, words []*yaml.Node, i int, isSet func(string) bool) (found bool) {
	at, before := words[i], words[i-1].Value
	word := withoutExpressions(at.Value)
	isValue := strings.HasPrefix(before, "-") // perhaps of an option, such as the character that separates columns
	known := func(name string) bool { return isSet(name) || capitals.MatchString(name) }
	unread := ""
	switch {
	case redirection.MatchString(word) && !isValue, word == "|" && i > 1 && i+1 < len(words) && (!isValue || slices.Contains(pipedTo, words[i+1].Value)):
		r.Warnf(at, "shell", "use a `script`", "a command is not run by a shell: `%s` is passed to the program as an argument", word)
		return true
	case ended.MatchString(word) && !slices.ContainsFunc(words[:i], func(n *yaml.Node) bool {
		return strings.HasPrefix(n.Value, "-exec") || strings.HasPrefix(n.Value, "-ok")
	}):
		r.Warnf(at, "shell", "write a step for each command, or use a `script`", "a command is not run by a shell: `;` does not end it")
		return true
	case slices.Contains(code, before): // code of a language, which may have all of these
	case Variable(at.Value, known) != "":
		unread = Variable(at.Value, known)
	case substitution.MatchString(word):
		unread = substitution.FindString(word)
	case home.MatchString(word):
		r.Warnf(at, "shell", "write the whole path", "a command is not run by a shell: `~` is not expanded")
		return true
	case quoted.MatchString(word):
		r.Warnf(at, "shell", "write "+strings.Trim(word, "'")+", in quotes of YAML alone", "a command is not run by a shell: the quotes in \"%s\" are part of the argument", word)
		return true
	case glued.MatchString(word) && word == at.Value:
		m := glued.FindStringSubmatch(word)
		r.Warnf(at, "shell", "write "+m[1]+", "+m[2]+", or "+m[1]+"="+m[2], "%q is passed to the program as one argument", word)
		return true
	case slices.Contains(fileReaders, path.Base(words[0].Value)) && strings.ContainsAny(word, "*?") && !strings.HasPrefix(word, "-") && !slices.Contains(patternOptions, before):
		unread = word
	}
	if unread != "" {
		r.Warnf(at, "shell", "use a `script`, or let the program read it", "a command is not run by a shell: `%s` is not expanded", unread)
	}
	return unread != ""
}
