package decode

import (
	"cmp"
	"path"
	"reflect"
	"regexp"
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
	"resources": "{cpu: 4, memory: 16GiB, gpu: 1}", "budget": "{usd: 40}", "needs": "[STEP], or {STEP: passed}", "concurrency": "{group: NAME}", "keep": "{runs: VALUE}",
	"webhook": "{url: VALUE}", "slack": "{url_secret: NAME}", "email": "{to: VALUE}", "store": "{url: VALUE}",
	"usd_per_hour": "{on_demand: VALUE}", "node": "{cpu: 16, memory: 64GiB, gpu: 1}", "fields": "{NAME: {type: string}}", "defaults": "{step: {timeout: 1h}}",
}

// mainKeys are the keys of which a text that stands in the place of a mapping is likely the value.
var mainKeys = map[reflect.Type]string{
	reflect.TypeFor[spec.Approval](): "message", reflect.TypeFor[spec.ChildPipeline](): "file", reflect.TypeFor[spec.Keep](): "runs",
	reflect.TypeFor[spec.Concurrency](): "group", reflect.TypeFor[spec.Stage](): "weight", reflect.TypeFor[spec.Runtime](): "image",
	reflect.TypeFor[spec.Field](): "type", reflect.TypeFor[spec.CheckpointSpec](): "every", reflect.TypeFor[spec.Hang](): "after",
	reflect.TypeFor[spec.Deadline](): "within", reflect.TypeFor[spec.Email](): "to", reflect.TypeFor[spec.Webhook](): "url",
	reflect.TypeFor[spec.Transform](): "type", reflect.TypeFor[spec.OutputDecl](): "type", reflect.TypeFor[spec.ScheduleTrigger](): "cron",
}

// shapeHint says how a value is written that should be a mapping of type t and is not.
func (d *Decoder) shapeHint(n *yaml.Node, t reflect.Type) string {
	if isText := n.Kind == yaml.ScalarNode && n.Tag != "!!null" && n.Tag != "!!bool"; isText {
		if hint := d.scalarShape(n, t); hint != "" {
			return hint
		}
	}
	switch t {
	case reflect.TypeFor[spec.Run]():
		if n.Kind == yaml.SequenceNode {
			return "write `run: {command: [program, argument]}`"
		}
	case reflect.TypeFor[spec.Pool]():
		return "write {local: {nodes: 2}}, or {kubernetes: {...}} or {ec2: {...}}"
	case reflect.TypeFor[spec.Target]():
		return "write {embedded: {port: 8080}}, or another driver"
	case reflect.TypeFor[spec.LocalPool](), reflect.TypeFor[spec.PoolLimits]():
		if n.Tag == "!!int" {
			return "write {nodes: " + n.Value + "}"
		}
	case reflect.TypeFor[spec.EmbeddedTarget]():
		if n.Tag == "!!int" {
			return "write {port: " + n.Value + "}"
		}
	case reflect.TypeFor[spec.SecretSource]():
		return "write {env: VARIABLE}, {file: /run/secrets/NAME} or {vault: MOUNT/PATH#KEY}"
	case reflect.TypeFor[spec.Person]():
		if name := document.Lookup(n, 0); name != nil && name.Kind == yaml.ScalarNode {
			return "write {users: [" + name.Value + "]}"
		} else if n.Kind == yaml.ScalarNode && n.Tag != "!!null" {
			return "write {users: [" + n.Value + "]}"
		}
	case reflect.TypeFor[spec.Nodes]():
		if len(n.Content) == 2 {
			return "write {min: " + n.Content[0].Value + ", max: " + n.Content[1].Value + "}"
		}
	case reflect.TypeFor[spec.OutputDecl]():
		return "write {type: int}, or {type: model, path: PATH}"
	case reflect.TypeFor[spec.Param]():
		return "write {type: string}"
	case reflect.TypeFor[spec.Envelope]():
		return "write `run: {command: [program, argument]}`, or another kind, under the step's id"
	}
	shape := shapes[d.key]
	isGiven := d.key == "params" && t.Kind() == reflect.Map && t.Elem().Kind() == reflect.Interface
	if isGiven {
		shape = shapes["env"]
	}
	if shape == "" || d.key == "outputs" && t.Kind() == reflect.Map && t.Elem().Kind() == reflect.Interface {
		if t.Kind() == reflect.Struct {
			return "its keys are " + strings.Join(spec.KeyNames(spec.KeysOf(t)), ", ")
		}
		return "write {NAME: value}"
	}
	name, value := "NAME", "value"
	switch first := document.Lookup(n, 0); {
	case n.Kind == yaml.ScalarNode && n.Tag != "!!null":
		value = quotedWord(n.Value)
	case first == nil:
	case first.Kind == yaml.ScalarNode:
		if key, val, ok := strings.Cut(first.Value, "="); ok {
			name, value = key, val
			if strings.Contains(val, "${") {
				value = strconv.Quote(val)
			}
		} else if d.key == "notify" && strings.Contains(first.Value, "@") {
			return "write {NAME: {email: {to: [" + first.Value + "]}}}"
		} else if isPath(first.Value) && d.key == "outputs" {
			return "write {" + pathName(first.Value) + ": {type: " + artifactAt(first.Value) + ", path: " + first.Value + "}}"
		} else if isWord(first.Value) {
			name = first.Value
		}
	default:
		if decl := declaredBy(first); decl != "" && (d.key == "params" && !isGiven || d.key == "outputs") {
			return "write " + decl
		}
		switch only := len(first.Content) == 2; {
		case d.key == "env" && secretOf(first) != "":
			return "write it as a key of the step: `secrets: {VARIABLE: NAME}`, with the name of a secret of the environment"
		case only && first.Content[1].Kind != yaml.ScalarNode && !strings.Contains(shape, "each with a name"):
			return "remove the `- ` of the items, which makes them entries of one mapping"
		case only && d.key == "params" && !isGiven:
			return "write {" + first.Content[0].Value + ": {type: " + typeOf(first.Content[1]) + ", default: " + first.Content[1].Value + "}}"
		case only:
			name, value = first.Content[0].Value, first.Content[1].Value
		}
		if at := document.Lookup(first, "name"); at != nil && isWord(at.Value) {
			name = at.Value
		}
		if at := document.Lookup(first, "value"); at != nil && at.Value != "" {
			value = at.Value
		}
	}
	if strings.Contains(value, "${") && !strings.HasPrefix(value, `"`) {
		value = strconv.Quote(value)
	}
	if d.key == "publish" && name != "NAME" {
		shape, value = "{"+name+": VALUE}", "NAME"
	}
	return "write " + strings.NewReplacer("NAME", name, "VALUE", value).Replace(shape)
}

