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
	"github.com/sluiceml/sluice/internal/suggest"
)

// foreign is what a key of another system is here.
type foreign struct {
	ours string // the key that is meant; empty: there is none, and the hint says what to do
	hint string // empty: "Sluice uses `ours`". %s is the value of the foreign key
}

// noKind is the hint for a key that says in another system what a step does.
const noKind = "Sluice uses a kind key such as `run` or `train`: run: {command: [program, argument]}"

// Hints for keys that stand on a step or under its kind, in other systems.
const (
	asArgument = "this is for the program: give it as an argument in `command`, or as a variable under `env`"
	asPackages = "Sluice uses `runtime: {python: requirements.txt}` under the kind key"
	asPod      = "this is a property of the pool: write it under `kubernetes: {pod: {spec: {...}}}` in the environment"
	asSpot     = "Sluice uses `capacity: spot` under the kind key"
	inFolder   = "programs start in a copy of the pipeline's folder; to change the directory write `script: cd DIR && ...`"
	asInputs   = "a step gets data through `inputs`, from the `outputs` of another; it always has the pipeline's folder"
	asMail     = "write `notify: {NAME: {email: {to: [anna@example.com]}, on: [fail]}}` at the top"
)

// foreignWords are keys of other systems, in small letters and without `-` and `_`, with ours: the first that the place has.
var foreignWords = map[string][]foreign{}

