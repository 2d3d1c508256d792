package dsl

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
	// Clean sets the Beam runner's limits.
	Clean CleanSettings `json:"clean,omitzero"`
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
}

// Interruptions describe a simulated spot market.
type Interruptions struct {
	// MeanUp is the mean time a gang's first interruption comes after its nodes are up.
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

// CleanSettings limit the cleaning's child process.
type CleanSettings struct {
	// Memory bounds the child's memory. Default 1GiB.
	Memory Size `json:"memory,omitempty" dsl:"default=1GiB"`
}