// artifactAt is the type of artifact that a file with such a name likely is.
func artifactAt(path string) string {
	if modelFile.MatchString(path) {
		return "model"
	}
	return "dataset"
}

var modelFile = regexp.MustCompile(`(?:^|/)model(?:\.\w+)?$|\.(?:onnx|safetensors|ckpt|pth?|gguf|joblib)$`)

// scalarShape is shapeHint for a text or a number.
func (d *Decoder) scalarShape(n *yaml.Node, t reflect.Type) string {
	value := n.Value
	if strings.ContainsAny(value, " :,{}[]#*@") {
		value = strconv.Quote(value)
	}
	switch words, given := strings.Fields(n.Value), withDefault.FindStringSubmatch(n.Value); {
	case t == reflect.TypeFor[spec.Param]() && given != nil:
		return "write {type: " + given[1] + ", default: " + given[2] + "}"
	case t == reflect.TypeFor[spec.OutputDecl]() && n.Tag != "!!str":
		return "write {type: " + typeOf(n) + "}: the program writes the value to outputs.json"
	case t == reflect.TypeFor[spec.Concurrency]() && n.Tag != "!!str":
		return ""
	case t == reflect.TypeFor[spec.Keep]() && n.Tag != "!!int":
		return "write {runs: 10}, or {days: 30}; without `keep` all runs are kept"
	case t == reflect.TypeFor[spec.Stage]() && n.Tag == "!!int":
		return "write {weight: " + value + "%}"
	case t == reflect.TypeFor[spec.Slack]():
		return "write {url_secret: NAME}, and keep the address in a secret of that name"
	case t == reflect.TypeFor[spec.Email]():
		return "write {to: [" + strings.Trim(value, `"`) + "]}"
	case t == reflect.TypeFor[spec.OutputDecl]() && isPath(n.Value):
		return "write {type: " + artifactAt(value) + ", path: " + value + "}"
	case t == reflect.TypeFor[spec.Param]() && n.Tag != "!!str":
		return "write {type: " + typeOf(n) + ", default: " + value + "}"
	case t == reflect.TypeFor[spec.Param]():
		return "write {type: " + value + "}, or {type: string, default: " + value + "}"
	case t == reflect.TypeFor[spec.Run]():
		return "write `run: {script: ...}` for a shell script, or `run: {command: [program, argument]}`"
	case t == reflect.TypeFor[spec.Trigger]():
		return "write {schedule: {cron: " + value + "}}"
	case t == reflect.TypeFor[spec.Notification]() && strings.Contains(n.Value, "@"):
		return "write {email: {to: [" + strings.Trim(value, `"`) + "]}}"
	case t == reflect.TypeFor[spec.Notification]():
		return "write {webhook: {url: " + value + "}}, or slack or email"
	case d.key == "retry" && n.Tag == "!!int":
		return "write {attempts: " + value + "}"
	case d.key == "env" && len(words) > 0 && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(w, "=") }):
		return "write {" + strings.ReplaceAll(strings.Join(words, ", "), "=", ": ") + "}"
	case mainKeys[t] != "":
		return "write {" + mainKeys[t] + ": " + value + "}"
	}
	return ""
}

