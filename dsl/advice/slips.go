// Package advice has hints for what was written as in another language: how CEL writes what people write who come from Python, JavaScript,
// Jinja, Go, SQL or a shell, and how a duration is written. Nothing depends on it but the text of findings.
package advice

import (
	"regexp"
	"slices"
	"strings"
)

// slip is a way to write something that CEL writes in another. The first that matches the text is told.
type slip struct {
	text *regexp.Regexp
	hint string // $1 is what was captured
}

// syntaxSlips are looked for in what is no CEL.
var syntaxSlips = []slip{
	{regexp.MustCompile(`\bmetrics\.(\w+@\w+)`), "write metrics[\"$1\"]"},
	{regexp.MustCompile(`^\s*\{+\s*(.*?)\s*\}*\s*$`), "write one brace: `$${$1}`"},
	{regexp.MustCompile(`\$\{`), "this is inside of an expression already: write it without `$${` and `}`"},
	{regexp.MustCompile(`("[^"]*\\[dwsDWSB.+*?()\[\]|$^/-][^"]*"|'[^']*\\[dwsDWSB.+*?()\[\]|$^/-][^']*')`), "write `\\` twice, or a raw string: r$1"},
	{regexp.MustCompile(`[\x{a0}\x{200b}\x{200c}\x{2060}\x{feff}]`), "write plain spaces: there is a character in it that cannot be seen"},
	{regexp.MustCompile(`[“”‘’„]`), "write straight quotes: \" or '"},
	{regexp.MustCompile(`'[^'\n]*\n[^'\n]*'|"[^"\n]*\n[^"\n]*"`), "write `\\\\n`: in double quotes YAML reads `\\n` as a line break, which no string of CEL has"},
	{regexp.MustCompile(`=~`), "write text.matches(\"PATTERN\")"},
	{regexp.MustCompile(`(?i)\bis\b.*\b(?:none|null|nil|undefined)\b`), "a value that may be absent is read with `.?`, and has `.hasValue()`; a column of a row is compared with null: row.x != null"},
	{regexp.MustCompile(`\w\[[^\[\]?]*:[^\[\]]*\]`), "write list.slice(from, to), or text.substring(from, to)"},
	{regexp.MustCompile(`^\s*(?:return|if|unless|assert)\b`), "write the condition alone"},
	{regexp.MustCompile(`\w\?\.\w`), "write the `?` after the dot: last.?steps"},
	{regexp.MustCompile(`\|\s*(?:default|d|int|float|string|upper|lower|length|join|trim|replace|round)\b`), "CEL has functions in place of filters: .orValue(...), int(x), x.size(), text.upperAscii()"},
	{regexp.MustCompile(`\?\?|\?:|\w:-`), "read a value that may be absent with `.?`, and end with `.orValue(...)`"},
	{regexp.MustCompile(`\.\?(\w+)\(`), "a function is called with a plain dot: .$1(...)"},
	{regexp.MustCompile(`(?i)\bin\s*\(`), "write a list: x in ['a', 'b']"},
	{regexp.MustCompile(`(?i)\bnot\s+in\b`), "write `!(x in list)`"},
	{regexp.MustCompile(`\bIN\b`), "write `in`"},
	{regexp.MustCompile(`(?i)\b(contains|startsWith|endsWith|matches)\s+["']`), "it is a function of the text: text.contains('a')"},
	{regexp.MustCompile(`=>\s*[-\d.]`), "write `>=`"},
	{regexp.MustCompile(`=<`), "write `<=`"},
	{regexp.MustCompile(`(?:^|[\s(])-?(?:eq|ne|gt|ge|lt|le|gte|lte)\s|[≥≤≠]|=!`), "compare with `==`, `!=`, `<`, `<=`, `>` and `>=`"},
	{regexp.MustCompile(`^[^(]*=>`), "write `>=`"},
	{regexp.MustCompile(`^\s*lambda\s+(?:row|r|x|_)\s*:\s*(.*)`), "write the expression alone, with the row as `row`: $1"},
	{regexp.MustCompile(`=>|->|\blambda\b`), "write the variable, a comma and the expression: list.map(x, x.n)"},
	{regexp.MustCompile(`\bfor\b.*\bin\b`), "write list.map(x, ...), or list.filter(x, ...)"},
	{regexp.MustCompile(`\bif\b.*\belse\b`), "write condition ? a : b"},
	{regexp.MustCompile(`[=!]==`), "compare with `==` and `!=`"},
	{regexp.MustCompile(`(?i)\bbetween\b`), "write both comparisons: a <= x && x <= b"},
	{regexp.MustCompile(`(?i)\bi?like\b`), "write text.matches(\"PATTERN\"), text.startsWith(...) or text.contains(...)"},
	{regexp.MustCompile(`<>`), "write `!=`"},
	{regexp.MustCompile(`\*\*|\^`), "CEL has no power operator: multiply, or use math.sqrt"},
	{regexp.MustCompile(`[fF]["']`), "concatenate with `+`: \"n=\" + string(params.n)"},
	{regexp.MustCompile(`\d\s*%\s*(?:$|[)&|?:,*<>=])`), "write a share as a number: 0.05 for 5%"},
	{regexp.MustCompile("`"), "write names without backquotes, and strings in \" or '"},
	{regexp.MustCompile(`\b\d{1,3}(?:,\d{3})+\b|\d_\d`), "write a number without separators: 1000"},
	{regexp.MustCompile(`\b\d+(?:\.\d+)?(?:ms|s|m|min|h|d)\b`), "write duration(\"90s\"), with the units ms, s, m and h"},
	{regexp.MustCompile(`\b\d+(?:\.\d+)?\s?[kKMGT]i?[bB]?\b`), "write the number in full: 1000000"},
	{regexp.MustCompile(`\b\d+\.(?:$|[^\w.])`), "write a digit after the point: 5.0"},
	{regexp.MustCompile(`;\s*$`), "remove the `;`"},
	{regexp.MustCompile(`\$[a-zA-Z_]`), "write names without `$$`"},
	{regexp.MustCompile(`(\d+),(\d+)`), "write a decimal point: $1.$2"},
	{regexp.MustCompile(`[^=!<>]=[^=]`), "compare with `==`"},
	{regexp.MustCompile(`[^&]&[^&]|[^|]\|[^|]|\b(?i:and|or|not)\b`), "CEL writes `&&`, `||` and `!`"},
	{regexp.MustCompile(`\bhas\(\s*\w+\s*\)`), "name a field: has(params.x)"},
	{regexp.MustCompile(`\b(?:loop|forloop)\.`), "the value of an instance is `item`, or matrix.NAME, and its number `index`"},
	{regexp.MustCompile(`\?[^.:\[][^:]*$`), "write condition ? a : b"},
	{regexp.MustCompile(`^[^()\[\]{}]*(?:,|\n\s*\S)`), "join conditions with `&&`, or write a list of them"},
	{regexp.MustCompile(`\b(as|break|const|continue|else|for|function|if|import|let|loop|package|namespace|return|var|void|while)\b`), "`$1` is a reserved word in CEL: use another name"},
}

