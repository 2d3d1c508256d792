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

// Target is where a model is served: exactly one driver key.
type Target struct {
	// Embedded serves from the Sluice process on ONNX Runtime.
	Embedded *EmbeddedTarget `json:"embedded,omitempty"`
	// KServe serves from a Kubernetes cluster that runs KServe.
	KServe *KServeTarget `json:"kserve,omitempty"`
}

// EmbeddedTarget serves the Open Inference Protocol on loopback.
type EmbeddedTarget struct {
	// Port to listen on. Default 8080.
	Port int `json:"port,omitempty" dsl:"default=8080,min=1,max=65535"`
}

// KServeTarget serves each release as an InferenceService of KServe, behind a gateway of Sluice that splits the traffic.
type KServeTarget struct {
	// Context of the kubeconfig. Default: the current one; inside a cluster, that cluster.
	Context string `json:"context,omitempty"`
	// Namespace of the InferenceServices. Default: the context's.
	Namespace string `json:"namespace,omitempty"`
	// Port the gateway listens on. Default 8080.
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
	eachDriver(src, root, "pools", "pool", "local: {nodes: 2}", poolDrivers)
	eachDriver(src, root, "targets", "target", "embedded: {port: 8080}", targetDrivers)
	setDefaults(reflect.ValueOf(env))
	checkStore(src, root, env)
	checkPools(src, root, env)
	checkPorts(src, root, env)
	checkSecrets(src, root, env)
	checkRunner(src, root)
	return env
}

// checkPorts reports two targets on one port.
func checkPorts(src *source, root *yaml.Node, env *Environment) {
	taken := map[int]string{}
	for key := range mappingOf(root, "targets") {
		port, ok := env.Targets[key.Value].port()
		if !ok {
			continue
		}
		if other, ok := taken[port]; ok {
			src.errorf(key, "port", "give one of them another `port`", "the targets `%s` and `%s` listen on the same port %d", other, key.Value, port)
		}
		taken[port] = key.Value
	}
}

// port is the one that the target listens on; ok is false for a target without a driver.
func (t Target) port() (port int, ok bool) {
	switch {
	case t.Embedded != nil:
		return t.Embedded.Port, true
	case t.KServe != nil:
		return t.KServe.Port, true
	}
	return 0, false
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
