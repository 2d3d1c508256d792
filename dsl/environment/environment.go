// Package environment loads and checks environment documents: what types alone do not say of pools, targets, secrets and people.
package environment

import (
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/decode"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
)

// Load reads an environment document. It returns nil after it has reported why it cannot.
func Load(src *document.Source, data []byte) *spec.Environment {
	root := src.Parse(data)
	if root == nil || decode.IsOther(src, root, "environment/v1", "a pipeline is the command's argument, and -e names an environment") {
		return nil
	}
	d := decode.New(src, true)
	d.Explain = func(t reflect.Type, n, key *yaml.Node) (hint, meant string) { return explainKey(d, t, n, key), "" }
	v := d.Decode(root, reflect.TypeFor[spec.Environment](), spec.Rules{})
	if v == nil {
		return nil
	}
	env := new(spec.Environment)
	if err := spec.Fill(env, expr.Known(v)); err != nil {
		src.Errorf(root, "type", "", "%s", err)
		return nil
	}
	eachDriver(src, root, "pools", "pool", "local: {nodes: 2}", reflect.TypeFor[spec.Pool]())
	eachDriver(src, root, "targets", "target", "embedded: {port: 8080}", reflect.TypeFor[spec.Target]())
	spec.SetDefaults(reflect.ValueOf(env))
	src.Judge(func() { check(src, root, env) })
	src.DropFollowing(root)
	if !excuseEntries(d, root, "pools", &env.Pools) || !excuseEntries(d, root, "targets", &env.Targets) ||
		!excuseEntries(d, root, "people", &env.People) || !excuseEntries(d, root, "secrets", &env.Secrets) {
		return nil
	}
	return env
}

func check(src *document.Source, root *yaml.Node, env *spec.Environment) {
	checkStore(src, root, env)
	checkPools(src, root, env)
	checkTargets(src, root, env)
	if at := document.Lookup(root, "prometheus"); at != nil && at.Kind == yaml.ScalarNode {
		CheckWeb(src, at)
		CheckPrometheus(src, at)
	}
	checkSecrets(src, root, env)
	checkRunner(src, root)
	checkLimits(src, root, env)
}

// LoadFile reads and checks an environment document without a pipeline. It returns nil if a finding is an error.
func LoadFile(file document.File) (*spec.Environment, document.Diagnostics) {
	src := document.New(file)
	env := Load(src, file.Source)
	src.Findings.Sort()
	if src.Findings.HasErrors() {
		return nil, src.Findings
	}
	return env, src.Findings
}

// excuseEntries adds the entries of an environment that could not be read; false when that is a whole section of it.
func excuseEntries[T any](d *decode.Decoder, root *yaml.Node, section string, all *map[string]T) bool {
	at := document.Lookup(root, section)
	if at != nil && at.Kind != yaml.MappingNode || slices.Contains(d.MeantKeys(root), section) {
		return false
	}
	for key := range document.Entries(at) {
		if _, ok := (*all)[key.Value]; ok {
			continue
		}
		if *all == nil {
			*all = map[string]T{}
		}
		(*all)[key.Value] = *new(T)
	}
	return true
}