// Syntax is a hint for a text that is no CEL; empty where none is known.
func Syntax(text string) string {
	for _, s := range syntaxSlips {
		if m := s.text.FindStringSubmatchIndex(text); m != nil {
			return string(s.text.ExpandString(nil, s.hint, text, m))
		}
	}
	if strings.Count(text, `"`)%2 == 1 || strings.Count(text, "'")%2 == 1 {
		return "close the quote"
	}
	return ""
}

var unexpected = regexp.MustCompile(`^(?:mismatched input|extraneous input|no viable alternative at input|token recognition error at:) '(.*?)'(?: expecting .*)?$`)

// Parser is what CEL's parser says of a text that is no CEL, in plain words.
func Parser(message string) string {
	message, _, _ = strings.Cut(message, "\n")
	message = strings.TrimPrefix(message, "Syntax error: ")
	m := unexpected.FindStringSubmatch(message)
	switch {
	case m != nil && m[1] == "<EOF>":
		return "it ends too early"
	case m != nil && strings.TrimSpace(strings.Trim(m[1], `'"`)) == "":
		return "this is not expected here"
	case m != nil:
		return "`" + strings.TrimSpace(m[1]) + "` is not expected here"
	case strings.HasPrefix(message, "missing ')'"):
		return "it ends too early: `)` is missing"
	}
	return message
}

// nameHints are for names of other languages.
var nameHints = func() map[string]string {
	hints := map[string]string{}
	for words, hint := range map[string]string{
		"None nil NULL undefined NaN":                 "read a value that may be absent with `.?`, which has `.hasValue()` and `.orValue(...)`",
		"True TRUE yes on":                            "write `true`",
		"False FALSE no off":                          "write `false`",
		"env environ ENV os":                          "only programs have environment variables: they read $HOME, and those in the step's `env: {NAME: value}`",
		"always never all_done on_failure on_success": "how a step ended is a condition of `needs`: {STEP: ended}, passed or failed; steps under `finally` always run",
		"manual":                       "a step waits for a person with `approval: {}`",
		"github gitlab git ci CI":      "pass it as a parameter: `sluice run PIPELINE -p NAME=VALUE`",
		"each":                         "write `item`, and `index` for its number",
		"today ds execution_date date": "use `run.started_at`, or `run.scheduled_at`",
	} {
		for word := range strings.FieldsSeq(words) {
			hints[word] = hint
		}
	}
	return hints
}()

