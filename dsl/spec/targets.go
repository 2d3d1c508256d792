package spec

import "slices"

// Target is where a model is served: exactly one driver key.
type Target struct {
	// Embedded serves from the Sluice process on ONNX Runtime.
	Embedded *EmbeddedTarget `json:"embedded,omitempty" dsl:"choice"`
	// KServe serves from a Kubernetes cluster that runs KServe.
	KServe *KServeTarget `json:"kserve,omitempty" dsl:"choice"`
}

// EmbeddedTarget serves the Open Inference Protocol on loopback.
type EmbeddedTarget struct {
	// Port to listen on. Default 8080.
	Port int `json:"port,omitempty" dsl:"default=8080,min=1,max=65535"`
	// MetricsPort is the port of /metrics, for Prometheus, on loopback. Default: any free port, which `sluice up` and `sluice serve` print.
	MetricsPort int `json:"metrics_port,omitempty" dsl:"min=1,max=65535"`
	// URL is where clients reach the gateways that `sluice serve` runs for the target, such as the address of a load balancer. With it, workers
	// run no gateway for the target.
	URL string `json:"url,omitempty"`
}

// KServeTarget serves each release as an InferenceService of KServe, behind a gateway of Sluice that splits the traffic.
type KServeTarget struct {
	// Context of the kubeconfig. Default: the current one; inside a cluster, that cluster.
	Context string `json:"context,omitempty"`
	// Namespace of the InferenceServices. Default: the context's.
	Namespace string `json:"namespace,omitempty"`
	// Port on which the gateway listens, on loopback. Default 8081.
	Port int `json:"port,omitempty" dsl:"default=8081,min=1,max=65535"`
	// MetricsPort is the port of the gateway's /metrics, for Prometheus, on loopback. Default: any free port, which `sluice up` and `sluice
	// serve` print.
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
	// Ingress is the URL of the cluster's ingress, such as http://10.0.0.5, if the host names of InferenceServices cannot be resolved.
	Ingress string `json:"ingress,omitempty"`
	// URL is where clients reach the gateways that `sluice serve` runs for the target, such as the address of a load balancer. With it, workers
	// run no gateway for the target.
	URL string `json:"url,omitempty"`
}

// URL is where clients reach gateways that are not a worker's; empty where workers run them.
func (t Target) URL() string {
	switch {
	case t.Embedded != nil:
		return t.Embedded.URL
	case t.KServe != nil:
		return t.KServe.URL
	}
	return ""
}

// Ports are those that the environment gives the target's gateway to listen on; none for a target without a driver.
func (t Target) Ports() []int {
	var ports []int
	switch {
	case t.Embedded != nil:
		ports = []int{t.Embedded.Port, t.Embedded.MetricsPort}
	case t.KServe != nil:
		ports = []int{t.KServe.Port, t.KServe.MetricsPort}
	}
	return slices.DeleteFunc(ports, func(port int) bool { return port == 0 })
}
