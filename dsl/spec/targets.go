package spec

import "slices"

// Target is where a model is served: exactly one driver key, and the front door.
type Target struct {
	// Embedded serves from the Sluice process on ONNX Runtime.
	Embedded *EmbeddedTarget `json:"embedded,omitempty" dsl:"choice"`
	// External serves from servers that somebody else runs.
	External *ExternalTarget `json:"external,omitempty" dsl:"choice"`
	// Process serves from processes of a command of yours.
	Process *ProcessTarget `json:"process,omitempty" dsl:"choice"`
	// Triton serves from an NVIDIA Triton Inference Server that somebody else runs.
	Triton *TritonTarget `json:"triton,omitempty" dsl:"choice"`
	// KServe serves from a Kubernetes cluster that runs KServe.
	KServe *KServeTarget `json:"kserve,omitempty" dsl:"choice"`
	// Gateway is where the target's gateways listen, and who may ask for what. Default: everyone on this machine.
	Gateway TargetGateway `json:"gateway,omitzero"`
}

// EmbeddedTarget serves the Open Inference Protocol from the Sluice process.
type EmbeddedTarget struct {
	// Port to listen on. Default 8080.
	Port int `json:"port,omitempty" dsl:"default=8080,min=1,max=65535"`
	// MetricsPort is the port of /metrics, for Prometheus. Default: any free port, which `sluice up` and `sluice serve` print.
	MetricsPort int `json:"metrics_port,omitempty" dsl:"min=1,max=65535"`
	// URL is where clients reach the gateways that `sluice serve` runs for the target, such as the address of a load balancer. With it, workers
	// run no gateway for the target.
	URL string `json:"url,omitempty"`
	// Threads of one inference. Default 1.
	Threads int `json:"threads,omitempty" dsl:"default=1,min=1,max=1024"`
	// Provider is the execution provider of ONNX Runtime that computes what it can of a model; the rest is computed on the CPU. Of a list, the
	// first that loads the model. cuda and tensorrt need a library that has them, named by $SLUICE_ONNXRUNTIME, tensorrt_rtx the Python package
	// onnxruntime-ep-nv-tensorrt-rtx-cu13, and all of them an NVIDIA GPU. Default cpu.
	Provider Providers `json:"provider,omitempty" dsl:"single,default=cpu,enum=cpu|cuda|tensorrt|tensorrt_rtx"`
	// Instances is how many inferences of a release run at once. Default: the machine's processors, divided by `threads`.
	Instances int `json:"instances,omitempty" dsl:"min=1,max=1024"`
	// Batching joins requests that arrive together into one inference.
	Batching Batching `json:"batching,omitzero"`
}

// Batching joins requests whose tensors differ only in their first dimension. A model whose first dimensions are not open, or whose answer
// to a row depends on other rows, gets each request by itself.
type Batching struct {
	// MaxBatch bounds the rows of an inference of several requests; 1 turns batching off. Default: 32 for a model whose answers do not depend on
	// the rows that run with them, and 1 for any other, such as most models with dynamic quantisation.
	MaxBatch int `json:"max_batch,omitempty" dsl:"min=1,max=65536"`
	// MaxDelay bounds how long requests wait for others while the model has nothing to do. They wait only after an inference of several
	// requests, and for no more than a quarter of the time that an inference takes. It is longer than 0. Default 5ms.
	MaxDelay Duration `json:"max_delay,omitempty" dsl:"default=5ms"`
	// Preferred sizes of an inference, in rows: a batch has the largest of them that the waiting requests fill.
	Preferred []int `json:"preferred,omitempty" dsl:"min=1"`
	// MaxQueue bounds the requests that wait; further ones are answered with status 429. Default 256.
	MaxQueue int `json:"max_queue,omitempty" dsl:"default=256,min=1"`
	// TargetP99 is the longest that 99% of the requests' inferences should take, without the wait before: `max_batch` goes down a step when
	// the 99th percentile of 10 s is longer, and up again when it is shorter than 80% of this. Default: none.
	TargetP99 Duration `json:"target_p99,omitempty"`
}

// DefaultMaxBatch is that of a model whose answers do not depend on the rows that run with them.
const DefaultMaxBatch = 32

