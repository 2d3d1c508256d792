package spec

// Listener is where the gateway of a target listens, and where clients find it.
type Listener struct {
	// Port on which the gateway listens. Default 8082.
	Port int `json:"port,omitempty" dsl:"default=8082,min=1,max=65535"`
	// MetricsPort is the port of the gateway's /metrics, for Prometheus. Default: any free port, which `sluice up` and `sluice serve` print.
	MetricsPort int `json:"metrics_port,omitempty" dsl:"min=1,max=65535"`
	// URL is where clients reach the gateways that `sluice serve` runs for the target, such as the address of a load balancer. With it, workers
	// run no gateway for the target.
	URL string `json:"url,omitempty"`
}

// Server says how the server of a release is asked.
type Server struct {
	// Protocol of the server, and of the target's clients: `oip` is the Open Inference Protocol. Requests of `http` and `openai` are passed on
	// unread; `openai` also measures the tokens of answers that are streamed. Default oip.
	Protocol string `json:"protocol,omitempty" dsl:"enum=oip|http|openai,default=oip"`
	// Model is the name that the server has for the model, with `oip`. Default: the target's name.
	Model string `json:"model,omitempty"`
	// Health is the path that the server answers with a status from 200 to 299 while it is healthy. Default: that of the model with `oip`, else
	// /health.
	Health string `json:"health,omitempty"`
	// ReadyWithin is how long the server of a new release may take to be healthy. Default 5m.
	ReadyWithin Duration `json:"ready_within,omitempty" dsl:"default=5m"`
	// Timeout of an inference; with `http` and `openai`, until an answer begins and between two parts of it. Default 30s.
	Timeout Duration `json:"timeout,omitempty" dsl:"default=30s"`
}

// ExternalTarget serves each release from a server that somebody else runs, behind a gateway of Sluice that splits the traffic. Exactly one
// of `server` and `servers` says where.
type ExternalTarget struct {
	Listener
	Server
	// At is the URL of the server of a release. In it, `${release}` is the number of the release, and `${model}` the first 12 digits of the
	// model's digest.
	At string `json:"server,omitempty" dsl:"raw"`
	// Servers are the URLs of two servers that releases use in turn: a new release gets the one that does not serve.
	Servers []string `json:"servers,omitempty"`
}

// ProcessTarget serves each release from a process of a command, on the machine of the gateway.
type ProcessTarget struct {
	Listener
	Server
	// Command starts a server on 127.0.0.1 and `${port}`, with the model in the folder `${model.path}`. It is run without a shell: programs
	// without a slash are looked up in PATH, and relative paths begin where the gateway was started.
	Command []string `json:"command" dsl:"raw"`
	// Env are environment variables of the process, in which `${model.path}` and `${port}` stand for the same. Of the gateway's own it gets only
	// those that say where things are, such as PATH and HOME.
	Env map[string]string `json:"env,omitempty" dsl:"raw"`
}

// TritonTarget serves each release from an NVIDIA Triton Inference Server that somebody else runs, as a model of its own, behind a gateway of
// Sluice that splits the traffic. Triton must have been started with `--model-control-mode=explicit`.
type TritonTarget struct {
	Listener
	// Server is the URL of Triton's HTTP port.
	Server string `json:"server"`
	// Repository is Triton's model repository (its `--model-repository`): the absolute path of a folder as the gateway's machine has it, or a
	// folder of a bucket, such as s3://bucket/models.
	Repository string `json:"repository"`
	// MaxBatch is the most rows that Triton joins into an inference of an ONNX model, and the most in a request, for models whose tensors all
	// have an open first dimension. Default: what Triton decides.
	MaxBatch int `json:"max_batch,omitempty" dsl:"min=1,max=65536"`
	// ReadyWithin is how long a new release may take to be loaded. Default 5m.
	ReadyWithin Duration `json:"ready_within,omitempty" dsl:"default=5m"`
	// Timeout of an inference. Default 30s.
	Timeout Duration `json:"timeout,omitempty" dsl:"default=30s"`
}