// withDefault is a declaration as Python writes it.
var withDefault = regexp.MustCompile(`^(\w+)\s*=\s*(\S+)$`)

// typeOf is the type of a parameter that has a value by default.
func typeOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.SequenceNode:
		return "list"
	case n.Kind == yaml.MappingNode:
		return "map"
	}
	return cmp.Or(map[string]string{"!!int": "int", "!!float": "double", "!!bool": "bool"}[n.Tag], "string")
}

// requiredHint says how a key is written that a mapping of type t lacks.
func requiredHint(n *yaml.Node, t reflect.Type, key spec.Key) string {
	switch at := document.Lookup(n, "default"); {
	case len(key.Rules.Enum) == 1:
		return "write `" + key.Name + ": " + key.Rules.Enum[0] + "`"
	case t == reflect.TypeFor[spec.Param]() && key.Name == "type" && at != nil:
		return "write `type: " + typeOf(at) + "`"
	case key.Name == "type" && document.Lookup(n, "path") != nil:
		return "write `type: dataset`, or `type: model`"
	}
	return ""
}

func isWord(s string) bool { return expr.IsIdentifier(strings.ToLower(s)) }

func isPath(s string) bool { return strings.ContainsAny(s, "./") && !strings.ContainsAny(s, " {}") }

// pathName is a name for what is at a path.
func pathName(file string) string {
	base, _, _ := strings.Cut(path.Base(file), ".")
	if name := NearName(base); expr.IsIdentifier(name) {
		return name
	}
	return "NAME"
}

// declaredBy writes an item such as {name: lr, value: 0.1} as an entry; empty where it is none.
func declaredBy(item *yaml.Node) string {
	var name, typ string
	var rest []string
	for key, val := range document.Entries(item) {
		switch {
		case val.Kind != yaml.ScalarNode:
		case key.Value == "name":
			name = val.Value
		case key.Value == "type":
			typ = cmp.Or(typeWords[val.Value], val.Value)
		case key.Value == "value" || key.Value == "default":
			rest, typ = append(rest, "default: "+val.Value), cmp.Or(typ, typeOf(val))
		default:
			rest = append(rest, key.Value+": "+val.Value)
		}
	}
	if !isWord(name) || typ == "" {
		return ""
	}
	return "{" + name + ": {" + strings.Join(append([]string{"type: " + typ}, rest...), ", ") + "}}"
}

