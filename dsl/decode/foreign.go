package decode

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/nearest"
)

// foreign is what a key of another system is here.
type foreign struct {
	ours string // the key that is meant; empty: there is none, and the hint says what to do
	hint string // empty: "Sluice uses `ours`". %s is the value of the foreign key
}

// noKind is the hint for a key that says in another system what a step does.
const noKind = "Sluice uses a kind key such as `run` or `train`: run: {command: [program, argument]}"

// foreignWords are keys of other systems, in small letters and without `-` and `_`, with ours: the first that the place has.
var foreignWords = map[string][]foreign{}

func init() {
	for words, ours := range map[string][]foreign{
		"if condition rules only":   {{ours: "when"}, {ours: "check"}, {ours: "keep"}},
		"expr expression predicate": {{ours: "check"}, {ours: "keep"}, {ours: "condition"}},
		"unless":                    {{"when", "Sluice uses `when`, with a `!` before the condition"}},
		"depends dependson deps dependencies upstream after requires runafter waitfor parents": {{ours: "needs"}},
		"triggerrule":   {{"needs", "Sluice uses `needs: {STEP: passed}`, or `not_failed`, `ended` or `failed` in place of `passed`"}},
		"dependsonpast": {{"needs", "`needs` names steps of the same run; outputs of the last run are read with `last`"}},
		"stage":         {{"needs", "Sluice has no stages: a step waits for the steps whose outputs it reads, and for those in `needs`"}},
		"jobs tasks stages templates services dag": {{ours: "steps"}},
		"cmd args exec program":                    {{ours: "command"}},
		"entrypoint":                               {{ours: "command"}, {ours: "steps"}},
		"with arguments":                           {{ours: "inputs"}, {ours: "params"}},
		"outs artifacts results":                   {{ours: "outputs"}},
		"uses container componentref operator template templateref plugin action": {{"run", noKind}},
		"retrystrategy retrypolicy":                       {{"retry", "Sluice uses `retry: {attempts: 3}`"}},
		"retries maxretries":                              {{"retry", "Sluice uses `retry: {attempts: N}`, which counts the first try"}},
		"on retryon":                                      {{ours: "errors"}, {ours: "triggers"}},
		"delay wait interval":                             {{ours: "backoff"}, {ours: "every"}},
		"limit max":                                       {{ours: "attempts"}},
		"times count maxiterations":                       {{"until", "write `repeat: {until: CONDITION, max: %s}`"}},
		"ttl maxage expires":                              {{ours: "max_age"}},
		"choices options":                                 {{ours: "values"}},
		"cancelinprogress":                                {{"on_conflict", "Sluice uses `on_conflict: cancel_other`"}},
		"percent percentage traffic setweight":            {{ours: "weight"}},
		"duration pause minduration":                      {{ours: "bake"}},
		"msg question prompt":                             {{ours: "message"}},
		"path document":                                   {{"file", "Sluice uses `file: %s`"}},
		"languages":                                       {{ours: "keep"}},
		"retrydelay":                                      {{"retry", "Sluice uses `retry: {backoff: %s}`"}},
		"environment envvars variables":                   {{ours: "env"}, {"defaults", "Sluice uses `defaults: {step: {env: {NAME: value}}}` for all steps"}},
		"parameters vars variable inputs":                 {{ours: "params"}},
		"params":                                          {{"command", "steps have no parameters of their own: they read those of the pipeline as ${params.NAME}"}},
		"assert expect validate":                          {{ours: "gate"}},
		"shell bash":                                      {{"run", "Sluice uses `run: {script: ...}`"}},
		"bashcommand source code":                         {{ours: "script"}},
		"pythoncallable module":                           {{"command", "Sluice starts programs: `command: [python3, script.py]`"}},
		"beforescript afterscript":                        {{"run", "write its lines into the `script` of the step"}},
		"timeoutminutes":                                  {{"timeout", "Sluice uses `timeout: %sm`"}},
		"timeoutseconds activedeadlineseconds":            {{"timeout", "Sluice uses `timeout: %ss`"}},
		"executiontimeout maxduration timelimit":          {{ours: "timeout"}},
		"continueonerror allowfailure ignoreerrors":       {{ours: "continue_on_error"}},
		"strategy":                                        {{"matrix", "Sluice uses `matrix: {AXIS: [value, value]}` as a key of the step"}},
		"withitems loop withparam withsequence for items": {{ours: "foreach"}},
		"parallelism":                                     {{ours: "max_parallel"}},
		"runson agent instancetype machinetype":           {{"pool", "Sluice uses `pool: NAME`, which is a pool in the environment"}, {"needs", "only a `train` step uses a `pool` of the environment; the programs of other steps run beside the worker"}},
		"workingdirectory workdir cwd":                    {{"command", "programs start in a copy of the pipeline's folder; to change the directory write `script: cd DIR && ...`"}},
		"image":                                           {{"runtime", "write `runtime: {image: %s}`, in a `train` step or in the environment's pool"}, {"needs", "write `runtime: {image: %s}` under `train`, or for the pool in the environment"}, {"steps", "write `runtime: {image: %s}` under a `train` step, or for the pool in the environment"}},
		"volumes volumemounts":                            {{"needs", "a step gets data through `inputs`, from the `outputs` of another; it always has the pipeline's folder"}},
		"gpu gpus cpu cpus memory gputype shm":            {{"resources", "write `resources: {gpu: 1}`; its keys are cpu, memory, gpu, gpu_type, shm, idle"}, {"node", "write what a node of the pool has: `node: {gpu: 1}`"}},
		"limits requests":                                 {{"gpu", "write what each node must have: `resources: {cpu: 4, memory: 16GiB, gpu: 1}`"}},
		"resources":                                       {{"node", "write what a node of the pool has: `node: {gpu: 1, memory: 64GiB}`"}},
		"price cost pricing hourlyprice":                  {{"usd_per_hour", "Sluice uses `usd_per_hour: {on_demand: %s}`"}},
		"maxnodes maxsize":                                {{"limits", "Sluice uses `limits: {nodes: %s}`"}},
		"members":                                         {{ours: "users"}},
		"token":                                           {{"token_file", "Sluice uses `token_file`, a file with the token"}},
		"password":                                        {{"password_secret", "Sluice uses `password_secret`, the name of a secret of the environment"}},
		"tz":                                              {{ours: "timezone"}},
		"approvers reviewers assignees":                   {{ours: "who"}},
		"nvidia.com/gpu":                                  {{ours: "gpu"}},
		"replicas workers numnodes":                       {{ours: "nodes"}},
		"trigger":                                         {{ours: "triggers"}},
		"schedule scheduleinterval":                       {{"triggers", "write `triggers: {nightly: {schedule: {cron: \"0 1 * * *\"}}}`"}},
		"cron":                                            {{"schedule", "write `schedule: {cron: \"%s\"}`"}, {"triggers", "write `triggers: {nightly: {schedule: {cron: \"%s\"}}}`"}},
		"catchup startdate enddate":                       {{"triggers", "this is a key of a schedule: `triggers: {nightly: {schedule: {cron: ..., catchup: 1h, start: ..., end: ...}}}`"}},
		"dagid workflow":                                  {{ours: "name"}},
		"name id title taskid":                            {{"needs", "the key above is the step's id; use `summary` for a description"}},
		"defaultargs":                                     {{"defaults", "Sluice uses `defaults: {step: {...}}`"}},
		"onexit cleanup always":                           {{ours: "finally"}},
		"onerror catch":                                   {{ours: "on_failure"}},
		"onsuccess":                                       {{"steps", "a step with `needs` on the last one runs when that has passed"}},
		"until":                                           {{"repeat", "write `repeat: {until: %s}`"}},
		"while":                                           {{"repeat", "write `repeat: {until: \"!(%s)\"}`"}},
		"version apiversion":                              {{"sluice", "the version of the language is in `sluice: pipeline/v1`; write your own version in a comment"}},
		"description":                                     {{"summary", "Sluice uses `summary`"}, {"", "write it as a comment, after `#`"}},
		"labels tags owner annotations metadata comment": {{"", "write it as a comment, after `#`"}},
		"cachingoptions memoize":                         {{ours: "cache"}},
	} {
		for word := range strings.FieldsSeq(words) {
			foreignWords[word] = ours
		}
	}
}

