package shell

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// Fault is what is wrong with code of bash, and where in it, in characters.
type Fault struct {
	Offset     int
	Text, Hint string
}

// Read is a variable that code reads, and where.
type Read struct {
	Name   string
	Offset int
}

// Unset returns the first read of each variable that the code itself neither sets nor has a default for, or what is wrong with the code.
// Where either cannot be told, it returns nothing.
func Unset(code string) ([]Read, *Fault) {
	if !isPlain(code) {
		return nil, nil
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(code), "")
	if err != nil {
		return nil, faultOf(code, err)
	}
	r := reader{code: code, set: map[string]bool{}, names: map[*syntax.Lit]bool{}}
	syntax.Walk(file, r.visit)
	if r.opaque {
		return nil, nil
	}
	var unset []Read
	for _, read := range r.reads {
		if !r.set[read.Name] {
			r.set[read.Name] = true
			unset = append(unset, Read{read.Name, utf8.RuneCountInString(code[:read.Offset])})
		}
	}
	return unset, nil
}

// Bounds on the code that is read: the parser calls itself for what is nested, and nobody nests as deep.
const (
	maxCode    = 16 << 10
	maxNesting = 50
)

func isPlain(code string) bool {
	depth := 0
	for i := range len(code) {
		switch code[i] {
		case '(', '{', '[':
			depth++
		case ')', '}', ']':
			depth = max(0, depth-1)
		}
		if depth > maxNesting {
			return false
		}
	}
	return len(code) <= maxCode
}

// lenient is in what the parser says of code that bash may run: it looks at arithmetic, indexes and names when it comes to them, and newer
// releases know more expansions.
var lenient = regexp.MustCompile("arithmetic|ternary|must follow|negate|inline variables|func name|nested|special parameter|UTF-8|@ expansion|@. expansion|\\(\\(|`\\[`|^[^\\[]*an expression$")

// wrongs are what the parser says is wrong, and what that is in our words, with what to do about it. The first that matches counts.
var wrongs = []struct {
	said       *regexp.Regexp
	text, hint string
}{
	{regexp.MustCompile("^(`.+`) statement must end with (`.+`)$"), "$1 has no $2", "write $2 where it ends"},
	{regexp.MustCompile("^reached .* without matching `{` with `}`$"), "`{` has no `}`", "close it, with `;` or the end of a line before `}`"},
	{regexp.MustCompile("^reached .* without matching (`.+`) with (`.+`)$"), "$1 has no $2", "close it, or quote it if it is meant literally"},
	{regexp.MustCompile("^reached .* without closing quote (.+)$"), "the quote $1 is not closed", "close it, or write a backslash before a quote that is meant literally"},
	{regexp.MustCompile("^unclosed here-document (.+)$"), "the here-document has no line $1", "write that line where it ends, alone and not indented more than the script"},
	{regexp.MustCompile("^`(if|elif) .*` must be followed by `then`$"), "`$1` has no `then`", "write `; then` after the condition"},
	{regexp.MustCompile("^`([a-z]+).*` must be followed by `(do|in)`$"), "`$1` has no `$2`", "write it, with `;` or the end of a line before `do`"},
	{regexp.MustCompile("^`(fi|else|elif)` can only be used .*$"), "there is no `if` with `then` before `$1`", "write `; then` after the condition"},
	{regexp.MustCompile("^`done` can only be used .*$"), "there is no loop with `do` before `done`", "write `; do` after the condition or the list"},
	{regexp.MustCompile("^`(.+)` must be followed by a statement(?: list)?$"), "`$1` has no command after it", "write one; `:` does nothing"},
	{regexp.MustCompile("^`([;&|]+)` can only immediately follow a statement$"), "`$1` has no command before it", "remove it"},
	{regexp.MustCompile(`^not a valid parameter expansion operator: "\\n"$`), "`$${` has no `}`", "close it, or put single quotes around it if it is not a variable"},
	{regexp.MustCompile("^not a valid parameter expansion operator.*$|^invalid parameter name$"), "this is not a valid expansion of a variable", "write `$${NAME}`, or put single quotes around it if it is not a variable"},
	{regexp.MustCompile("^a command can only contain .* encountered (`.`)$"), "$1 cannot be in a command", "quote it if it is meant literally"},
	{regexp.MustCompile("^`foo\\(` must be followed by `\\)`$"), "`(` after a word begins a function, and has no `)`", "quote it if it is meant literally"},
	{regexp.MustCompile("^.*$"), "$0", "`bash -n` says more"},
}

// faultOf is what a parser found wrong, unless bash may read it all the same.
func faultOf(code string, err error) *Fault {
	var parse syntax.ParseError
	if !errors.As(err, &parse) || lenient.MatchString(parse.Text) || strings.Contains(code, "${ ") || strings.Contains(code, "${|") {
		return nil
	}
	at := utf8.RuneCountInString(code[:min(int(parse.Pos.Offset()), len(code))])
	for _, w := range wrongs {
		if m := w.said.FindStringSubmatchIndex(parse.Text); m != nil {
			expand := func(template string) string { return string(w.said.ExpandString(nil, template, parse.Text, m)) }
			return &Fault{Offset: at, Text: expand(w.text), Hint: expand(w.hint)}
		}
	}
	return nil
}

// reader collects what code reads and sets.
type reader struct {
	code   string
	set    map[string]bool
	reads  []Read
	opaque bool // it may set any variable
	names  map[*syntax.Lit]bool
}

