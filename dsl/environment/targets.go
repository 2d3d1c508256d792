package environment

import (
	"cmp"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/decode"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/shell"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/objectstore"
)

// checkTargets reports two targets on one port, impossible batch sizes, providers that are never used, models that KServe cannot read, invalid
// addresses, empty commands, and gateways that are open to everyone.
func checkTargets(src *document.Source, root *yaml.Node, env *spec.Environment) {
	taken := map[int]takenPort{}
	for key, body := range document.Entries(root, "targets") {
		target := env.Targets[key.Value]
		for _, port := range target.Ports() {
			if wrongAt(src, body, port.Key) {
				continue
			}
			by := takenPort{key.Value, port.Key}
			if other, ok := taken[port.Number]; ok {
				portTaken(src, key, port.Number, other, by)
			}
			taken[port.Number] = by
		}
		for _, n := range document.Entries(body) {
			if at := document.Lookup(n, "url"); at != nil && !strings.Contains(at.Value, "${") {
				checkServer(src, at, at.Value, "https://models.example.com")
			}
			if at := document.Lookup(n, "health"); at != nil && at.Kind == yaml.ScalarNode && strings.Contains(at.Value, "://") {
				src.Errorf(at, "path", "write for example /health", "%q is not a path of the server", at.Value)
			}
			notZero(src, n, "timeout", "ready_within")
			notZero(src, document.Lookup(n, "batching"), "max_delay")
		}
		checkGateway(src, document.Lookup(body, "gateway"), target.Gateway, env)
		if target.Embedded != nil {
			checkBatching(src, document.Lookup(body, "embedded", "batching"), target.Embedded.Batching)
			checkProviders(src, document.Lookup(body, "embedded", "provider"), target.Embedded.Provider)
		}
		if target.External != nil {
			checkExternal(src, document.Lookup(body, "external"), *target.External)
			checkModelName(src, document.Lookup(body, "external"), target.External.Server)
		}
		if target.Process != nil {
			checkProcess(src, document.Lookup(body, "process"), *target.Process)
			checkModelName(src, document.Lookup(body, "process"), target.Process.Server)
		}
		if target.Triton != nil {
			checkTriton(src, document.Lookup(body, "triton"), *target.Triton)
		}
		if target.KServe != nil {
			checkKServe(src, key, document.Lookup(body, "kserve"), *target.KServe, env.Store.URL)
		}
	}
}

// wrongAt reports whether a key of any of the mappings in a body has a value that is wrong: it is none that others can be compared with.
func wrongAt(src *document.Source, body *yaml.Node, key string) bool {
	for _, n := range document.Entries(body) {
		at := document.Lookup(n, key)
		if at != nil && slices.ContainsFunc(src.Findings, func(d document.Diagnostic) bool { return d.Line == at.Line && d.Col == at.Column }) {
			return true
		}
	}
	return false
}

// takenPort is what has a port: a target, by a key.
type takenPort struct{ target, key string }

// portTaken reports a port that two have; at is the target of the second.
func portTaken(src *document.Source, at *yaml.Node, port int, first, second takenPort) {
	switch {
	case first.target == second.target:
		src.Errorf(at, "port", "give it another `"+second.key+"`", "the target `%s` has port %d twice, as `%s` and as `%s`", second.target, port, first.key, second.key)
	case first.key == second.key:
		src.Errorf(at, "port", "give one of them another `"+first.key+"`", "the targets `%s` and `%s` listen on the same port %d", first.target, second.target, port)
	default:
		src.Errorf(at, "port", "give one of them another port", "the targets `%s` (`%s`) and `%s` (`%s`) listen on the same port %d",
			first.target, first.key, second.target, second.key, port)
	}
}

// notZero reports durations of 0, which would be taken for the default.
func notZero(src *document.Source, body *yaml.Node, keys ...string) {
	for _, key := range keys {
		if at := document.Lookup(body, key); at != nil {
			if d, err := spec.ParseDuration(at.Value); err == nil && d == 0 {
				src.Errorf(at, "range", "write a longer one, or remove it for the default", "`%s: %s` is too short", key, at.Value)
			}
		}
	}
}

