package dsl

import (
	"reflect"

	"go.yaml.in/yaml/v3"
)

// DefaultEnvironment is what a run without an environment file has: two local nodes that nobody interrupts, and a target served
// from the Sluice process.
func DefaultEnvironment() *Environment {
	env := &Environment{
		Sluice:  "environment/v1",
		Name:    "local",
		Pools:   map[string]Pool{"local": {Local: &LocalPool{Nodes: 2}}},
		Targets: map[string]Target{"local": {Embedded: &EmbeddedTarget{}}},
	}
	setDefaults(reflect.ValueOf(env))
	return env
}

// loadEnvironment reads an environment document; nil after it has reported why it cannot.
func loadEnvironment(src *source, data []byte) *Environment {
	root := src.parse(data)
	if root == nil {
		return nil
	}
	d := newDecoder(src, true)
	v := d.decode(root, reflect.TypeFor[Environment](), rules{})
	if v == nil {
		return nil
	}
	env := new(Environment)
	if err := fill(env, known(v)); err != nil {
		src.errorf(root, "type", "", "%s", err)
		return nil
	}
	eachDriver(src, lookup(root, "pools"), "pool", "local: {nodes: 2}")
	eachDriver(src, lookup(root, "targets"), "target", "embedded: {port: 8080}")
	checkPorts(src, root, env)
	setDefaults(reflect.ValueOf(env))
	return env
}

// eachDriver reports pools or targets without a driver.
func eachDriver(src *source, n *yaml.Node, what, example string) {
	if n == nil || n.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if body := n.Content[i+1]; body.Kind == yaml.MappingNode && len(body.Content) == 0 {
			src.errorf(n.Content[i], "driver", "give it one, such as "+example, "the %s `%s` has no driver", what, n.Content[i].Value)
		}
	}
}

// checkPorts reports two targets on one port.
func checkPorts(src *source, root *yaml.Node, env *Environment) {
	targets := lookup(root, "targets")
	if targets == nil || targets.Kind != yaml.MappingNode {
		return
	}
	taken := map[int]string{}
	for i := 0; i+1 < len(targets.Content); i += 2 {
		name := targets.Content[i].Value
		embedded := env.Targets[name].Embedded
		if embedded == nil {
			continue
		}
		port := embedded.Port
		if port == 0 {
			port = 8080
		}
		if other, ok := taken[port]; ok {
			src.errorf(targets.Content[i], "port", "give one of them another `port`", "the targets `%s` and `%s` listen on the same port %d", other, name, port)
		}
		taken[port] = name
	}
}

// LoadEnvironment reads and checks an environment document by itself, for what needs no pipeline. It is nil when a finding is an
// error.
func LoadEnvironment(file File) (*Environment, Diagnostics) {
	src := newSource(file)
	env := loadEnvironment(src, file.Source)
	src.diags.sort()
	if src.diags.HasErrors() {
		return nil, src.diags
	}
	return env, src.diags
}