// ForeignWord returns the hint for a key of another system, and our key; an empty hint for other keys. names are those of the place.
func ForeignWord(key, val *yaml.Node, names []string) (hint, ours string) {
	word := strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(key.Value))
	all := foreignWords[word]
	i := slices.IndexFunc(all, func(f foreign) bool { return f.ours == "" || slices.Contains(names, f.ours) })
	if i < 0 {
		return "", ""
	}
	f, value := all[i], val.Value
	switch {
	case f.ours == "foreach" && val.Kind == yaml.SequenceNode:
		return "Sluice uses `foreach: '" + listText(val) + "'`", f.ours
	case f.ours == "when" && (strings.Contains(value, "always()") || strings.Contains(value, "failure()")):
		return "Sluice uses `when`; put a step that always runs under `finally`, and one that runs after a failure under `on_failure`", f.ours
	case f.hint == "":
		return "Sluice uses `" + f.ours + "`", f.ours
	case strings.Contains(f.hint, "%s"):
		if val.Kind != yaml.ScalarNode || value == "" {
			value = "..."
		}
		return fmt.Sprintf(f.hint, value), f.ours
	}
	return f.hint, f.ours
}

// listText is a list as an expression has it.
func listText(n *yaml.Node) string {
	items := make([]string, len(n.Content))
	for i, item := range n.Content {
		if items[i] = item.Value; item.Tag == "!!str" || item.Kind != yaml.ScalarNode {
			quoted, _ := json.Marshal(item.Value) //nolint:errchkjson // a text
			items[i] = string(quoted)
		}
	}
	return "[" + strings.Join(items, ", ") + "]"
}

