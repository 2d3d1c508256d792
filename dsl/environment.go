package dsl

import (
	"reflect"

	"github.com/sluiceml/sluice/dsl/document"
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
func loadEnvironment(src *document.Source, data []byte) *Environment {
	root := src.Parse(data)
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
		src.Errorf(root, "type", "", "%s", err)
		return nil
	}
	eachDriver(src, root, "pools", "pool", "local: {nodes: 2}", poolDrivers)
	eachDriver(src, root, "targets", "target", "embedded: {port: 8080}", targetDrivers)
	setDefaults(reflect.ValueOf(env))
	checkStore(src, root, env)
	checkPools(src, root, env)
	checkTargets(src, root, env)
	checkSecrets(src, root, env)
	checkRunner(src, root)
	return env
}

// LoadEnvironment reads and checks an environment document by itself, for what needs no pipeline. It is nil when a finding is an
// error.
func LoadEnvironment(file document.File) (*Environment, document.Diagnostics) {
	src := document.New(file)
	env := loadEnvironment(src, file.Source)
	src.Findings.Sort()
	if src.Findings.HasErrors() {
		return nil, src.Findings
	}
	return env, src.Findings
}