func init() {
	for words, ours := range map[string][]foreign{
		"if condition rules only":   {{ours: "when"}, {ours: "check"}, {ours: "keep"}},
		"expr expression predicate": {{ours: "check"}, {ours: "keep"}, {ours: "condition"}},
		"unless":                    {{"when", "Sluice uses `when`, with a `!` before the condition"}},
		"deps dependencies":         {{ours: "needs"}, {ours: "files"}},
		"depends dependson upstream after requires runafter waitfor parents": {{ours: "needs"}},
		"triggerrule":   {{"needs", "Sluice uses `needs: {STEP: passed}`, or `not_failed`, `ended` or `failed` in place of `passed`"}},
		"dependsonpast": {{"needs", "`needs` names steps of the same run; outputs of the last run are read with `last`"}},
		"stage":         {{"needs", "Sluice has no stages: a step waits for the steps whose outputs it reads, and for those in `needs`"}},
		"jobs tasks stages templates services entrypoints": {{ours: "steps"}},
		"dag":                    {{ours: "steps"}, {"run", "Sluice uses `pipeline: {steps: {...}}` for steps within a step"}},
		"cmd args exec program":  {{ours: "command"}},
		"entrypoint":             {{ours: "command"}, {ours: "steps"}},
		"with arguments":         {{ours: "inputs"}, {ours: "params"}, {"needs", asArgument}},
		"outs artifacts results": {{ours: "outputs"}, {"needs", "write `outputs: {NAME: {type: dataset, path: PATH}}` under the kind key"}},
		"register":               {{"needs", "Sluice uses `outputs` under the kind key, which the program writes to outputs.json"}},
		"uses container componentref operator template templateref plugin action task func function callable notebook": {{"run", noKind}},
		"retrystrategy retrypolicy": {{"retry", "Sluice uses `retry: {attempts: 3}`"}},
		"retries maxretries backofflimit retrycount numretries restart restartpolicy": {{"retry", "Sluice uses `retry: {attempts: N}`, which counts the first try"}, {ours: "attempts"}},
		"on retryon":                           {{ours: "errors"}, {ours: "triggers"}},
		"when":                                 {{ours: "errors"}},
		"delay wait interval":                  {{ours: "backoff"}, {ours: "every"}, {ours: "bake"}},
		"limit max":                            {{ours: "attempts"}},
		"times count maxiterations":            {{"until", "write `repeat: {until: CONDITION, max: %s}`"}, {ours: "attempts"}},
		"ttl maxage expires":                   {{ours: "max_age"}},
		"choices options":                      {{ours: "values"}},
		"enum allowed allowedvalues oneof":     {{"values", "write `type: enum` and `values: [a, b]`"}},
		"value":                                {{ours: "default"}},
		"optional":                             {{"required", "write `required: false`"}},
		"minimum":                              {{ours: "min"}},
		"maximum":                              {{ours: "max"}},
		"range":                                {{"min", "write `min` and `max`"}},
		"cancelinprogress":                     {{"on_conflict", "Sluice uses `on_conflict: cancel_other`"}},
		"percent percentage traffic setweight": {{ours: "weight"}},
		"duration pause minduration":           {{ours: "bake"}},
		"msg question prompt":                  {{ours: "message"}},
		"path document ref":                    {{"file", "Sluice uses `file: %s`"}},
		"approvers reviewers assignees":        {{ours: "who"}},
		"at":                                   {{"cron", "the time is in `cron`: \"0 7 * * *\" is each day at 07:00, in `timezone`"}},
		"languages":                            {{ours: "keep"}},
		"retrydelay":                           {{"retry", "Sluice uses `retry: {backoff: %s}`"}},
		"environment envvars variables":        {{ours: "env"}, {"command", "write `env: {NAME: value}` beside the kind key"}, {"defaults", "Sluice uses `defaults: {step: {env: {NAME: value}}}` for all steps"}},
		"parameters vars variable inputs":      {{ours: "params"}},
		"hyperparameters hparams kwargs opkwargs epochs numepochs maxepochs batchsize lr learningrate optimizer seed earlystopping patience": {{"command", asArgument}, {"needs", asArgument}},
		"sweep grid gridsearch paramgrid searchspace": {{ours: "matrix"}, {"command", "write `matrix: {AXIS: [value, value]}` beside the kind key"}},
		"params":                   {{"command", "steps have no parameters of their own: they read those of the pipeline as ${params.NAME}"}, {"needs", "steps have no parameters of their own: they read those of the pipeline as ${params.NAME}"}},
		"assert expect validate":   {{ours: "gate"}},
		"shell bash":               {{"run", "Sluice uses `run: {script: ...}`"}, {ours: "script"}},
		"bashcommand source code":  {{ours: "script"}, {"run", "Sluice uses `run: {script: ...}`"}},
		"pythoncallable module":    {{"command", "Sluice starts programs: `command: [python3, script.py]`"}},
		"beforescript afterscript": {{"run", "write its lines into the `script` of the step"}},
		"setup install":            {{"command", asPackages}, {"needs", asPackages}},
		"runtimeenv conda condaenv pip requirements virtualenv venv packages": {{"runtime", "Sluice uses `runtime: {python: requirements.txt}`"}, {"needs", asPackages}, {"steps", asPackages}},
		"timeoutminutes":                             {{"timeout", "Sluice uses `timeout: %sm`"}},
		"timeoutseconds activedeadlineseconds":       {{"timeout", "Sluice uses `timeout: %ss`"}},
		"executiontimeout maxduration timelimit sla": {{ours: "timeout"}},
		"continueonerror allowfailure ignoreerrors":  {{ours: "continue_on_error"}},
		"strategy": {{"matrix", "Sluice uses `matrix: {AXIS: [value, value]}` as a key of the step"}, {"stages", "Sluice uses `stages: [{weight: 10%, bake: 10m}, {weight: 100%}]`"}},
		"withitems loop withparam withsequence for items": {{ours: "foreach"}},
		"parallelism maxconcurrency":                      {{ours: "max_parallel"}},
		"parallel":                                        {{"max_parallel", "steps run in parallel unless one reads from another; `max_parallel` is for the instances of one step"}},
		"maxactiveruns":                                   {{"concurrency", "write `concurrency: {group: NAME}` for one run at a time"}},
		"next downstream then before":                     {{"needs", "write `needs` at the step that comes after this one"}},
		"runson agent instancetype machinetype queue partition poolslots cluster compute": {{ours: "types"}, {"pool", "Sluice uses `pool: NAME`, which is a pool in the environment"}, {"needs", "write `pool: NAME` under `train` or `run`: the name of a pool in the environment"}},
		"nodeselector tolerations affinity serviceaccount serviceaccountname":             {{"command", asPod}, {"needs", asPod}},
		"usespot spot preemptible interruptible":                                          {{"command", asSpot}, {"needs", asSpot}},
		"deploy deployment serve":                                                         {{"run", "Sluice uses a step with `rollout: {target: NAME, model: MODEL, stages: [...]}`"}},
		"workingdirectory workdir cwd":                                                    {{"command", inFolder}, {"needs", inFolder}},
		"image containerimage dockerimage baseimage build dockerfile":                     {{"runtime", "write `runtime: {image: %s}`, with a `pool`"}, {"needs", "write `runtime: {image: %s}` under `train`, or for the pool in the environment"}, {"steps", "write `runtime: {image: %s}` under a `train` step, or for the pool in the environment"}},
		"volumes volumemounts filemounts mounts storage":                                  {{"needs", asInputs}, {"command", asInputs}},
		"gpu gpus cpu cpus memory gputype shm":                                            {{"resources", "write `resources: {gpu: 1}`; its keys are cpu, memory, gpu, gpu_type, shm, idle"}, {"node", "write what a node of the pool has: `node: {gpu: 1}`"}},
		"numgpus ngpus gpucount gpuspernode":                                              {{"resources", "write `resources: {gpu: %s}`"}, {ours: "gpu"}},
		"numcpus ncpus cores vcpus":                                                       {{"resources", "write `resources: {cpu: %s}`"}, {ours: "cpu"}},
		"mem ram memorygb memgb":                                                          {{"resources", "write `resources: {memory: 16GiB}`"}, {ours: "memory"}},
		"accelerator accelerators":                                                        {{"resources", "write `resources: {gpu: 1, gpu_type: A100}`"}, {"gpu", "write `gpu: 1` and `gpu_type: A100`"}},
		"scalingconfig":                                                                   {{"nodes", "write `nodes: 2`, and `resources: {gpu: 1}` for what each node must have"}},
		"limits requests":                                                                 {{"gpu", "write what each node must have: `resources: {cpu: 4, memory: 16GiB, gpu: 1}`"}},
		"nvidia.com/gpu":                                                                  {{ours: "gpu"}},
		"replicas workers numnodes numworkers":                                            {{ours: "nodes"}},
		"trigger deployments":                                                             {{ours: "triggers"}},
		"schedule scheduleinterval":                                                       {{"triggers", "write `triggers: {nightly: {schedule: {cron: \"0 1 * * *\"}}}`"}, {"needs", "a schedule starts the whole pipeline: write `triggers: {nightly: {schedule: {...}}}` at the top"}},
		"cron":                                                                            {{"schedule", "write `schedule: {cron: \"%s\"}`"}, {"triggers", "write `triggers: {nightly: {schedule: {cron: \"%s\"}}}`"}},
		"catchup startdate enddate":                                                       {{"triggers", "this is a key of a schedule: `triggers: {nightly: {schedule: {cron: ..., catchup: 1h, start: ..., end: ...}}}`"}},
		"dagid workflow flow":                                                             {{ours: "name"}},
		"displayname":                                                                     {{ours: "summary"}, {ours: "name"}},
		"name id title taskid":                                                            {{"needs", "the key above is the step's id; use `summary` for a description"}, {"file", "a child is named by its file: `file: PATH`"}},
		"input":                                                                           {{ours: "read"}},
		"steps dedupe deduplicate filter filters":                                         {{"transforms", "write it as one of the `transforms`: - {type: ..., config: {...}}"}},
		"defaultargs":                                                                     {{"defaults", "Sluice uses `defaults: {step: {...}}`"}},
		"onexit cleanup always":                                                           {{ours: "finally"}},
		"emailonfailure emailonretry onfailurecallback alerts notifications": {{"notify", asMail}, {"needs", asMail}},
		"envfile dotenv envfrom":         {{"env", "write its variables out under `env`, and those that are secret under `secrets`"}},
		"include import imports extends": {{"steps", "a document includes no other; a step runs another pipeline with `pipeline: {file: other.yaml}`"}, {"needs", "write what all steps have into `defaults: {step: {...}}` at the top"}},
		"onerror catch":                  {{ours: "on_failure"}},
		"onsuccess":                      {{"steps", "a step with `needs` on the last one runs when that has passed"}},
		"until":                          {{"repeat", "write `repeat: {until: %s}`"}},
		"while":                          {{"repeat", "write `repeat: {until: \"!(%s)\"}`"}, {"until", "write `until: \"!(%s)\"`"}},
		"version apiversion kind":        {{"command", asArgument}, {"sluice", "the version of the language is in `sluice: pipeline/v1`; write your own version in a comment"}},
		"description help":               {{"summary", "Sluice uses `summary`"}, {"", "write it as a comment, after `#`"}},
		"labels tags owner annotations metadata comment":        {{"instance", "write it as EC2 calls it into `instance`: TagSpecifications"}, {"", "write it as a comment, after `#`"}},
		"cachingoptions memoize enablecaching usecache caching": {{ours: "cache"}},
		"enabled":                        {{"max_age", "write `cache: true` or `cache: false`"}},
		"disabled skip frozen":           {{"when", "write `when: \"false\"` for a step that is not to run"}},
		"resources":                      {{"node", "write what a node of the pool has: `node: {gpu: 1, memory: 64GiB}`"}},
		"price cost pricing hourlyprice": {{"usd_per_hour", "Sluice uses `usd_per_hour: {on_demand: %s}`"}},
		"maxnodes maxsize":               {{"limits", "Sluice uses `limits: {nodes: %s}`"}},
		"members":                        {{ours: "users"}},
		"token":                          {{"token_file", "Sluice uses `token_file`, a file with the token"}},
		"password":                       {{"password_secret", "Sluice uses `password_secret`, the name of a secret of the environment"}},
		"tz":                             {{ours: "timezone"}},
		"instancetypes":                  {{ours: "types"}},
		"iamrole iaminstanceprofile":     {{ours: "instance_profile"}},
		"ami imageid":                    {{ours: "image"}},
		"keyname keypair userdata disk disksize volume volumesize": {{"instance", "write it as EC2 calls it into `instance`, the data of a launch template"}},
		"maxprice": {{ours: "limits"}},
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
	case f.ours == "max_parallel" && val.Kind == yaml.MappingNode:
		return "steps run in parallel unless one reads from another: write them under `steps`, each by itself", "run"
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
	isOurs := func(word string) bool { return slices.Contains(names, word) }
	hint, meant := invisibleHint(key.Value), ""
	if hint != "" {
		meant = suggest.To(invisible.ReplaceAllString(key.Value, ""), names)
	} else if d.Explain != nil {
		hint, meant = d.Explain(t, n, key)
	}
	isForeign := hint == ""
	if isForeign {
		hint, meant = ForeignWord(key, val, names)
	}
	if meant == "" && val.Kind == yaml.MappingNode && len(val.Content) > 0 && document.OnlyKeys(val, isOurs) {
		hint = "write its keys here, without `" + key.Value + "` above them"
		for inner := range document.Entries(val) {
			d.NoteMeant(n, inner.Value)
		}
	}
	guessed := hint == ""
	if guessed {
		hint, meant = suggest.Hint(key.Value, names), suggest.To(key.Value, names)
		if hint == "" {
			hint = "its keys are " + strings.Join(names, ", ")
		}
		guessed = meant == ""
		if lacks := lacking(n, fields); guessed && !partial && d.depth > 1 && len(lacks) > 0 {
			hint, meant = "write `"+lacks[0]+"`; "+hint, lacks[0]
		}
	}
	if (guessed || isForeign && (hint == d.told[n] || slices.Contains(d.Beside[t], meant) && slices.Contains(d.meant[n], meant))) && len(d.meant[n]) > 0 && document.OnlyKeys(n, func(word string) bool { return !isOurs(word) }) {
		d.NoteMeant(n, meant)
		return // the whole mapping is one of another kind, of which it was told
	}
	d.NoteMeant(n, meant)
	d.told[n] = hint
	d.Source.Errorf(key, "unknown-key", hint, "`%s` is not a key here", key.Value)
}