// functionHints are for functions of other languages.
var functionHints = func() map[string]string {
	hints := map[string]string{}
	for words, hint := range map[string]string{
		"any some":                          "CEL uses list.exists(x, ...)",
		"every":                             "write list.all(x, ...)",
		"len length count":                  "write x.size()",
		"str toString":                      "write string(...)",
		"float":                             "write double(...)",
		"max":                               "write math.greatest(a, b)",
		"min":                               "write math.least(a, b)",
		"round floor abs sqrt":              "write math.round(x), math.floor(x), math.abs(x) or math.sqrt(x)",
		"ceil":                              "write math.ceil(x)",
		"pow":                               "CEL has no power operator: multiply, or use math.sqrt",
		"lower toLower toLowerCase tolower": "write .lowerAscii()",
		"upper toUpper toUpperCase toupper": "write .upperAscii()",
		"strip":                             "write .trim()",
		"includes":                          "write .contains(...) for a string, `x in list` for a list",
		"default orElse getOrElse or_else unwrap": "end an optional with .orValue(...)",
		"range":                            "write lists.range(3)",
		"getenv env":                       "only programs have environment variables: they read $NAME, and those in the step's `env: {NAME: value}`",
		"inputPath inputUri outputPath":    "an artifact is given as `inputs: {NAME: \"${steps.STEP.OUTPUT}\"}`, and is in ${inputs.NAME.path}",
		"sum":                              "there is no sum: let a step's program add the values up and output the result",
		"isEmpty empty is_empty":           "write x.size() == 0",
		"defined isset exists":             "a value that may be absent is read with `.?`, and has .hasValue()",
		"strftime date datetime isoformat": timeText,
		"get getitem":                      "read a key that may be absent with [?'KEY'].orValue(...)",
		"weekday dayOfWeek day_of_week hour minute month year day": timeParts,
		"uuid uuid4 random rand":                                   "an expression has the same result when it is evaluated again: use run.id",
		"file read open readFile read_file":                        "expressions read no files: give the file to the step as an input",
		"json toJson tojson to_json toJSON dumps":                  "write json.encode(x)",
		"always success failure":                                   "write `needs: {STEP: ended}`, passed or failed, or put the step under `finally`",
	} {
		for word := range strings.FieldsSeq(words) {
			hints[word] = hint
		}
	}
	return hints
}()

// timeParts is the hint for what reads a part of a time.
const timeParts = "its parts are read with .getFullYear(), .getDayOfWeek(), .getHours() and the like, in UTC"

// timeText is the hint for what makes a text of a time.
const timeText = "write string(time), which is in RFC 3339; its date is string(time).substring(0, 10)"

// Field is a hint for a field of a value of a type that has none; empty where none is known.
func Field(of string) string {
	if of == "timestamp" {
		return timeParts
	}
	return ""
}

// Ending is a hint for a name by which other systems read how a step ended; empty where it is none.
func Ending(step, name string) string {
	switch name {
	case "status", "state", "outcome", "conclusion", "result", "exit_code", "succeeded", "success", "failed", "error":
		return "how a step ended is a condition of `needs`: `needs: {" + step + ": failed}`, or passed, not_failed or ended"
	}
	return ""
}

// Compared is a hint for a name that is compared and is not defined: it is likely a text without its quotes.
func Compared(name, text string) string {
	if regexp.MustCompile(`(?:[=!]=|\bin)\s*` + regexp.QuoteMeta(name) + `\s*(?:$|[)&|?])`).MatchString(text) {
		return "write a text in quotes: \"" + name + "\""
	}
	return ""
}

// Secret is a hint for an expression that reads a secret.
func Secret(name string) string {
	variable := strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
	if name == "KEY" {
		name = "NAME"
	}
	return "write `secrets: {" + variable + ": " + name + "}` at the step, with the name of a secret of the environment; its program reads $" + variable
}

// Name is a hint for a name of another language or system; empty where none is known.
func Name(name string) string { return nameHints[name] }

// Function is a hint for a function that there is not, or not with these arguments; empty where none is known.
func Function(name string, known []string) string {
	if hint := functionHints[name]; hint != "" {
		return hint
	}
	if slices.Contains(known, name) { // a macro that lacks its variable
		return "name a variable first: ." + name + "(x, ...), with x in the expression"
	}
	return ""
}

// Artifact says how a program gets an artifact whose path is meant, or a gate what was measured of it: path leads to the artifact, which
// is an input, or an output of the gate's own step.
func Artifact(path, name string, input, own bool) string {
	name = strings.NewReplacer("-", "_", ".", "_").Replace(name)
	switch {
	case input:
		return "write ${" + path + ".path}"
	case own:
		return "a gate reads numbers and strings: let the program write what it measures to outputs.json, and declare `outputs: {NAME: {type: int}}`"
	}
	return "give it to the step as an input, `inputs: {" + name + ": \"${" + strings.ReplaceAll(path, `"`, "'") + "}\"}`, and write ${inputs." + name + ".path}"
}

