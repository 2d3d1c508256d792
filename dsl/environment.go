package dsl

import (
	"reflect"

	"go.yaml.in/yaml/v3"
)

// Environment names the store, the compute pools and the serving targets; pipelines name pools and targets only.
type Environment struct {
	// Sluice is environment/v1.
	Sluice string `json:"sluice" dsl:"enum=environment/v1"`
	// Name of the environment, for messages.
	Name string `json:"name"`
	// Store holds artifacts and records. Default: a folder in the state folder.
	Store StoreSpec `json:"store,omitzero"`
	// Pools are where training nodes come from.
	Pools map[string]Pool `json:"pools,omitempty" dsl:"names"`
	// Targets are where models are served.
	Targets map[string]Target `json:"targets,omitempty" dsl:"names"`
	// Clean sets the Beam runner and its limits.
	Clean CleanSettings `json:"clean,omitzero"`
	// Secrets are where the values of secrets come from, by name. A pipeline holds names only.
	Secrets map[string]SecretSource `json:"secrets,omitempty"`
	// Vault is where `vault` secrets are read.
	Vault Vault `json:"vault,omitzero"`
	// People are who may be asked, by the names that `who` uses: "group:data".
	People map[string]Person `json:"people,omitempty"`
	// SMTP is what e-mail is sent by.
	SMTP SMTP `json:"smtp,omitzero"`
}

// StoreSpec says where the store is.
type StoreSpec struct {
	// URL: file:///folder.
	URL string `json:"url,omitempty"`
}

// Pool is where nodes come from: exactly one driver key.
type Pool struct {
	// Local runs nodes as processes on this machine.
	Local *LocalPool `json:"local,omitempty"`
}

// LocalPool plays a pool of machines with local processes.
type LocalPool struct {
	// Nodes is how many nodes there are.
	Nodes int `json:"nodes" dsl:"min=1,max=64"`
	// Interruptions play the spot market. Absent: nodes live as long as they are wanted.
	Interruptions *Interruptions `json:"interruptions,omitempty"`
	// USDPerHour is what a node is said to cost an hour, for ledgers and budgets. Default 0.
	USDPerHour float64 `json:"usd_per_hour,omitempty" dsl:"min=0"`
}

// Interruptions describe a simulated spot market.
type Interruptions struct {
	// MeanUp is the mean time from a gang's first training step to its interruption.
	MeanUp Duration `json:"mean_up"`
	// Notice is how long before a node's end it is told.
	Notice Duration `json:"notice"`
	// WithoutNotice is the share of interruptions that come without any.
	WithoutNotice Share `json:"without_notice,omitempty"`
}

// Target is where a model is served: exactly one driver key.
type Target struct {
	// Embedded serves from the Sluice process on ONNX Runtime.
	Embedded *EmbeddedTarget `json:"embedded,omitempty"`
}

// EmbeddedTarget serves the Open Inference Protocol on loopback.
type EmbeddedTarget struct {
	// Port to listen on. Default 8080.
	Port int `json:"port,omitempty" dsl:"default=8080,min=1,max=65535"`
}

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
	checkSecrets(src, root, env)
	checkRunner(src, root)
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
