package kubernetes

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/testing/kubetest"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/delivery"
)

func isNoCapacity(err error) bool { return errors.Is(err, training.ErrNoCapacity) }

// A refusal has its type, says why, and leaves nothing behind.
func TestRefusals(t *testing.T) {
	gpu := func(types ...string) training.Request {
		r := request(1, 1, 1)
		r.Resources = spec.Resources{GPU: 1, GPUType: types}
		return r
	}
	large := request(1, 1, 1)
	large.Resources.Memory = 4 << 30
	ofClass := &spec.KubernetesPool{Pod: map[string]any{"spec": map[string]any{"priorityClassName": "nope"}}}
	for _, test := range []struct {
		name   string
		spec   spec.Pool
		before func(*testing.T, *site)
		ask    training.Request
		want   error
		says   string
	}{
		{
			name: "image that is not there", spec: spec.Pool{Runtime: spec.Runtime{Image: "missing/train:1"}}, ask: request(1, 2, 2),
			want: training.ErrInvalid, says: "missing/train:1",
		},
		{
			name: "registry that is away", spec: spec.Pool{Runtime: spec.Runtime{Image: "away/train:1"}}, ask: request(1, 2, 2),
			want: training.ErrNotStarted, says: "i/o timeout",
		},
		{name: "no machine has it", ask: gpu("L4"), want: training.ErrNoCapacity, says: "affinity"},
		{name: "machines are too small", spec: spec.Pool{Node: spec.NodeShape{GPUType: "L4"}}, ask: gpu("A10G"), want: training.ErrTooLarge, says: "L4"},
		{
			name: "dearer than the limit", spec: spec.Pool{Limits: spec.PoolLimits{USDPerHour: 3}, USDPerHour: spec.Prices{OnDemand: 2}},
			ask: request(1, 2, 2), want: training.ErrTooLarge, says: "limited to 1",
		},
		{name: "quota", before: withQuota, ask: request(1, 3, 3), want: training.ErrQuota, says: "exceeded quota"},
		{name: "no permission", before: asNobody, ask: request(1, 1, 1), want: training.ErrPermission, says: `cannot get resource "configmaps"`},
		{name: "more than a pod may have", before: withLimitRange, ask: large, want: training.ErrInvalid, says: "maximum memory usage per Container"},
		{name: "priority class that is not there", spec: spec.Pool{Kubernetes: ofClass}, ask: request(1, 1, 1), want: training.ErrInvalid, says: "no PriorityClass"},
		{name: "no image at all", before: withoutImage, ask: request(1, 1, 1), want: training.ErrInvalid, says: "sets an image"},
		{name: "agent that is another", before: withWrongAgent, ask: request(1, 1, 1), want: training.ErrNotStarted, says: "container agent"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSite(t, test.spec)
			s.pool.patience, s.pool.imagePatience = 2*time.Second, time.Second
			s.AddNode(t, "m1", kubetest.Machine{})
			if test.before != nil {
				test.before(t, s)
			}
			_, err := s.pool.Acquire(bounded(t), test.ask)
			if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("Acquire: %v, want %v and %q", err, test.want, test.says)
			}
			s.nothingLeft()
		})
	}
}

// A registry that is away for a while is got over: within the patience for images by the gang that waits for it, and else by the next one that
// is asked for, as a step does for `retry_for`.
func TestRegistryComesBack(t *testing.T) {
	for name, patience := range map[string]time.Duration{"while the gang waits": time.Minute, "when it is asked for again": time.Second} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, spec.Pool{Runtime: spec.Runtime{Image: "away/train:1"}})
			s.pool.imagePatience = patience
			machine := s.AddNode(t, "m1", kubetest.Machine{})
			r := request(1, 2, 2)
			waits := make(chan error, 1)
			go func() {
				_, err := s.pool.Acquire(bounded(t), r)
				waits <- err
			}()
			kubetest.Eventually(t, "the pods back off", func(context.Context) bool {
				return slices.ContainsFunc(slices.Collect(maps.Values(s.pods(r.Key))), func(p corev1.Pod) bool {
					why, fatal := imageTrouble(&p)
					return strings.Contains(why, "ImagePullBackOff") && !fatal
				})
			})
			if patience == time.Second {
				if err := <-waits; training.RefusalOf(err) != training.ErrNotStarted {
					t.Fatalf("Acquire: %v, want ErrNotStarted", err)
				}
				s.nothingLeft()
			}
			machine.RegistryIsBack()
			if patience == time.Minute {
				if err := <-waits; err != nil {
					t.Fatalf("Acquire, when the registry is back: %v", err)
				}
			}
			if gang := s.acquire(r); len(gang.Nodes) != 2 {
				t.Errorf("%d nodes, want 2", len(gang.Nodes))
			}
		})
	}
}

// withQuota lets the namespace have two pods.
func withQuota(t *testing.T, s *site) {
	quotas := s.Client.CoreV1().ResourceQuotas(s.namespace)
	hard := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("2")}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "team"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}
	if _, err := quotas.Create(bounded(t), quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	kubetest.Eventually(t, "the quota counts", func(ctx context.Context) bool {
		q, err := quotas.Get(ctx, "team", metav1.GetOptions{})
		return err == nil && len(q.Status.Hard) > 0
	})
}