var (
	number        = regexp.MustCompile(`\d+`)
	justDate      = regexp.MustCompile(`^\d{4}-\d\d-\d\d$`)
	shortDuration = regexp.MustCompile(`^\d+ ?[a-z]+$`)
	textInside    = regexp.MustCompile(`["']([^"']*)["']`)
	equalsBool    = regexp.MustCompile(`[!=]=\s*(?:true|false)\b|\b(?:true|false)\s*[!=]=`)
	columnEnd     = regexp.MustCompile(`\brow\.\w+\s*$`)
	columnAt      = regexp.MustCompile(`^[-+*/%=!<>]+\s*(row\.\w+)`)
)

// Column is a hint for a column of a row that is a string, and stands at an operator with what is none; empty where there is no such
// column. The columns of a CSV file are strings.
func Column(operands, before, after string) string {
	name, other := "", ""
	if m := columnAt.FindStringSubmatch(after); m != nil && strings.HasSuffix(operands, ", string)") {
		name, other = m[1], strings.TrimPrefix(strings.TrimSuffix(operands, ", string)"), "(")
	} else if rest, ok := strings.CutPrefix(operands, "(string, "); ok {
		name, other = strings.TrimSpace(columnEnd.FindString(before)), strings.TrimSuffix(rest, ")")
	}
	switch {
	case name == "":
		return ""
	case other == "bool":
		return "the column is a string: compare it with one, such as " + name + " == \"true\""
	case other == "int", other == "double":
		return "the column is a string: write " + other + "(" + name + "); the columns of a CSV file are strings"
	}
	return ""
}

// Operator is a hint for an operator whose operands do not go together.
func Operator(name, operands, text string) string {
	has := func(types ...string) bool {
		return !slices.ContainsFunc(types, func(t string) bool { return !strings.Contains(operands, t) })
	}
	switch {
	case has("null"):
		return "there is no null here: read a value that may be absent with `.?`, which has `.hasValue()`"
	case name == "orValue" && has("double", "int"):
		return "give a value of the same type: .orValue(0.0)"
	case name == "orValue":
		return "give a value of the type of the optional"
	case has("optional("):
		return "end the optional with `.orValue(...)`"
	case name == "[ ]" && operands == "(string, int)":
		return "write text.charAt(0) for a character"
	case has("timestamp", "int"):
		return "write a duration: duration(\"1h\")"
	case has("duration", "int"):
		return "write a duration with the unit that is meant: duration(\"" + lastOf(text, number) + "s\"), or with m or h"
	case name == "format" && has("timestamp"):
		return timeText
	case has("duration", "string"), has("timestamp", "string"):
		m := textInside.FindStringSubmatch(text)
		switch isTime := has("timestamp"); {
		case m != nil && shortDuration.MatchString(m[1]):
			return "write duration(\"" + Duration(m[1]) + "\")"
		case isTime && m != nil && justDate.MatchString(m[1]):
			return "write timestamp(\"" + m[1] + "T00:00:00Z\")"
		case isTime && m != nil:
			return "write timestamp(\"" + m[1] + "\")"
		case isTime:
			return "write timestamp(...)"
		}
		return "write duration(...)"
	case strings.HasPrefix(operands, "(list(") && (has(", int)") || has(", double)")):
		return "compare its length: x.size()"
	case name == "!":
		return "write `a != b`, or `!(a == b)`"
	case name == "join":
		return "write list.join(',')"
	case (has("(bool, string)") || has("(string, bool)")) && equalsBool.MatchString(text):
		return "a string is compared with a text in quotes: x == \"true\""
	case has("(bool, string)"), has("(string, bool)"):
		return "write true or false without quotes; a bool alone is a condition, too"
	case (name == "==" || name == "!=") && has("list(string)", "string)"):
		return "write `x in list`"
	case name == "in" && operands == "(string, string)":
		return "write text.contains(part)"
	case has("(bool, int") || has("(bool, double"):
		return "write both comparisons: a < x && x < b"
	case name == "+" && has("string"):
		return "convert the other value with string(...)"
	case name == "format", name == "%" && has("string"):
		return "write the values as a list: 'n=%d'.format([n])"
	case name == "contains":
		return "write `x in list`"
	case has("int", "double"):
		return "CEL does not mix int and double here: write 2.0 for 2, or double(x)"
	case has("string", "int"), has("string", "double"):
		return "a string and a number cannot be compared: convert one with int(...), double(...) or string(...)"
	}
	return ""
}

func lastOf(text string, of *regexp.Regexp) string {
	all := of.FindAllString(text, -1)
	if len(all) == 0 {
		return "90"
	}
	return all[len(all)-1]
}