var (
	// named is a word that may name a variable for the command whose argument it is.
	named      = regexp.MustCompile(`^(?:-\w|\{)?([A-Za-z_]\w*)(?:$|[\[}=]|\+=)`)
	identifier = regexp.MustCompile(`[A-Za-z_]\w*`)
)

// withDefault are the operators of an expansion for a variable that may not be set.
var withDefault = []syntax.ParExpOperator{
	syntax.AlternateUnset, syntax.AlternateUnsetOrNull, syntax.DefaultUnset, syntax.DefaultUnsetOrNull,
	syntax.ErrorUnset, syntax.ErrorUnsetOrNull, syntax.AssignUnset, syntax.AssignUnsetOrNull,
}

// visit notes what a node of the code reads, sets, or may set.
func (r *reader) visit(n syntax.Node) bool {
	switch n := n.(type) {
	case *syntax.ParamExp:
		r.expand(n)
	case *syntax.Assign:
		r.opaque = r.opaque || n.Name == nil && n.Value != nil && n.Value.Lit() == "" // as declare "$name=1"
	case *syntax.CallExpr:
		r.call(n.Args)
	case *syntax.CoprocClause:
		if n.Name != nil {
			r.set[n.Name.Lit()+"_PID"] = true
		}
	case *syntax.SglQuoted: // perhaps code
		r.mention(n.Value)
	case *syntax.DblQuoted:
		for _, part := range n.Parts {
			if _, isText := part.(*syntax.Lit); !isText {
				syntax.Walk(part, r.visit)
			}
		}
		return false
	case *syntax.Lit:
		if m := named.FindStringSubmatch(n.Value); m != nil && !r.names[n] {
			r.set[m[1]] = true
		}
	}
	return true
}

func (r *reader) expand(n *syntax.ParamExp) {
	if n.Param == nil || !syntax.ValidName(n.Param.Value) {
		return
	}
	name := n.Param.Value
	r.names[n.Param] = true
	if n.Names != 0 || n.Index != nil || n.Exp != nil && slices.Contains(withDefault, n.Exp.Op) {
		r.set[name] = true
		return
	}
	r.reads = append(r.reads, Read{name, int(n.Pos().Offset())})
}

// call notes what a command sets of which the arguments are names, or code.
func (r *reader) call(words []*syntax.Word) {
	for len(words) > 1 && slices.Contains([]string{"builtin", "command"}, words[0].Lit()) {
		words = words[1:]
	}
	if len(words) == 0 {
		return
	}
	var text string
	for _, word := range words[1:] {
		text += " " + r.code[word.Pos().Offset():word.End().Offset()]
	}
	switch words[0].Lit() {
	case "eval", "source", ".", "alias", "module":
		r.opaque = true
	case "set":
		r.opaque = r.opaque || strings.Contains(text, " +") // perhaps +u
	case "shopt":
		r.opaque = r.opaque || strings.Contains(text, "nounset")
	case "read", "mapfile", "readarray", "getopts", "unset", "let":
		r.opaque = r.opaque || strings.Contains(text, "$")
		r.mention(text)
	case "printf":
		r.opaque = r.opaque || strings.HasPrefix(text, ` -v "$`) || strings.HasPrefix(text, " -v $")
	case "trap":
		r.mention(text)
	}
}

// mention takes every name in a text for one that may be set.
func (r *reader) mention(text string) {
	for _, name := range identifier.FindAllString(text, -1) {
		r.set[name] = true
	}
}

// bashVariables are those that bash sets itself, at its start or as it goes on.
var bashVariables = []string{
	"BASH", "BASHOPTS", "BASHPID", "COLUMNS", "COPROC", "DIRSTACK", "EPOCHREALTIME", "EPOCHSECONDS", "EUID", "FUNCNAME", "GROUPS", "HISTCMD", "HOSTNAME", "HOSTTYPE",
	"IFS", "LINENO", "LINES", "MACHTYPE", "MAPFILE", "OLDPWD", "OPTARG", "OPTERR", "OPTIND", "OSTYPE", "PIPESTATUS", "PPID", "PS4", "PWD", "RANDOM", "REPLY", "SECONDS",
	"SHELLOPTS", "SHLVL", "SRANDOM", "UID", "_",
}

// SetByBash reports whether bash sets a variable itself.
func SetByBash(name string) bool {
	return slices.Contains(bashVariables, name) || strings.HasPrefix(name, "BASH_") || strings.HasPrefix(name, "COPROC_")
}

// Replaced is a word of a command as bash gets it, with a word of as many characters in the place of each expression, and where its
// characters were.
func Replaced(word string) (code string, at func(offset int) int) {
	var escapes []int // where a $ was dropped
	dropped := 0
	code = ofSluice.ReplaceAllStringFunc(word, func(found string) string {
		if strings.HasPrefix(found, "$$") {
			return found
		}
		return strings.Repeat("X", utf8.RuneCountInString(found))
	})
	for {
		before, after, found := strings.Cut(code[dropped:], "$${")
		if !found {
			break
		}
		dropped += len(before)
		code = code[:dropped] + "${" + after
		escapes = append(escapes, utf8.RuneCountInString(code[:dropped]))
		dropped += len("${")
	}
	return code, func(offset int) int {
		for i, escape := range escapes {
			if offset <= escape {
				return offset + i
			}
		}
		return offset + len(escapes)
	}
}
