package dsl

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/objectstore"
)

// checkTargets reports two targets on one port, sizes of batches that cannot be, models where KServe cannot be, addresses that are none,
// commands that are empty, and front doors that stand open.
func checkTargets(src *document.Source, root *yaml.Node, env *spec.Environment) {
	taken := map[int]string{}
	for key, body := range document.Entries(root, "targets") {
		target := env.Targets[key.Value]
		for _, port := range target.Ports() {
			switch other, ok := taken[port]; {
			case ok && other == key.Value:
				src.Errorf(key, "port", "give it another `metrics_port`", "the target `%s` has port %d for its model and for its metrics", key.Value, port)
			case ok:
				src.Errorf(key, "port", "give one of them another `port`", "the targets `%s` and `%s` listen on the same port %d", other, key.Value, port)
			}
			taken[port] = key.Value
		}
		checkGateway(src, document.Lookup(body, "gateway"), target.Gateway, env)
		if target.Embedded != nil {
			checkBatching(src, document.Lookup(body, "embedded", "batching"), target.Embedded.Batching)
		}
		if target.External != nil {
			checkExternal(src, document.Lookup(body, "external"), *target.External)
		}
		if target.Process != nil {
			checkProcess(src, document.Lookup(body, "process", "command"), *target.Process)
		}
		if target.Triton != nil {
			checkTriton(src, document.Lookup(body, "triton"), *target.Triton)
		}
		if target.KServe != nil {
			checkKServe(src, key, document.Lookup(body, "kserve"), *target.KServe, env.Store.URL)
		}
	}
}

// checkBatching reports preferred sizes that no inference can have.
func checkBatching(src *document.Source, body *yaml.Node, b spec.Batching) {
	for i, size := range b.Preferred {
		if size > b.MaxBatch {
			src.Errorf(document.Lookup(body, "preferred", i), "range", "", "%d is more than `max_batch`, %d", size, b.MaxBatch)
		}
	}
}

func checkKServe(src *document.Source, key, body *yaml.Node, t spec.KServeTarget, store string) {
	if t.Models == "" {
		if !objectstore.IsAddress(store) {
			src.Errorf(key, "required", "write such as `models: s3://bucket/folder`, or keep the store in a bucket",
				"KServe cannot read the models of `%s` from the store", key.Value)
		}
	} else if _, err := objectstore.ParseFolder(t.Models); err != nil {
		src.Errorf(document.Lookup(body, "models"), "url", "write such as s3://bucket/folder", "KServe cannot read models there: %v", err)
	}
	if at := document.Lookup(body, "ingress"); at != nil && !strings.HasPrefix(t.Ingress, "http://") && !strings.HasPrefix(t.Ingress, "https://") {
		src.Errorf(at, "url", "write such as http://10.0.0.5", "%q is not the address of an ingress", t.Ingress)
	}
}

// checkExternal reports servers that cannot be asked.
func checkExternal(src *document.Source, body *yaml.Node, t spec.ExternalTarget) {
	const pair = 2
	one, several := document.Lookup(body, "server"), document.Lookup(body, "servers")
	switch {
	case (one == nil) == (several == nil):
		src.Errorf(body, "one-of", "write such as `server: http://chat-${release}:8000`", "a target has exactly one of `server` and `servers`")
	case one != nil:
		checkServer(src, one, t.At)
		if !strings.Contains(t.At, "${release}") && !strings.Contains(t.At, "${model}") {
			src.Errorf(one, "url", "put `${release}` or `${model}` into it, or give `servers`", "all releases would have the same server")
		}
	case len(t.Servers) != pair || t.Servers[0] == t.Servers[1]:
		src.Errorf(several, "range", "", "releases use two different servers in turn")
	default:
		for i, server := range t.Servers {
			checkServer(src, document.Lookup(body, "servers", i), server)
		}
	}
}

func checkServer(src *document.Source, at *yaml.Node, server string) {
	scheme, rest, _ := strings.Cut(server, "://")
	host, _, _ := strings.Cut(rest, "/")
	if scheme != "http" && scheme != "https" || host == "" {
		src.Errorf(at, "url", "write such as http://10.0.0.5:8000", "%q is not the URL of a server", server)
	}
}

// checkTriton reports a server that cannot be asked, and a folder that depends on where a gateway was started.
func checkTriton(src *document.Source, body *yaml.Node, t spec.TritonTarget) {
	if at := document.Lookup(body, "server"); at != nil {
		checkServer(src, at, t.Server)
	}
	at := document.Lookup(body, "repository")
	switch _, err := objectstore.ParseFolder(t.Repository); {
	case at == nil:
	case objectstore.IsAddress(t.Repository) && err != nil:
		src.Errorf(at, "url", "write such as s3://bucket/models", "Triton cannot read models there: %v", err)
	case !objectstore.IsAddress(t.Repository) && !path.IsAbs(t.Repository):
		src.Errorf(at, "path", "write such as /srv/models or s3://bucket/models, what Triton has as its `--model-repository`",
			"%q is not the absolute path of a folder", t.Repository)
	}
}

// given are the names in the command and the variables of a process.
var given = regexp.MustCompile(`\$\{[^}]*\}`)

// checkProcess reports a command without a program, one that does not know where to listen, and names that nobody fills in.
func checkProcess(src *document.Source, at *yaml.Node, t spec.ProcessTarget) {
	const such = `write such as [python3, serve.py, "${model.path}", "${port}"]`
	names := given.FindAllString(strings.Join(append(slices.Sorted(maps.Values(t.Env)), t.Command...), " "), -1)
	switch {
	case at == nil:
	case len(t.Command) == 0 || strings.TrimSpace(t.Command[0]) == "":
		src.Errorf(at, "required", such, "the command has no program")
	case !slices.Contains(names, "${port}"):
		src.Errorf(at, "required", such, "the process is not told its port: neither `command` nor `env` has `${port}`")
	default:
		for _, name := range names {
			if name != "${port}" && name != "${model.path}" {
				src.Errorf(at, "name", "", "there is no `%s`: a process is given `${port}` and `${model.path}`", name)
			}
		}
	}
}