// withLimitRange lets a container have a gigabyte.
func withLimitRange(t *testing.T, s *site) {
	limit := corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Max: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}}
	limits := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "team"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{limit}}}
	if _, err := s.Client.CoreV1().LimitRanges(s.namespace).Create(bounded(t), limits, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func asNobody(t *testing.T, s *site) { s.pool.opts.Client = s.As(t, "nobody").CoreV1() }

func withoutImage(_ *testing.T, s *site) { s.pool.opts.Spec.Runtime = spec.Runtime{} }

// withWrongAgent lends something else than it announces.
func withWrongAgent(_ *testing.T, s *site) {
	lend := s.pool.opts.Program
	s.pool.opts.Program = func(ctx context.Context, life time.Duration) (delivery.Item, error) {
		it, err := lend(ctx, life)
		it.SHA256 = strings.Repeat("0", 64)
		return it, err
	}
}

// A gang that may be smaller is as large as there are machines for.
func TestAsManyAsThereAreMachines(t *testing.T) {
	s := newSite(t, spec.Pool{})
	s.pool.patience = 2 * time.Second
	s.AddNode(t, "m1", kubetest.Machine{CPU: "2"})
	r := request(1, 1, 4)
	r.Resources.CPU = 1
	if gang := s.acquire(r); len(gang.Nodes) != 2 {
		t.Errorf("%d nodes, want the 2 that there is room for", len(gang.Nodes))
	}
	if pods := s.pods(r.Key); len(pods) != 2 {
		t.Errorf("%d pods, want 2", len(pods))
	}
}

// A gang that was asked for as spot makes way for one on demand, and what its pods on machines cost is not lost, whether or not the other
// gets its machines.
func TestReplacedGangIsPaidFor(t *testing.T) {
	for name, nodes := range map[string]int{"the other starts": 1, "the other does not": 2} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, spec.Pool{USDPerHour: spec.Prices{OnDemand: 3, Spot: 1}})
			s.AddNode(t, "m1", kubetest.Machine{CPU: "1", Labels: map[string]string{spotLabels[0].label: spotLabels[0].value}})
			s.AddNode(t, "m2", kubetest.Machine{CPU: "1"})
			r := request(1, 2, 2)
			r.Capacity, r.Resources.CPU = spec.CapacitySpot, 1
			ctx, cancel := context.WithCancel(bounded(t))
			failed := make(chan error, 1)
			go func() {
				_, err := s.pool.Acquire(ctx, r)
				failed <- err
			}()
			kubetest.Eventually(t, "one of two pods runs", func(context.Context) bool {
				n := 0
				for _, pod := range s.pods(r.Key) {
					if runs(&pod) {
						n++
					}
				}
				return n == 1
			})
			cancel() // as when the time for spot is over
			if err := <-failed; err == nil {
				t.Fatal("a gang of two has started on a machine for one")
			}
			r.Capacity, r.MinNodes, r.MaxNodes = spec.CapacityOnDemand, nodes, nodes
			s.pool.patience = 2 * time.Second
			gang, err := s.pool.Acquire(bounded(t), r)
			t.Cleanup(func() { s.release(r.Key) })
			ended := gang.Ended
			if failure, ok := errors.AsType[*training.FailedStartError](err); ok {
				ended = failure.Gangs
			}
			if (err == nil) != (nodes == 1) || len(ended) != nodes {
				t.Fatalf("%v; ended: %+v, want %d", err, ended, nodes)
			}
			spot := ended[0]
			if len(spot.Nodes) != 1 || spot.Capacity != spec.CapacitySpot || spot.USDPerHour != 1 {
				t.Fatalf("ended: %+v, want the spot node that had a machine", spot)
			}
			if n := spot.Nodes[0]; n.BeganAt.IsZero() || n.EndedAt.IsZero() {
				t.Errorf("it began at %s and ended at %s", n.BeganAt, n.EndedAt)
			}
		})
	}
}

// A gang that queues keeps its place until it is admitted, all of it.
func TestQueue(t *testing.T) {
	s := newSite(t, spec.Pool{Kubernetes: &spec.KubernetesPool{Queue: "team-a"}})
	s.pool.patience = time.Second
	s.AddNode(t, "m1", kubetest.Machine{})
	r := request(1, 2, 2)
	var before map[string]corev1.Pod
	for range 2 {
		_, err := s.pool.Acquire(bounded(t), r)
		if !errors.Is(err, training.ErrQueued) || !isNoCapacity(err) || !strings.Contains(err.Error(), "team-a") {
			t.Fatalf("Acquire: %v, want ErrQueued that names the queue", err)
		}
		pods := s.pods(r.Key)
		if len(pods) != 2 {
			t.Fatalf("%d pods wait, want 2", len(pods))
		}
		for name, pod := range before {
			if pods[name].UID != pod.UID {
				t.Errorf("%s has lost its place", name)
			}
		}
		before = pods
	}
	for name, pod := range before {
		if pod.Labels["kueue.x-k8s.io/queue-name"] != "team-a" || pod.Annotations["kueue.x-k8s.io/pod-group-total-count"] != "2" {
			t.Errorf("Kueue does not know %s by %v and %v", name, pod.Labels, pod.Annotations)
		}
		pod.Spec.SchedulingGates = nil // this is how Kueue admits
		if _, err := s.Client.CoreV1().Pods(s.namespace).Update(bounded(t), &pod, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	s.pool.patience = time.Minute
	if gang := s.acquire(r); len(gang.Nodes) != 2 {
		t.Errorf("%d nodes, want 2", len(gang.Nodes))
	}
	s.release(r.Key)
	s.nothingLeft()
}