// checkBatching reports preferred sizes that no inference can have.
func checkBatching(src *document.Source, body *yaml.Node, b spec.Batching) {
	for i, size := range b.Preferred {
		if most := cmp.Or(b.MaxBatch, spec.DefaultMaxBatch); size > most {
			src.Errorf(document.Lookup(body, "preferred", i), "range", "", "%d is more than `max_batch`, %d", size, most)
		}
	}
}

// checkProviders reports a list that names none, one twice, or one behind the CPU, which loads every model that another does.
func checkProviders(src *document.Source, at *yaml.Node, providers spec.Providers) {
	if at == nil || at.Kind != yaml.SequenceNode || len(providers) != len(at.Content) { // a word that is none has its own finding
		return
	}
	if len(providers) == 0 {
		src.Errorf(at, "range", "write for example `provider: [cuda, cpu]`, or remove it for `cpu`", "the list names no provider")
	}
	for i, name := range providers {
		switch {
		case slices.Contains(providers[:i], name):
			src.Errorf(at.Content[i], "duplicate", "remove one of them", "`%s` is listed twice", name)
		case slices.Contains(providers[:i], "cpu"):
			src.Errorf(at.Content[i], "range", "put `cpu` last", "`%s` is never used, because `cpu` before it loads every model", name)
		}
	}
}

func checkKServe(src *document.Source, key, body *yaml.Node, t spec.KServeTarget, store string) {
	if t.Models == "" {
		if store == "" || strings.HasPrefix(store, "file://") { // else it is in a bucket, or nowhere, of which it was told
			src.Errorf(key, "required", "write for example `models: s3://bucket/folder`, or keep the store in a bucket",
				"KServe cannot read the models of `%s` from the store", key.Value)
		}
	} else if _, err := objectstore.ParseFolder(t.Models); err != nil {
		src.Errorf(document.Lookup(body, "models"), "url", "write for example s3://bucket/folder", "KServe cannot read models there: %v", err)
	}
	if at := document.Lookup(body, "ingress"); at != nil {
		checkServer(src, at, t.Ingress, "http://10.0.0.5")
	}
}

// checkExternal reports servers that cannot be reached by their address.
func checkExternal(src *document.Source, body *yaml.Node, t spec.ExternalTarget) {
	const pair = 2
	one, several := document.Lookup(body, "server"), document.Lookup(body, "servers")
	switch {
	case (one == nil) == (several == nil):
		src.Errorf(body, "one-of", "write for example `server: http://chat-${release}:8000`", "a target has exactly one of `server` and `servers`")
	case one != nil:
		checkServer(src, one, t.At, suchServer)
		names := given.FindAllString(t.At, -1)
		isUnknown := func(name string) bool { return name != "${release}" && name != "${model}" }
		if i := slices.IndexFunc(names, isUnknown); i >= 0 {
			src.Errorf(one, "name", "", "there is no `%s`: the URL of a server is given `${release}` and `${model}`", names[i])
		} else if len(names) == 0 {
			src.Errorf(one, "url", "put `${release}` or `${model}` into it, or give `servers`", "all releases would have the same server")
		}
	case several.Kind != yaml.SequenceNode:
	case len(t.Servers) != pair || strings.TrimSuffix(t.Servers[0], "/") == strings.TrimSuffix(t.Servers[1], "/"):
		src.Errorf(several, "range", "write for example `servers: [\"http://blue:8000\", \"http://green:8000\"]`", "releases use two different servers in turn")
	default:
		for i, server := range t.Servers {
			checkServer(src, document.Lookup(body, "servers", i), server, suchServer)
		}
	}
}

const suchServer = "http://10.0.0.5:8000"

// requestPath is a path that requests of the Open Inference Protocol or of OpenAI's have.
var requestPath = regexp.MustCompile(`/v1(/chat)?/completions/?$|/v2/models/[^/]+(/infer)?/?$`)

