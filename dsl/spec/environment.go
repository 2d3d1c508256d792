package spec

import "reflect"

// Environment names the store, the compute pools and the serving targets; pipelines name pools and targets only.
type Environment struct {
	// Sluice is environment/v1.
	Sluice string `json:"sluice" dsl:"enum=environment/v1"`
	// Name of the environment, for messages.
	Name string `json:"name"`
	// Store holds artifacts and records. Default: a folder in the state folder.
	Store StoreSpec `json:"store,omitzero"`
	// Pools are where training nodes come from.
	Pools map[string]Pool `json:"pools,omitempty" dsl:"labels"`
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
	SetDefaults(reflect.ValueOf(env))
	return env
}

// CleanSettings limit the cleaning's child process and say where its Beam graph runs: at most one of Flink, Spark and Dataflow.
// Without any of them the child works alone, on Beam's own runner for one machine.
type CleanSettings struct {
	// Memory bounds the child's memory, and the heap of the job server it starts. Default 1GiB.
	Memory Size `json:"memory,omitempty" dsl:"default=1GiB"`
	// Flink runs the cleaning on Apache Flink.
	Flink *FlinkRunner `json:"flink,omitempty"`
	// Spark runs the cleaning on Apache Spark, by a job service of its own.
	Spark *JobService `json:"spark,omitempty"`
	// Dataflow runs the cleaning on Google's Dataflow, by a job service of its own.
	Dataflow *JobService `json:"dataflow,omitempty"`
}

// FlinkRunner is Apache Flink behind a job server that is started for each cleaning.
type FlinkRunner struct {
	// Master is the address of a Flink cluster: host:port of its REST interface. Absent: a cluster inside the job server, on this machine.
	Master string `json:"master,omitempty"`
	// JobServer is Beam's job server for that version of Flink: a jar, or a folder of jars. Default: flink in $SLUICE_CACHE.
	JobServer string `json:"job_server,omitempty"`
	// Parallelism is how many slots of the cluster a cleaning takes. Default: one for each CPU of this machine.
	Parallelism int `json:"parallelism,omitempty" dsl:"min=1,max=10000"`
}

// JobService is a service of Beam's job API that runs already.
type JobService struct {
	// Endpoint is its address: host:port.
	Endpoint string `json:"endpoint"`
	// Parallelism is how many slots of the cluster a cleaning takes. Default: one for each CPU of this machine.
	Parallelism int `json:"parallelism,omitempty" dsl:"min=1,max=10000"`
}

// StoreSpec says where the store is.
type StoreSpec struct {
	// URL: file:///folder, or s3://bucket/folder or gs://bucket/folder with what may follow a bucket: ?region= and, for a server that is
	// not AWS's, &endpoint=.
	URL string `json:"url,omitempty"`
}
