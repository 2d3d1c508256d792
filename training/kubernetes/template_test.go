package kubernetes

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/testing/kubetest"
	"github.com/sluiceml/sluice/training/delivery"
	"github.com/sluiceml/sluice/training/kubernetes/podtemplate"
	"github.com/sluiceml/sluice/training/protocol"
)

// Pods go where the pool's template lets them, also in a namespace that enforces the strictest of Kubernetes's Pod Security Standards, and
// where that forbids a pod the error says so.
func TestTemplate(t *testing.T) {
	template := map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{"team": "ml"}},
		"spec": map[string]any{
			"nodeSelector":    map[string]any{"disk": "ssd"},
			"tolerations":     []any{map[string]any{"key": "team", "operator": "Exists"}},
			"securityContext": map[string]any{"runAsNonRoot": true, "runAsUser": 1000},
			"containers":      []any{map[string]any{"name": "ranks", "env": []any{map[string]any{"name": "NCCL_DEBUG", "value": "INFO"}}}},
		},
	}
	s := newSite(t, spec.Pool{Kubernetes: &spec.KubernetesPool{Pod: template}})
	s.restrict()
	s.AddNode(t, "m1", kubetest.Machine{})
	s.AddNode(t, "m2", kubetest.Machine{Labels: map[string]string{"disk": "ssd"}, Taints: []corev1.Taint{{Key: "team", Value: "ml", Effect: corev1.TaintEffectNoSchedule}}})
	r := request(1, 1, 1)
	gang := s.acquire(r)
	pod := s.pods(r.Key)[gang.Nodes[0].Name]
	if pod.Spec.NodeName != "m2" || pod.Annotations["team"] != "ml" || pod.Labels[labelGang] == "" {
		t.Errorf("the pod is on %s, with %v and %v; want m2, the template's annotation and the pool's labels", pod.Spec.NodeName, pod.Annotations, pod.Labels)
	}

	plain := newSite(t, spec.Pool{})
	plain.restrict()
	_, err := plain.pool.Acquire(bounded(t), r)
	if err == nil || !strings.Contains(err.Error(), "violates PodSecurity") || !strings.Contains(err.Error(), "kubernetes.pod") {
		t.Errorf("without a user who is not root: %v, want what is violated and where to set it", err)
	}
	plain.release(r.Key)
}

// restrict has the namespace enforce the Pod Security Standard "restricted".
func (s *site) restrict() {
	s.t.Helper()
	namespaces := s.Client.CoreV1().Namespaces()
	ns, err := namespaces.Get(bounded(s.t), s.namespace, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	if ns.Labels == nil {
		ns.Labels = map[string]string{}
	}
	ns.Labels["pod-security.kubernetes.io/enforce"] = "restricted"
	if _, err := namespaces.Update(bounded(s.t), ns, metav1.UpdateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// The volume of the template keeps what the pods fetch, up to the pool's size; without it nothing is kept.
func TestFileCacheVolume(t *testing.T) {
	volume := map[string]any{"spec": map[string]any{"volumes": []any{map[string]any{"name": "file-cache", "hostPath": map[string]any{"path": "/nvme"}}}}}
	size, none := spec.Size(100<<30), spec.Size(0)
	for _, tt := range []struct {
		name     string
		pool     spec.KubernetesPool
		at, size string
	}{
		{"no volume", spec.KubernetesPool{}, "", ""},
		{"a volume", spec.KubernetesPool{Pod: volume}, cache, "53687091200"},
		{"a size", spec.KubernetesPool{Pod: volume, FileCache: &size}, cache, "107374182400"},
		{"no file", spec.KubernetesPool{Pod: volume, FileCache: &none}, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := New(Options{
				Spec:    spec.Pool{Kubernetes: &tt.pool},
				Environ: func(c protocol.AgentConfig) ([]string, error) { return c.Environ(nil), nil }, Token: func(string, string) string { return "token" },
			})
			template, err := podtemplate.Parse(tt.pool.Pod)
			if err != nil {
				t.Fatal(err)
			}
			g, r := gang{name: "sluice-g", uid: "01234567-89ab"}, request(1, 1, 1)
			secret, err := p.secretOf(g, r, template, delivery.Item{})
			if err != nil {
				t.Fatal(err)
			}
			if at := secret.StringData["SLUICE_NODE_CACHE"]; at != tt.at || at != "" && secret.StringData["SLUICE_NODE_CACHE_SIZE"] != tt.size {
				t.Errorf("the agent is told %q", secret.StringData)
			}
			pod, err := p.podOf(g, r, template, 0)
			if err != nil {
				t.Fatal(err)
			}
			mounted := slices.ContainsFunc(pod.Spec.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool {
				return m.Name == "file-cache" && m.MountPath == cache
			})
			if mounted != (tt.pool.Pod != nil) {
				t.Errorf("the mounts are %v", pod.Spec.Containers[0].VolumeMounts)
			}
		})
	}
}