// KServeTarget serves each release as an InferenceService of KServe, behind a gateway of Sluice that splits the traffic.
type KServeTarget struct {
	// Context of the kubeconfig. Default: the current one; inside a cluster, that cluster.
	Context string `json:"context,omitempty"`
	// Namespace of the InferenceServices. Default: the context's.
	Namespace string `json:"namespace,omitempty"`
	// Port on which the gateway listens. Default 8081.
	Port int `json:"port,omitempty" dsl:"default=8081,min=1,max=65535"`
	// MetricsPort is the port of the gateway's /metrics, for Prometheus. Default: any free port, which `sluice up` and `sluice serve` print.
	MetricsPort int `json:"metrics_port,omitempty" dsl:"min=1,max=65535"`
	// Models is a bucket, or a folder of one, from which KServe reads copies of the models: s3://bucket/folder or gs://bucket/folder.
	// Default: serving/ in the store, which then must be in a bucket.
	Models string `json:"models,omitempty"`
	// ServiceAccount is the ServiceAccount of the pods; its secrets, or its role, give KServe access to the bucket. Default: the
	// namespace's.
	ServiceAccount string `json:"service_account,omitempty"`
	// Server is the model server in the pods: NVIDIA Triton or OpenVINO Model Server. Default triton.
	Server string `json:"server,omitempty" dsl:"enum=triton|openvino,default=triton"`
	// Runtime is the ServingRuntime, or ClusterServingRuntime, with that server. Default: KServe's own, kserve-tritonserver or
	// kserve-openvino.
	Runtime string `json:"runtime,omitempty"`
	// Predictor is the predictor of KServe's InferenceServices: minReplicas, maxReplicas, scaleMetric, scaleTarget and autoScaling, node
	// selectors, affinity, tolerations, volumes, labels and annotations of the pods, and in `model` the resources, environment, arguments and
	// image of the server. It applies to the releases of later rollouts. What Sluice sets itself cannot be overridden.
	Predictor map[string]any `json:"predictor,omitempty" dsl:"raw"`
	// Ingress is the URL of the cluster's ingress, such as http://10.0.0.5, if the host names of InferenceServices cannot be resolved.
	Ingress string `json:"ingress,omitempty"`
	// URL is where clients reach the gateways that `sluice serve` runs for the target, such as the address of a load balancer. With it, workers
	// run no gateway for the target.
	URL string `json:"url,omitempty"`
}

// URL is where clients reach gateways that are not a worker's; empty where workers run them.
func (t Target) URL() string {
	_, _, url := t.place()
	return *url
}

// place is where the driver says that gateways listen, and where others do. The driver is t's own from then on, so that what is changed there
// changes no other target.
func (t *Target) place() (port, metricsPort *int, url *string) {
	switch {
	case t.Embedded != nil:
		t.Embedded = new(*t.Embedded)
		return &t.Embedded.Port, &t.Embedded.MetricsPort, &t.Embedded.URL
	case t.External != nil:
		t.External = new(*t.External)
		return &t.External.Port, &t.External.MetricsPort, &t.External.URL
	case t.Process != nil:
		t.Process = new(*t.Process)
		return &t.Process.Port, &t.Process.MetricsPort, &t.Process.URL
	case t.Triton != nil:
		t.Triton = new(*t.Triton)
		return &t.Triton.Port, &t.Triton.MetricsPort, &t.Triton.URL
	case t.KServe != nil:
		t.KServe = new(*t.KServe)
		return &t.KServe.Port, &t.KServe.MetricsPort, &t.KServe.URL
	}
	return new(int), new(int), new(string)
}

// The protocols of targets.
const (
	ProtocolOIP    = "oip"
	ProtocolHTTP   = "http"
	ProtocolOpenAI = "openai"
)

// Protocol is what the target's clients speak.
func (t Target) Protocol() string {
	switch {
	case t.External != nil:
		return t.External.Protocol
	case t.Process != nil:
		return t.Process.Protocol
	}
	return ProtocolOIP
}

// Port is one that the environment gives a target's gateway to listen on, and the key for it.
type Port struct {
	Key string
	// Host is the address to listen at; empty for loopback.
	Host   string
	Number int
}

// Ports are all those that the environment gives.
func (t Target) Ports() []Port {
	port, metricsPort, _ := t.place()
	g := t.Gateway
	all := []Port{{"port", g.Listen, *port}, {"metrics_port", g.MetricsListen, *metricsPort}, {"admin_port", "", g.AdminPort}}
	return slices.DeleteFunc(all, func(p Port) bool { return p.Number == 0 })
}

// SharesPort reports whether two targets cannot be served side by side.
func (t Target) SharesPort(other Target) bool {
	return slices.ContainsFunc(t.Ports(), func(p Port) bool {
		return slices.ContainsFunc(other.Ports(), func(o Port) bool { return o.Number == p.Number })
	})
}