// lacking are the keys that a mapping must have and lacks: an unknown key likely stands for one of them.
func lacking(n *yaml.Node, fields []spec.Key) (names []string) {
	for _, f := range fields {
		if f.Required && document.Lookup(n, f.Name) == nil {
			names = append(names, f.Name)
		}
	}
	return names
}

func (d *Decoder) unknownKey(n, key, val *yaml.Node, t reflect.Type, fields []spec.Key, partial bool) {
	above, _ := AboveAndBelow(n, key)
	if slices.ContainsFunc(fields, func(f spec.Key) bool { return f.Name == above && holds(f.Type) }) {
		d.NoteMeant(n, above)
		d.Source.Errorf(key, "unknown-key", "indent it, so that it is under `"+above+"`", "`%s` is not a key here, and `%s` above it is empty", key.Value, above)
		return
	}
	names := append(spec.KeyNames(fields), d.Beside[t]...)
	var hint, meant string
	if d.Explain != nil {
		hint, meant = d.Explain(t, n, key)
	}
	if hint == "" {
		hint, meant = ForeignWord(key, val, names)
	}
	if hint == "" {
		hint, meant = nearest.Hint(key.Value, names), nearest.To(key.Value, names)
		if hint == "" {
			hint = "its keys are " + strings.Join(names, ", ")
		}
		if lacks := lacking(n, fields); meant == "" && !partial && d.depth > 1 && len(lacks) > 0 {
			hint, meant = "write `"+lacks[0]+"`; "+hint, lacks[0]
		}
	}
	d.NoteMeant(n, meant)
	d.Source.Errorf(key, "unknown-key", hint, "`%s` is not a key here", key.Value)
}