// listHint says how a value is written that should be a list of a type and is not.
func (d *Decoder) listHint(n *yaml.Node, of reflect.Type) string {
	isText := n.Kind == yaml.ScalarNode && n.Tag != "!!null"
	switch {
	case isText && n.Style == 0 && itemsWithoutSpace.MatchString(n.Value):
		return "begin each item with `- `, with a space"
	case d.key == "command" && isText:
		hint := "write [" + strings.Join(QuotedWords(n.Value), ", ") + "]"
		if !d.fixed { // an environment has no scripts
			hint += "; for a shell command use `script`"
		}
		return hint
	case d.key == "command":
		return "write the list [program, argument]"
	case of == reflect.TypeFor[spec.Stage]():
		return "write [{weight: 10%}, {weight: 100%}]"
	case of == reflect.TypeFor[spec.Transform]() && n.Kind == yaml.MappingNode && len(n.Content) > 0:
		return "write a list: - {type: " + n.Content[0].Value + ", config: {...}}"
	case n.Kind == yaml.MappingNode && of.Kind() == reflect.String && len(n.Content) > 0:
		var keys []string
		for key := range document.Entries(n) {
			keys = append(keys, key.Value)
		}
		return "write [" + strings.Join(keys, ", ") + "]"
	case isText && isWord(n.Value):
		return "write [" + n.Value + "]"
	case n.Tag == "!!str" && commaList.MatchString(n.Value):
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
		if unquoted := strings.Trim(word, `"'`); len(word)-len(unquoted) == 2 {
			word = unquoted // a shell's quotes
		}
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

var (
	itemsWithoutSpace = regexp.MustCompile(`^(?:-[^\s-].* -|[•·*] ?|-\x{a0})\S`)
	commaList         = regexp.MustCompile(`^[\w./-]+(?:, *[\w./-]+)+$`)
)

// wordsHint says how a list of words is written all of whose items are mappings, such as {name: f1} or {f1: max}, or lists.
func (d *Decoder) wordsHint(items []*yaml.Node, of reflect.Type, r spec.Rules) string {
	var words []string
	for _, item := range document.Items(&yaml.Node{Kind: yaml.SequenceNode, Content: items}) {
		switch name := document.Lookup(item, "name"); {
		case of.Kind() != reflect.String:
			return ""
		case item.Kind == yaml.SequenceNode && len(items) == 1:
			return "write one list: " + listText(item)
		case item.Kind == yaml.SequenceNode && d.key == "command":
			return "a step runs one command: use `script: |`, or a step for each"
		case item.Kind != yaml.MappingNode || len(item.Content) == 0 || !r.Metrics && !r.Names && name == nil:
			return ""
		case name != nil:
			words = append(words, name.Value)
		default:
			words = append(words, item.Content[0].Value)
		}
	}
	if len(words) == 0 {
		return ""
	}
	return "write [" + strings.Join(words, ", ") + "]"
}

// textHint says how a value is written that should be a text, a number or the like, and is not.
func (d *Decoder) textHint(n *yaml.Node, t reflect.Type) string {
	switch isText := t.Kind() == reflect.String; {
	case n.Kind == yaml.MappingNode && n.Style&yaml.FlowStyle != 0 && len(n.Content) > 0 && n.Content[0].Kind == yaml.MappingNode:
		return "{{ }} is Jinja syntax: Sluice uses \"${...}\" for expressions"
	case d.key == "script" && n.Kind != yaml.ScalarNode:
		return "write `script: |` and one command per line below it"
	case d.key == "foreach" && n.Kind == yaml.SequenceNode:
		return "write an expression that gives a list: foreach: '" + listText(n) + "'"
	case d.key == "foreach" && n.Kind == yaml.MappingNode:
		return "write an expression that gives a list: foreach: '[\"eu\", \"us\"]', params.NAME or steps.ID.OUTPUT"
	case n.Tag == "!!null":
		if m := hashAlone.FindStringSubmatch(d.restOfLine(n)); m != nil {
			return "quote it: \"" + m[1] + "\", since ` #` begins a comment"
		}
		if t == reflect.TypeFor[spec.Need]() {
			return "write `" + d.key + ": passed`, or a list"
		}
		if t == goString {
			return "write \"\" for an empty string"
		}
		return "write a value, or remove `" + d.key + "`"
	case t == spec.ExprType && n.Kind == yaml.SequenceNode && document.OnlyScalars(n):
		var conditions []string
		for _, item := range n.Content {
			conditions = append(conditions, item.Value)
		}
		return "write one expression: " + strings.Join(conditions, " && ")
	case isText && d.key == "items" && document.Lookup(n, "type") != nil:
		return "write `items: " + document.Lookup(n, "type").Value + "`"
	case d.key == "type" && n.Kind == yaml.SequenceNode:
		return "write `type: enum` and `values: [a, b]`"
	case t == spec.DurationType:
		return "write 90s, 5m or 1h30m"
	case d.key == "gpu":
		return d.gpuHint(n)
	case t == reflect.TypeFor[spec.Need]():
		return "write a list, [a, b], or a mapping, {a: passed, b: failed}"
	case isText && n.Kind == yaml.SequenceNode && document.OnlyScalars(n):
		var words []string
		for _, item := range n.Content {
			words = append(words, item.Value)
		}
		return "write one string, such as " + strconv.Quote(strings.Join(words, ","))
	case isText && secretOf(n) != "":
		return secretOf(n)
	case isText && n.Kind == yaml.MappingNode && len(n.Content) == 2 && document.OnlyScalars(n) && n.Style&yaml.FlowStyle == 0:
		return "quote it: " + strconv.Quote(n.Content[0].Value+": "+n.Content[1].Value)
	}
	return ""
}

// hashAlone is a comment in the place of a value that is likely one.
var hashAlone = regexp.MustCompile(`^\s*(#[^\s#]\S*)`)

// restOfLine is what stands behind the place of an empty value.
func (d *Decoder) restOfLine(n *yaml.Node) string {
	line := d.Source.Characters(n.Line)
	return string(line[min(max(n.Column-1, 0), len(line)):])
}

// secretOf is a hint for a mapping that names a secret, as in Kubernetes.
func secretOf(n *yaml.Node) string {
	for key, val := range document.Entries(n) {
		if slices.Contains([]string{"secret", "from_secret", "secretKeyRef", "valueFrom"}, key.Value) {
			return "write it under `secrets: {VARIABLE: " + cmp.Or(val.Value, "NAME") + "}` of the step"
		}
	}
	return ""
}

// gpuHint is a hint for a number of GPUs with their type.
func (d *Decoder) gpuHint(n *yaml.Node) string {
	if m := gpuOf.FindStringSubmatch(n.Value); d.key == "gpu" && (n.Kind != yaml.ScalarNode || m != nil) {
		count, typ := "1", "A100"
		if m != nil && n.Tag != "!!bool" {
			count, typ = cmp.Or(m[1], m[3], count), m[2]
		}
		return "write `gpu: " + count + "` and, for a certain type, `gpu_type: " + typ + "`"
	}
	return ""
}

var gpuOf = regexp.MustCompile(`^(?:(\d+)\s*[xX* ]\s*)?([A-Za-z]\w*)(?::(\d+))?$`)

// typeWords are the types of other languages with ours.
var typeWords = map[string]string{
	"str": "string", "text": "string", "varchar": "string", "integer": "int", "int64": "int", "long": "int", "boolean": "bool",
	"float": "double", "float32": "double", "float64": "double", "number": "double", "decimal": "double",
	"date": "timestamp", "datetime": "timestamp", "time": "timestamp", "timedelta": "duration", "choice": "enum", "select": "enum",
	"dict": "map", "object": "map", "mapping": "map", "struct": "map", "array": "list", "file": "dataset", "directory": "dataset",
	"folder": "dataset", "artifact": "dataset", "path": "string", "url": "string", "uri": "string", "any": "string", "secret": "string", "password": "string", "always": "ended", "true": "passed", "all_done": "ended", "completed": "ended", "success": "passed",
	"succeeded": "passed", "all_success": "passed", "failure": "failed fail", "error": "fail", "finished": "success", "forbid": "skip", "replace": "cancel_other", "cancel": "cancel_other",
	"wait": "queue", "ssl": "tls", "ondemand": "on_demand", "gpu": "cuda", "preemptible": "spot", "yes": "approve", "accept": "approve", "no": "reject",
}

// enumHint is a hint for a word that is none of those that a place takes.
func enumHint(word string, words []string) string {
	word = strings.ToLower(word)
	if (word == "secret" || word == "password") && slices.Contains(words, "timestamp") {
		return "write `type: string` and `secret: true`"
	}
	for ours := range strings.FieldsSeq(typeWords[word]) {
		if slices.Contains(words, ours) {
			return "did you mean `" + ours + "`?"
		}
	}
	if m := genericType.FindStringSubmatch(word); m != nil && slices.Contains(words, cmp.Or(typeWords[m[1]], m[1])) {
		return "write `type: " + cmp.Or(typeWords[m[1]], m[1]) + "` and, for the type of its items, `items: " + cmp.Or(typeWords[m[2]], m[2]) + "`"
	}
	if ours := map[string]string{
		"true": "approve", "false": "reject", "preemptible": "spot", "interruptible": "spot", "pytorch": "torchrun", "accelerate": "torchrun",
		"deepspeed": "torchrun", "horovod": "mpi", "failure": "fail", "failed": "fail", "error": "fail", "succeeded": "success", "passed": "success", "started": "start",
	}[word]; slices.Contains(words, ours) {
		return "did you mean `" + ours + "`?"
	}
	return ""
}

// genericType is a type of another language that says what it holds.
var genericType = regexp.MustCompile(`^(list|array|map|dict)\s*[\[<(](?:str\w*, *)?(\w+)[\])>]$`)
