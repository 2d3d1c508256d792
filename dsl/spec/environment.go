package spec

import "reflect"

// Environment defines the store, pools, targets, people and secrets; pipelines refer to them by name.
type Environment struct {
	// Sluice is environment/v1.
	Sluice string `json:"sluice" dsl:"enum=environment/v1"`
	// Name of the environment, for messages.
	Name string `json:"name"`
	// Store holds artifacts and records. Default: a folder in the state folder.
	Store StoreSpec `json:"store,omitzero"`
	// Pools are the pools that provide training nodes.
	Pools map[string]Pool `json:"pools,omitempty" dsl:"labels"`
	// Targets are the targets that serve models.
	Targets map[string]Target `json:"targets,omitempty" dsl:"names"`
	// Prometheus is the URL of the Prometheus server that the queries of rollouts are asked of: http://prometheus:9090.
	Prometheus string `json:"prometheus,omitempty"`
	// Clean is the Beam runner and its limits.
	Clean CleanSettings `json:"clean,omitzero"`
	// Limits bound the steps that run beside a worker. Default: no limits.
	Limits WorkerLimits `json:"limits,omitzero"`
	// Secrets are the sources of secrets, by name. A pipeline has only the names.
	Secrets map[string]SecretSource `json:"secrets,omitempty"`
	// Vault is the Vault server for `vault` secrets.
	Vault Vault `json:"vault,omitzero"`
	// People are groups of people who may decide, by the names that `who` uses: "group:data".
	People map[string]Person `json:"people,omitempty"`
	// SMTP is the mail server for e-mail notifications.
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
	SetDefaults(reflect.ValueOf(env))
	return env
}

// CleanSettings limit the cleaning's child process and say where its Beam graph runs. Without Flink the child works alone, on Beam's own
// runner for one machine.
type CleanSettings struct {
	// Memory is the memory limit of the cleaning process, and of the heap of the job server that it starts. Default 1GiB.
	Memory Size `json:"memory,omitempty" dsl:"default=1GiB"`
	// Flink runs the cleaning on Apache Flink.
	Flink *FlinkRunner `json:"flink,omitempty"`
}

// FlinkRunner is Apache Flink behind a job server that is started for each cleaning.
type FlinkRunner struct {
	// Master is the address of a Flink cluster: host:port of its REST interface. Default: a cluster inside the job server, on this machine.
	Master string `json:"master,omitempty"`
	// JobServer is Beam's job server for that version of Flink: a jar, or a folder of jars. Default: flink in $SLUICE_CACHE.
	JobServer string `json:"job_server,omitempty"`
	// Parallelism is the number of slots of the cluster that a cleaning takes. Default: one for each CPU of this machine.
	Parallelism int `json:"parallelism,omitempty" dsl:"min=1,max=10000"`
}

// StoreSpec says where the store is.
type StoreSpec struct {
	// URL: file:///folder, s3://bucket/folder or gs://bucket/folder; for s3 with ?region= and, for a server other than AWS, &endpoint=.
	URL string `json:"url,omitempty"`
}
