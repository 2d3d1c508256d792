package dsl

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/internal/objectstore"
)

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
	// MetricsPort is the port of /metrics, for Prometheus, on loopback. Default: any free one, which `sluice up` and `sluice serve` print.
	MetricsPort int `json:"metrics_port,omitempty" dsl:"min=1,max=65535"`
}

// KServeTarget serves each release as an InferenceService of KServe, behind a gateway of Sluice that splits the traffic.
type KServeTarget struct {
	// Context of the kubeconfig. Default: the current one; inside a cluster, that cluster.
	Context string `json:"context,omitempty"`
	// Namespace of the InferenceServices. Default: the context's.
	Namespace string `json:"namespace,omitempty"`
	// Port the gateway listens on, on loopback. Default 8081.
	Port int `json:"port,omitempty" dsl:"default=8081,min=1,max=65535"`
	// MetricsPort is the port of the gateway's /metrics, for Prometheus, on loopback. Default: any free one, which `sluice up` and
	// `sluice serve` print.
	MetricsPort int `json:"metrics_port,omitempty" dsl:"min=1,max=65535"`
	// Models is a bucket, or a folder of one, that KServe gets copies of the models from: s3://bucket/folder or gs://bucket/folder.
	// Default: serving/ in the store, which then must be in a bucket.
	Models string `json:"models,omitempty"`
	// ServiceAccount is the pods'; its secrets let KServe read the bucket. Default: the namespace's.
	ServiceAccount string `json:"service_account,omitempty"`
	// Server is what answers in the pods: NVIDIA Triton or OpenVINO Model Server. Default triton.
	Server string `json:"server,omitempty" dsl:"enum=triton|openvino,default=triton"`
	// Runtime is the ServingRuntime, or ClusterServingRuntime, with that server. Default: KServe's own, kserve-tritonserver or
	// kserve-openvino.
	Runtime string `json:"runtime,omitempty"`
	// Ingress is the address of the cluster's ingress, http://10.0.0.5, where the names of InferenceServices cannot be resolved.
	Ingress string `json:"ingress,omitempty"`
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

// checkTargets reports two targets on one port, models where KServe cannot be, and addresses that are none.
func checkTargets(src *document.Source, root *yaml.Node, env *Environment) {
	taken := map[int]string{}
	for key, body := range document.Entries(root, "targets") {
		target := env.Targets[key.Value]
		for _, port := range target.Ports() {
			switch other, ok := taken[port]; {
			case ok && other == key.Value:
				src.Errorf(key, "port", "give it another `metrics_port`", "the target `%s` has port %d for its model and for its metrics", key.Value, port)
			case ok:
				src.Errorf(key, "port", "give one of them another `port`", "the targets `%s` and `%s` listen on the same port %d", other, key.Value, port)
			}
			taken[port] = key.Value
		}
		if target.KServe != nil {
			checkKServe(src, key, document.Lookup(body, "kserve"), *target.KServe, env.Store.URL)
		}
	}
}

func checkKServe(src *document.Source, key, body *yaml.Node, t KServeTarget, store string) {
	if t.Models == "" {
		if !objectstore.IsAddress(store) {
			src.Errorf(key, "required", "write such as `models: s3://bucket/folder`, or have the store in a bucket",
				"KServe has nowhere to read the models of `%s` from", key.Value)
		}
	} else if _, err := objectstore.ParseFolder(t.Models); err != nil {
		src.Errorf(document.Lookup(body, "models"), "url", "write such as s3://bucket/folder", "KServe cannot read models there: %v", err)
	}
	if at := document.Lookup(body, "ingress"); at != nil && !strings.HasPrefix(t.Ingress, "http://") && !strings.HasPrefix(t.Ingress, "https://") {
		src.Errorf(at, "url", "write such as http://10.0.0.5", "%q is no address of an ingress", t.Ingress)
	}
}
