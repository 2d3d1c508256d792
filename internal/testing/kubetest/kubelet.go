package kubetest

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
)

// Kubelet plays a machine: it runs the pods that the scheduler binds to its node as processes of this machine. Init containers run
// before the container; folders that volumes are mounted at are replaced by temporary ones wherever environment and arguments name
// them; environment variables come from values, the pod's own fields and secrets. A pod that is deleted gets SIGTERM and its grace
// period.
//
// Images that begin with "missing/" cannot be pulled, nor can those that begin with "away/" until their registry is back.
type Kubelet struct {
	// Name of the node.
	Name string

	cluster *Cluster
	dir     string
	address string

	registry atomic.Bool // it is back

	mu   sync.Mutex
	pods map[types.UID]*pod
	work sync.WaitGroup
}

// Machine describes a node.
type Machine struct {
	Labels map[string]string
	Taints []corev1.Taint
	// CPU, Memory and GPUs, as Kubernetes writes quantities. Default: 8, 16Gi and 0.
	CPU, Memory, GPUs string
	// Address is the pods'. Default: the loopback.
	Address string
}

// AddNode gives the cluster a node until the test ends. Then nothing that it ran runs any more.
func (c *Cluster) AddNode(t testing.TB, name string, m Machine) *Kubelet {
	t.Helper()
	k := &Kubelet{Name: name, cluster: c, dir: t.TempDir(), address: cmp.Or(m.Address, "127.0.0.1"), pods: map[types.UID]*pod{}}
	has := corev1.ResourceList{
		corev1.ResourceCPU:    quantity(m.CPU, "8"),
		corev1.ResourceMemory: quantity(m.Memory, "16Gi"),
		corev1.ResourcePods:   resource.MustParse("110"),
		"nvidia.com/gpu":      quantity(m.GPUs, "0"),
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: m.Labels},
		Spec:       corev1.NodeSpec{Taints: m.Taints},
		Status: corev1.NodeStatus{
			Capacity: has, Allocatable: has,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	if _, err := c.Client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(func() {
		err := c.Client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
		stop()
		k.work.Wait()
		if err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("remove node %s: %v", name, err)
		}
	})
	k.watch(ctx)
	return k
}

func quantity(text, otherwise string) resource.Quantity {
	return resource.MustParse(cmp.Or(text, otherwise))
}

// watch follows the pods of the node until ctx ends.
func (k *Kubelet) watch(ctx context.Context) {
	list := cache.NewListWatchFromClient(k.cluster.Client.CoreV1().RESTClient(), "pods", metav1.NamespaceAll,
		fields.OneTermEqualSelector("spec.nodeName", k.Name))
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: list, ObjectType: &corev1.Pod{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { k.see(ctx, o.(*corev1.Pod)) },
			UpdateFunc: func(_, o any) { k.see(ctx, o.(*corev1.Pod)) },
			DeleteFunc: func(o any) {
				if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
					o = gone.Obj
				}
				k.forget(o.(*corev1.Pod))
			},
		},
	})
	k.work.Go(func() { informer.RunWithContext(ctx) })
}

// see starts a pod that is new, and ends one that is being deleted.
func (k *Kubelet) see(ctx context.Context, spec *corev1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.pods[spec.UID]
	if p == nil {
		if spec.Status.Phase == corev1.PodSucceeded || spec.Status.Phase == corev1.PodFailed {
			return
		}
		own, cancel := context.WithCancelCause(ctx)
		p = &pod{kubelet: k, spec: spec, life: ctx, ctx: own, kill: cancel}
		k.pods[spec.UID] = p
		k.work.Go(p.live)
	}
	if at := spec.DeletionTimestamp; at != nil {
		p.terminate(time.Duration(*spec.DeletionGracePeriodSeconds) * time.Second)
	}
}

// forget kills at once what is left of a pod that is gone from the API.
func (k *Kubelet) forget(spec *corev1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p := k.pods[spec.UID]; p != nil {
		p.kill(errDeleted)
		delete(k.pods, spec.UID)
	}
}

// Running counts the node's pods of a namespace, with that label and value, of which a process runs.
func (k *Kubelet) Running(namespace, label, value string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for _, p := range k.pods {
		if p.spec.Namespace == namespace && p.spec.Labels[label] == value && p.running() {
			n++
		}
	}
	return n
}

// Crash kills a pod's container, as a machine without memory does.
func (k *Kubelet) Crash(namespace, name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.pods {
		if p.spec.Namespace == namespace && p.spec.Name == name {
			p.crash()
		}
	}
}

// report changes a pod's status.
func (k *Kubelet) report(p *corev1.Pod, change func(*corev1.PodStatus)) error {
	pods := k.cluster.Client.CoreV1().Pods(p.Namespace)
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		current, err := pods.Get(ctx, p.Name, metav1.GetOptions{})
		if err != nil || current.UID != p.UID {
			return unlessGone(err)
		}
		change(&current.Status)
		_, err = pods.UpdateStatus(ctx, current, metav1.UpdateOptions{})
		return unlessGone(err)
	})
}

// unlessGone makes nothing of the news that something is gone.
func unlessGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// folder is where a volume of a pod is.
func (k *Kubelet) folder(p *corev1.Pod, volume string) (string, error) {
	dir := fmt.Sprintf("%s/%s/%s", k.dir, p.UID, volume)
	return dir, os.MkdirAll(dir, 0o700)
}

// secret reads one of a pod's namespace.
func (k *Kubelet) secret(ctx context.Context, p *corev1.Pod, name string) (map[string][]byte, error) {
	s, err := k.cluster.Client.CoreV1().Secrets(p.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return s.Data, nil
}

// RegistryIsBack lets the machine pull images that begin with "away/".
func (k *Kubelet) RegistryIsBack() { k.registry.Store(true) }

// unpullable says why an image cannot be pulled; empty when it can.
func (k *Kubelet) unpullable(image string) string {
	switch {
	case strings.HasPrefix(image, "missing/"):
		return "failed to pull " + image + ": not found"
	case strings.HasPrefix(image, "away/") && !k.registry.Load():
		return "failed to pull " + image + ": dial tcp 10.0.0.9:443: i/o timeout"
	}
	return ""
}
