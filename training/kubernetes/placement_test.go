package kubernetes

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/testing/kubetest"
	"github.com/sluiceml/sluice/training"
)

// Pods go to machines with the capacity and the GPUs that are wanted, whoever labelled them.
func TestPlacement(t *testing.T) {
	s := newSite(t, spec.Pool{})
	tainted := []corev1.Taint{{Key: gpuResource, Value: "present", Effect: corev1.TaintEffectNoSchedule}}
	s.AddNode(t, "plain", kubetest.Machine{})
	s.AddNode(t, "gke-l4", kubetest.Machine{GPUs: "8", Taints: tainted, Labels: map[string]string{"cloud.google.com/gke-accelerator": "nvidia-l4"}})
	s.AddNode(t, "gke-l4-spot", kubetest.Machine{GPUs: "8", Labels: map[string]string{
		"cloud.google.com/gke-accelerator": "nvidia-l4", "cloud.google.com/gke-spot": "true",
	}, Taints: []corev1.Taint{{Key: "cloud.google.com/gke-spot", Value: "true", Effect: corev1.TaintEffectNoSchedule}}})
	s.AddNode(t, "eks-a10g", kubetest.Machine{GPUs: "2", Labels: map[string]string{
		"nvidia.com/gpu.product": "NVIDIA-A10G", "karpenter.sh/capacity-type": "on-demand",
	}})
	for i, test := range []struct {
		capacity string
		wants    spec.Resources
		avoid    []string
		on       string
	}{
		{spec.CapacityOnDemand, spec.Resources{GPU: 1}, []string{"plain", "gke-l4"}, "eks-a10g"},
		{spec.CapacityOnDemand, spec.Resources{GPU: 1}, []string{"eks-a10g"}, "gke-l4"},
		{spec.CapacityOnDemand, spec.Resources{GPU: 2, GPUType: []string{"L4", "T4"}}, nil, "gke-l4"},
		{spec.CapacitySpot, spec.Resources{GPU: 2, GPUType: []string{"L4"}}, nil, "gke-l4-spot"},
		{spec.CapacityOnDemand, spec.Resources{GPU: 1, GPUType: []string{"A10G"}}, nil, "eks-a10g"},
		{spec.CapacitySpot, spec.Resources{}, nil, "gke-l4-spot"},
	} {
		r := request(i+1, 1, 1)
		r.Capacity, r.Resources, r.Avoid = test.capacity, test.wants, test.avoid
		gang := s.acquire(r)
		if on := s.pods(r.Key)[gang.Nodes[0].Name].Spec.NodeName; on != test.on {
			t.Errorf("%s with %+v, not on %v, is on %s, want %s", test.capacity, test.wants, test.avoid, on, test.on)
		}
	}
}

// Keys that do not end go into no Secret, unless the pool says so.
func TestKeysThatDoNotEnd(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "of-the-store")
	for _, test := range []struct {
		spec    spec.KubernetesPool
		session string
		refused bool
	}{
		{spec.KubernetesPool{}, "", true},
		{spec.KubernetesPool{}, "ends in an hour", false},
		{spec.KubernetesPool{ServiceAccount: "trainer"}, "", false},
		{spec.KubernetesPool{ShareKeys: true}, "", false},
	} {
		t.Setenv("AWS_SESSION_TOKEN", test.session)
		p := &Pool{opts: Options{Spec: spec.Pool{Kubernetes: &test.spec}}}
		if err := p.checkKeys(); errors.Is(err, training.ErrInvalid) != test.refused {
			t.Errorf("%+v with session %q: %v, want refused %v", test.spec, test.session, err, test.refused)
		}
	}
}

// What a pod is told is in the Secret and nowhere else, and it may do little.
func TestPod(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "of-the-store")
	keys := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keys, []byte("key-of-payloads"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newSite(t, spec.Pool{Kubernetes: &spec.KubernetesPool{ShareKeys: true}})
	s.pool.opts.Agent.CodecKeys = keys
	s.AddNode(t, "m1", kubetest.Machine{})
	r := request(1, 1, 1)
	r.Image = "acme/other:2"
	r.Resources = spec.Resources{CPU: 1.5, Memory: 1 << 30, SHM: 64 << 20}
	gang := s.acquire(r)
	pod := s.pods(r.Key)[gang.Nodes[0].Name]
	raw, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"token of", "of-the-store", "key-of-payloads", "temporal:7233"} {
		if strings.Contains(string(raw), secret) {
			t.Errorf("the pod says %q", secret)
		}
	}
	told, err := s.Client.CoreV1().Secrets(s.namespace).List(bounded(t), metav1.ListOptions{LabelSelector: labelGang})
	if err != nil || len(told.Items) != 1 {
		t.Fatalf("%d secrets, %v, want 1", len(told.Items), err)
	}
	data := told.Items[0].Data
	if string(data["SLUICE_TEMPORAL_TOKEN"]) != "token of node/r1/fit/w" || string(data["AWS_SECRET_ACCESS_KEY"]) != "of-the-store" ||
		string(data[secretCodecKeys]) != "key-of-payloads" {
		t.Errorf("the agent is told %q", data)
	}
	spec := pod.Spec
	c := spec.Containers[0]
	if *spec.AutomountServiceAccountToken || *c.SecurityContext.AllowPrivilegeEscalation || c.Image != r.Image ||
		c.Resources.Limits.Memory().Value() != 1<<30 || c.Resources.Requests.Cpu().MilliValue() != 1500 || *spec.TerminationGracePeriodSeconds < 30 {
		t.Errorf("the pod is %s", raw)
	}
	for _, v := range spec.Volumes {
		if v.Name == "shm" && (v.EmptyDir.Medium != corev1.StorageMediumMemory || v.EmptyDir.SizeLimit.Value() != 64<<20) {
			t.Errorf("/dev/shm is %+v", v.EmptyDir)
		}
	}
}

// What ranks do in a pod is theirs to say, but they are given no more rights than a program needs, and a while to end.
func TestPodRights(t *testing.T) {
	p := New(Options{Spec: spec.Pool{Kubernetes: &spec.KubernetesPool{}}})
	made, err := p.podOf(gang{name: "sluice-g", uid: "01234567-89ab"}, request(1, 1, 1), corev1.PodTemplateSpec{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	pod := made.Spec
	if *pod.AutomountServiceAccountToken {
		t.Error("the pod is given the token of its service account")
	}
	for _, c := range append(pod.InitContainers, pod.Containers...) {
		rights := c.SecurityContext
		if *rights.AllowPrivilegeEscalation || !slices.Equal(rights.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(rights.Capabilities.Add) > 0 ||
			rights.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("%s may do %+v", c.Name, rights)
		}
	}
	if got := *pod.TerminationGracePeriodSeconds; got != 120 {
		t.Errorf("it has %d s to end, want two minutes", got)
	}
	if p.patience != 5*time.Minute || p.imagePatience != 30*time.Second {
		t.Errorf("machines are waited for %v and images %v, want 5m and 30s", p.patience, p.imagePatience)
	}
}

func TestLabelValue(t *testing.T) {
	for text, want := range map[string]string{
		"spam-filter-20261121-2b": "spam-filter-20261121-2b", "käse": "kse", "-a-": "a", "": "", strings.Repeat("ab", 40): strings.Repeat("ab", 31) + "a",
	} {
		if got := labelValue(text); got != want {
			t.Errorf("labelValue(%q) = %q, want %q", text, got, want)
		}
	}
}
