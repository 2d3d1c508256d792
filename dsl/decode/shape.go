package decode

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
)

// shapes are values of keys as they are written; NAME is replaced by a name that the document has, and VALUE by what it has for it.
var shapes = map[string]string{
	"params": "{NAME: {type: string}}", "outputs": "{NAME: {type: int}}", "env": "{NAME: VALUE}", "secrets": "{VARIABLE: NAME}",
	"inputs": `{NAME: "${steps.STEP.OUTPUT}"}`, "triggers": `{NAME: {schedule: {cron: "0 1 * * *"}}}, each with a name`,
	"notify": "{NAME: {slack: {...}}}, each with a name", "variants": "{NAME: {onnx: {...}}}, each with a name",
	"pools": "{NAME: {local: {nodes: 2}}}", "targets": "{NAME: {embedded: {port: 8080}}}", "people": `{"group:NAME": {users: [anna]}}`,
	"publish": "{OUTPUT: VALUE}", "retry": "{attempts: 3}", "repeat": "{until: CONDITION, max: 10}", "schedule": `{cron: "0 1 * * *"}`,
	"resources": "{cpu: 4, memory: 16GiB, gpu: 1}", "budget": "{usd: 40}", "concurrency": "{group: VALUE}", "keep": "{runs: VALUE}",
	"webhook": "{url: VALUE}", "slack": "{url_secret: NAME}", "email": "{to: VALUE}", "store": "{url: VALUE}",
	"usd_per_hour": "{on_demand: VALUE}", "node": "{cpu: 16, memory: 64GiB, gpu: 1}", "fields": "{NAME: {type: string}}",
}

// shapeHint says how a value is written that should be a mapping of type t and is not.
func (d *Decoder) shapeHint(n *yaml.Node, t reflect.Type) string {
	isScalar := n.Kind == yaml.ScalarNode && n.Tag != "!!null"
	switch t {
	case reflect.TypeFor[spec.OutputDecl]():
		if isScalar {
			return "write {type: " + n.Value + "}"
		}
	case reflect.TypeFor[spec.Param]():
		if typ := map[string]string{"!!int": "int", "!!float": "double", "!!bool": "bool"}[n.Tag]; typ != "" && isScalar {
			return "write {type: " + typ + ", default: " + n.Value + "}"
		} else if isScalar {
			return "write {type: " + n.Value + "}, or {type: string, default: " + n.Value + "}"
		}
	case reflect.TypeFor[spec.Run]():
		switch {
		case isScalar:
			return "write `run: {script: ...}` for a shell script, or `run: {command: [program, argument]}`"
		case n.Kind == yaml.SequenceNode:
			return "write `run: {command: [program, argument]}`"
		}
	case reflect.TypeFor[spec.Approval]():
		if isScalar {
			return "write {message: " + quotedWord(n.Value) + "}"
		}
	case reflect.TypeFor[spec.Stage]():
		if isScalar {
			return "write {weight: " + n.Value + "}"
		}
	case reflect.TypeFor[spec.Envelope]():
		return "write `run: {command: [program, argument]}`, or another kind, under the step's id"
	}
	shape := shapes[d.key]
	if shape == "" || d.key == "outputs" && t.Kind() == reflect.Map && t.Elem().Kind() == reflect.Interface {
		if t.Kind() == reflect.Struct {
			return "its keys are " + strings.Join(spec.KeyNames(spec.KeysOf(t)), ", ")
		}
		return "write {NAME: value}"
	}
	if d.key == "retry" && n.Tag == "!!int" {
		return "write {attempts: " + n.Value + "}"
	}
	if d.key == "schedule" && isScalar {
		return "write {cron: \"" + n.Value + "\"}"
	}
	name, value := "NAME", "value"
	switch first := document.Lookup(n, 0); {
	case isScalar:
		value = quotedWord(n.Value)
	case first == nil:
	case first.Kind == yaml.ScalarNode:
		if key, val, ok := strings.Cut(first.Value, "="); ok {
			name, value = key, val
		} else if isWord(first.Value) {
			name = first.Value
		}
	default:
		if at := document.Lookup(first, "name"); at != nil && isWord(at.Value) {
			name = at.Value
		}
		if at := document.Lookup(first, "value"); at != nil && at.Value != "" {
			value = at.Value
		}
	}
	return "write " + strings.NewReplacer("NAME", name, "VALUE", value).Replace(shape)
}

