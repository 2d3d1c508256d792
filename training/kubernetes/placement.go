package kubernetes

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/protocol"
)

// Variables that a pod sets itself.
const (
	agentQueue = protocol.QueueVariable
	agentHost  = protocol.HostVariable
	agentCPUs  = protocol.CPUsVariable
)

// Kueue's words for a group of pods that it admits as a whole.
const (
	kueueQueue     = "kueue.x-k8s.io/queue-name"
	kueueGroup     = "kueue.x-k8s.io/pod-group-name"
	kueueCount     = "kueue.x-k8s.io/pod-group-total-count"
	kueueRetriable = "kueue.x-k8s.io/retriable-in-group"
	kueueGate      = "kueue.x-k8s.io/admission"
)

// enqueue has Kueue admit the gang as a whole. The gate is Kueue's own, and set here so that no pod starts where Kueue is not there.
func (p *Pool) enqueue(g gang, pod *corev1.Pod) {
	queue := p.opts.Spec.Kubernetes.Queue
	if queue == "" {
		return
	}
	pod.Labels[kueueQueue], pod.Labels[kueueGroup] = queue, g.incarnation()
	pod.Annotations = map[string]string{kueueCount: strconv.Itoa(g.nodes), kueueRetriable: "false"}
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: kueueGate}}
}

// spotLabels are what machines that may be reclaimed have: of Karpenter, of EKS, of GKE and of AKS.
var spotLabels = []struct{ label, value string }{
	{"karpenter.sh/capacity-type", "spot"},
	{"eks.amazonaws.com/capacityType", "SPOT"},
	{"cloud.google.com/gke-spot", "true"},
	{"kubernetes.azure.com/scalesetpriority", "spot"},
}

// affinity is for machines with the capacity and the GPUs that are wanted, and none on which a GPU broke. On-demand is whatever is not known
// to be spot.
func (p *Pool) affinity(r training.Request) *corev1.Affinity {
	var capacity [][]corev1.NodeSelectorRequirement // one of them, and of each all
	if r.Capacity == spec.CapacitySpot {
		for _, l := range spotLabels {
			capacity = append(capacity, []corev1.NodeSelectorRequirement{oneOf(l.label, l.value)})
		}
	} else {
		var all []corev1.NodeSelectorRequirement
		for _, l := range spotLabels {
			all = append(all, corev1.NodeSelectorRequirement{Key: l.label, Operator: corev1.NodeSelectorOpNotIn, Values: []string{l.value}})
		}
		capacity = append(capacity, all)
	}
	gpus := gpuLabels(p.gpuTypes(r))
	if r.Resources.GPU == 0 || len(gpus) == 0 {
		gpus = [][]corev1.NodeSelectorRequirement{nil}
	}
	var avoid []corev1.NodeSelectorRequirement
	for _, machine := range r.Avoid {
		avoid = append(avoid, corev1.NodeSelectorRequirement{Key: "metadata.name", Operator: corev1.NodeSelectorOpNotIn, Values: []string{machine}})
	}
	var terms []corev1.NodeSelectorTerm
	for _, c := range capacity {
		for _, g := range gpus {
			terms = append(terms, corev1.NodeSelectorTerm{MatchExpressions: slices.Concat(c, g), MatchFields: avoid})
		}
	}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
	}}
}

// gpuTypes are the models that will do: those of the step which the pool's machines have.
func (p *Pool) gpuTypes(r training.Request) []string {
	has, wants := p.opts.Spec.Node.GPUType, r.Resources.GPUType
	switch {
	case has == "":
		return wants
	case len(wants) == 0 || slices.ContainsFunc(wants, func(t string) bool { return strings.EqualFold(t, has) }):
		return []string{has}
	}
	return nil
}

// gpuLabels are the labels of machines with one of the models: of NVIDIA's GPU feature discovery, of GKE and of Karpenter on AWS.
func gpuLabels(types []string) [][]corev1.NodeSelectorRequirement {
	if len(types) == 0 {
		return nil
	}
	var product, accelerator, name []string
	for _, t := range types {
		low := strings.ToLower(t)
		product = append(product, t, "NVIDIA-"+t, "Tesla-"+t)
		accelerator = append(accelerator, low, "nvidia-"+low, "nvidia-tesla-"+low)
		name = append(name, low)
	}
	return [][]corev1.NodeSelectorRequirement{
		{oneOf("nvidia.com/gpu.product", product...)},
		{oneOf("cloud.google.com/gke-accelerator", accelerator...)},
		{oneOf("karpenter.k8s.aws/instance-gpu-name", name...)},
	}
}

func oneOf(label string, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: label, Operator: corev1.NodeSelectorOpIn, Values: values}
}

// tolerations are for the taints by which clouds keep others off such machines.
func tolerations(r training.Request) []corev1.Toleration {
	var tolerated []corev1.Toleration
	if r.Resources.GPU > 0 {
		tolerated = append(tolerated, corev1.Toleration{Key: gpuResource, Operator: corev1.TolerationOpExists})
	}
	if r.Capacity == spec.CapacitySpot {
		for _, l := range spotLabels {
			tolerated = append(tolerated, corev1.Toleration{Key: l.label, Operator: corev1.TolerationOpEqual, Value: l.value})
		}
	}
	return tolerated
}

// storeVariables are how this process reaches the store, where that is by keys in its environment.
var storeVariables = []string{
	"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION",
	"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3",
}

// checkKeys refuses to put keys that do not end into a Secret, unless the pool says so.
func (p *Pool) checkKeys() error {
	spec := p.opts.Spec.Kubernetes
	if spec.ServiceAccount != "" || spec.ShareKeys || os.Getenv("AWS_SECRET_ACCESS_KEY") == "" || os.Getenv("AWS_SESSION_TOKEN") != "" {
		return nil
	}
	return fmt.Errorf("%w: the pods would get the worker's AWS keys, which do not expire, in a Secret\nhelp: set a `service_account` with access to the store for the pool, "+
		"or write `share_keys: true` in its `kubernetes`", training.ErrInvalid)
}

// variables is the environment that all agents share. A pool that names a service account has its pods reach the store by that;
// others get the keys that this process has.
func (p *Pool) variables(environ []string) map[string]string {
	found := map[string]string{}
	if p.opts.Spec.Kubernetes.ServiceAccount == "" {
		for _, name := range storeVariables {
			if value := os.Getenv(name); value != "" {
				found[name] = value
			}
		}
	}
	for _, kv := range environ {
		if name, value, _ := strings.Cut(kv, "="); value != "" && !slices.Contains([]string{agentQueue, agentHost, agentCPUs}, name) {
			found[name] = value
		}
	}
	return found
}