// checkServer reports what is not the URL of a server, and a password or a query in it.
func checkServer(src *document.Source, at *yaml.Node, server, such string) {
	scheme, rest, _ := strings.Cut(server, "://")
	host, _, _ := strings.Cut(rest, "/")
	switch {
	case at == nil || at.Kind != yaml.ScalarNode:
	case strings.Contains(rest, "@"): // a password may have a slash
		src.Errorf(at, "url", "remove what stands before the `@`: an environment is kept with every run and is not secret", "a URL of a server must have no user and no password")
	case scheme != "http" && scheme != "https" || host == "":
		src.Errorf(at, "url", "write for example "+such, "%q is not the URL of a server", server)
	case strings.ContainsAny(rest, "?#"):
		src.Errorf(at, "url", "remove what begins with `?` or `#`", "paths are added to the URL of a server, so it must have no query")
	case requestPath.MatchString(rest):
		src.Warnf(at, "url", "write "+scheme+"://"+requestPath.ReplaceAllString(rest, ""), "the paths of requests are added to the URL of a server")
	}
}

// checkModelName reports a name of a model of which no server is told.
func checkModelName(src *document.Source, body *yaml.Node, s spec.Server) {
	if document.Lookup(body, "model") != nil && s.Protocol != spec.ProtocolOIP {
		src.Errorf(document.KeyNode(body, "model"), "one-of", "remove it: requests are passed on with the name that clients give",
			"`model` has no effect with `protocol: %s`", s.Protocol)
	}
}

// checkTriton reports an invalid server, and a folder that depends on the working directory of a gateway.
func checkTriton(src *document.Source, body *yaml.Node, t spec.TritonTarget) {
	if at := document.Lookup(body, "server"); at != nil {
		checkServer(src, at, t.Server, suchServer)
	}
	at := document.Lookup(body, "repository")
	switch _, err := objectstore.ParseFolder(t.Repository); {
	case at == nil:
	case objectstore.IsAddress(t.Repository) && err != nil:
		src.Errorf(at, "url", "write for example s3://bucket/models", "Triton cannot read models there: %v", err)
	case !objectstore.IsAddress(t.Repository) && !path.IsAbs(t.Repository):
		src.Errorf(at, "path", "write for example /srv/models or s3://bucket/models, as in Triton's `--model-repository`",
			"%q is not the absolute path of a folder", t.Repository)
	}
}

// given are the names in the command and the variables of a process, or in the URL of a server.
var given = regexp.MustCompile(`\$\{[^}]*\}`)

// checkProcess reports variables that no program could read, a command without a program, one that does not know where to listen, and names
// that nobody fills in.
func checkProcess(src *document.Source, body *yaml.Node, t spec.ProcessTarget) {
	for name := range document.Entries(body, "env") {
		if !shell.IsVariable(name.Value) {
			src.Errorf(name, "variable", "use letters, digits and `_`, not beginning with a digit", "%q is not a valid name for an environment variable", name.Value)
		}
	}
	at := document.Lookup(body, "command")
	const such = `write for example [python3, serve.py, "${model.path}", "${port}"]`
	names := given.FindAllString(strings.Join(append(slices.Sorted(maps.Values(t.Env)), t.Command...), " "), -1)
	switch {
	case at == nil || at.Kind != yaml.SequenceNode:
	case len(t.Command) == 0 || strings.TrimSpace(t.Command[0]) == "":
		src.Errorf(at, "required", such, "the command has no program")
	case !slices.Contains(names, "${port}"):
		src.Errorf(at, "required", such, "the process is not told its port: neither `command` nor `env` has `${port}`")
	default:
		for _, name := range names {
			if name != "${port}" && name != "${model.path}" {
				src.Errorf(at, "name", "", "there is no `%s`: a process is given `${port}` and `${model.path}`", name)
				return
			}
		}
		if program := t.Command[0]; len(t.Command) == 1 && strings.Contains(program, " ") {
			src.Warnf(at, "shell", "write ["+strings.Join(decode.QuotedWords(program), ", ")+"]", "%q as a whole is taken as the name of a program", program)
		} else if !slices.Contains(names, "${model.path}") {
			src.Warnf(at, "required", such, "the process is not told its model: neither `command` nor `env` has `${model.path}`")
		}
	}
}