func isWord(s string) bool { return expr.IsIdentifier(strings.ToLower(s)) }

// listHint says how a value is written that should be a list and is not.
func (d *Decoder) listHint(n *yaml.Node) string {
	switch {
	case d.key == "command" && n.Kind == yaml.ScalarNode && n.Tag != "!!null":
		hint := "write [" + strings.Join(QuotedWords(n.Value), ", ") + "]"
		if !d.fixed { // an environment has no scripts
			hint += "; for a shell command use `script`"
		}
		return hint
	case d.key == "command":
		return "write the list [program, argument]"
	case n.Kind == yaml.ScalarNode && n.Tag != "!!null" && isWord(n.Value):
		return "write [" + n.Value + "]"
	case n.Tag == "!!str" && n.Value != "" && !strings.Contains(n.Value, "\n"):
		return "write [" + strconv.Quote(n.Value) + "]"
	}
	return "write [a, b], or one `- item` per line"
}

// QuotedWords are the words of a text as a list in brackets has them.
func QuotedWords(text string) []string {
	words := strings.Fields(text)
	for i, word := range words {
		words[i] = quotedWord(word)
	}
	return words
}

// quotedWord is a text as it stands within brackets.
func quotedWord(text string) string {
	if strings.ContainsAny(text, " {}[],#&*!|>'\"%@`:?") {
		return strconv.Quote(text)
	}
	return text
}

// textHint says how a value is written that should be a text, a number or the like, and is not.
func (d *Decoder) textHint(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode && n.Style&yaml.FlowStyle != 0 && len(n.Content) > 0 && n.Content[0].Kind == yaml.MappingNode:
		return "{{ }} is Jinja syntax: Sluice uses \"${...}\" for expressions"
	case d.key == "script" && n.Kind == yaml.SequenceNode:
		return "write `script: |` and one command per line below it"
	case d.key == "foreach" && n.Kind == yaml.SequenceNode:
		return "write an expression that gives a list: foreach: '" + listText(n) + "'"
	case d.key == "foreach" && n.Kind == yaml.MappingNode:
		return "write an expression that gives a list: foreach: '[\"eu\", \"us\"]', params.NAME or steps.ID.OUTPUT"
	case n.Tag == "!!null":
		return "write \"\" for an empty string"
	}
	return ""
}

// typeWords are the types of other languages with ours.
var typeWords = map[string]string{
	"str": "string", "text": "string", "varchar": "string", "integer": "int", "int64": "int", "long": "int", "boolean": "bool",
	"float": "double", "float32": "double", "float64": "double", "number": "double", "decimal": "double",
	"date": "timestamp", "datetime": "timestamp", "time": "timestamp", "timedelta": "duration", "choice": "enum", "select": "enum",
	"dict": "map", "object": "map", "mapping": "map", "struct": "map", "array": "list", "file": "dataset", "directory": "dataset",
	"folder": "dataset", "artifact": "dataset", "always": "ended", "all_done": "ended", "completed": "ended", "success": "passed",
	"succeeded": "passed", "all_success": "passed", "failure": "failed fail", "error": "fail", "finished": "success", "forbid": "skip", "replace": "cancel_other", "cancel": "cancel_other",
	"wait": "queue", "ssl": "tls", "ondemand": "on_demand", "preemptible": "spot", "yes": "approve", "accept": "approve", "no": "reject",
}

// enumHint is a hint for a word that is none of those that a place takes.
func enumHint(word string, words []string) string {
	for ours := range strings.FieldsSeq(typeWords[strings.ToLower(word)]) {
		if slices.Contains(words, ours) {
			return "did you mean `" + ours + "`?"
		}
	}
	return ""
}
