package kubernetes

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/internal/testing/kubetest"
	"github.com/sluiceml/sluice/training"
)

// preempt has a pod of a higher priority take the machine of another.
func preempt(t *testing.T, s *site, _ string) {
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "urgent-" + s.namespace}, Value: 1000}
	if _, err := s.Client.SchedulingV1().PriorityClasses().Create(bounded(t), class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	cpu := corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("600m")}}
	urgent := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "urgent"}, Spec: corev1.PodSpec{
		PriorityClassName: class.Name, Affinity: onlyOn("m1"),
		Containers: []corev1.Container{{Name: "c", Image: "acme/train:1", Command: []string{"true"}, Resources: cpu}},
	}}
	// Admission looks for the class in a cache of its own, which the API server fills a moment after it has stored the class.
	ctx, err := bounded(t), error(nil)
	for range poll.Every(ctx, 50*time.Millisecond) {
		if _, err = s.Client.CoreV1().Pods(s.namespace).Create(ctx, urgent, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

func onlyOn(machine string) *corev1.Affinity {
	fields := []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{machine}}}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: fields}},
	}}}
}

// takes are ways to take a pod away from machine m1, and what is said of its end.
var takes = []struct {
	name string
	take func(t *testing.T, s *site, pod string)
	says string
}{
	{"evicted", func(t *testing.T, s *site, pod string) {
		meta := metav1.ObjectMeta{Name: pod, Namespace: s.namespace}
		if err := s.Client.PolicyV1().Evictions(s.namespace).Evict(bounded(t), &policyv1.Eviction{ObjectMeta: meta}); err != nil {
			t.Fatal(err)
		}
	}, "EvictionByEvictionAPI"},
	{"deleted", func(t *testing.T, s *site, pod string) {
		if err := s.Client.CoreV1().Pods(s.namespace).Delete(bounded(t), pod, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}, "on m1"},
	{"preempted by priority", preempt, "PreemptionByScheduler"},
	{"its machine tainted", func(t *testing.T, s *site, _ string) {
		s.change(t, "m1", func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "acme/drained", Effect: corev1.TaintEffectNoExecute})
		})
	}, "DeletionByTaintManager"},
}

// onTwoMachines is a gang of two nodes, one on each of m1 and m2, that run a program for an agent.
func onTwoMachines(t *testing.T, agent string) (*site, training.Request) {
	t.Helper()
	s := newSite(t, spec.Pool{})
	s.pool.opts.Program = lender(t, agent)
	s.AddNode(t, "m1", kubetest.Machine{CPU: "1"})
	s.AddNode(t, "m2", kubetest.Machine{CPU: "1"})
	r := request(1, 2, 2)
	r.Resources.CPU = 0.6
	s.acquire(r)
	return s, r
}

// on is the node that is on a machine, and its pod.
func (s *site) on(machine string, key training.Key) (node int, pod string) {
	node = -1
	for name, p := range s.pods(key) {
		if p.Spec.NodeName == machine {
			node, pod = int(p.Labels[labelNode][0]-'0'), name
		}
	}
	return node, pod
}

func ignored(training.Notice) error { return nil }

// A pod that is the target of a disruption is a notice for its node: when it will be killed, and why. It comes again until it has been passed
// on, and then no more; whoever takes over the watch hears of it as well.
func TestNotices(t *testing.T) {
	for _, test := range takes {
		if test.name == "deleted" {
			continue // nobody disrupts it
		}
		t.Run(test.name, func(t *testing.T) {
			s, r := onTwoMachines(t, saving)
			taken, pod := s.on("m1", r.Key)
			heard := make(chan training.Notice, 9)
			watch := func(pool *Pool, notice func(training.Notice) error) (over func()) {
				ctx, cancel := context.WithCancel(bounded(t))
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					pool.Watch(ctx, r.Key, notice)
				}()
				return func() { cancel(); <-ended }
			}
			away := true
			over := watch(s.pool, func(n training.Notice) error {
				heard <- n
				defer func() { away = false }()
				if away {
					return errors.New("Temporal is away")
				}
				return nil
			})
			hear := func() training.Notice {
				select {
				case n := <-heard:
					return n
				case <-time.After(time.Minute):
					t.Fatal("there is no notice")
					return training.Notice{}
				}
			}
			test.take(t, s, pod)
			for range 2 {
				n := hear()
				if left := time.Until(n.Until); n.Node != taken || !strings.Contains(n.Reason, test.says) || left < time.Minute || left > grace {
					t.Errorf("the notice is %+v, %v before the end, want node %d and %q", n, left, taken, test.says)
				}
			}
			over()
			lost := make(chan error, 1)
			go func() {
				_, err := s.other().Watch(bounded(t), r.Key, func(n training.Notice) error { heard <- n; return nil })
				lost <- err
			}()
			if n := hear(); n.Node != taken {
				t.Errorf("another worker hears of node %d, want %d", n.Node, taken)
			}
			s.touch(t, pod) // which makes it look again, before it sees the end
			s.kill(t, pod)
			if err := <-lost; err != nil {
				t.Fatal(err)
			}
			if len(heard) > 0 {
				t.Errorf("it is told once more: %+v", <-heard)
			}
		})
	}
}

// touch changes a pod, to no effect.
func (s *site) touch(t *testing.T, pod string) {
	t.Helper()
	change := []byte(`{"metadata": {"annotations": {"acme/touched": "yes"}}}`)
	if _, err := s.Client.CoreV1().Pods(s.namespace).Patch(bounded(t), pod, types.MergePatchType, change, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// kill removes a pod at once.
func (s *site) kill(t *testing.T, pod string) {
	t.Helper()
	if err := s.Client.CoreV1().Pods(s.namespace).Delete(bounded(t), pod, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		t.Fatal(err)
	}
}

// A node that is taken away is a loss with its reason, however it is taken.
func TestLosses(t *testing.T) {
	for _, test := range takes {
		t.Run(test.name, func(t *testing.T) {
			s, r := onTwoMachines(t, idle)
			taken, pod := s.on("m1", r.Key)
			test.take(t, s, pod)
			loss, err := s.pool.Watch(bounded(t), r.Key, ignored)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]int{taken}, loss.Nodes); diff != "" || !strings.Contains(loss.Reason, test.says) {
				t.Errorf("loss %+v, want node %d and %q", loss, taken, test.says)
			}
			if strings.Contains(loss.Reason, "\n") {
				t.Errorf("%q is more than a line", loss.Reason)
			}
			again, err := s.other().Watch(bounded(t), r.Key, ignored)
			if err != nil || !cmp.Equal(again.Nodes, loss.Nodes) || again.Reason == "" {
				t.Errorf("another worker sees %+v, %v, want node %d", again, err, taken)
			}
		})
	}
}

// A machine that is gone from the cluster takes its node along, though no kubelet is left to say so.
func TestNodeDeath(t *testing.T) {
	s, r := onTwoMachines(t, idle)
	lost, _ := s.on("m1", r.Key)
	if err := s.Client.CoreV1().Nodes().Delete(bounded(t), "m1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // the collector of pods waits 40 s for the machine to come back
	defer cancel()
	loss, err := s.pool.Watch(ctx, r.Key, ignored)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{lost}, loss.Nodes); diff != "" || !strings.Contains(loss.Reason, "DeletionByPodGC") {
		t.Errorf("loss %+v, want node %d and DeletionByPodGC", loss, lost)
	}
}

// change changes a machine.
func (s *site) change(t *testing.T, name string, f func(*corev1.Node)) {
	t.Helper()
	nodes := s.Client.CoreV1().Nodes()
	node, err := nodes.Get(bounded(t), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f(node)
	if _, err := nodes.Update(bounded(t), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// A gang of which nothing is left makes way for another of the same key.
func TestAcquireAfterTheWholeGangIsLost(t *testing.T) {
	s := newSite(t, spec.Pool{})
	machine := s.AddNode(t, "m1", kubetest.Machine{})
	r := request(1, 2, 2)
	first := s.acquire(r)
	for name := range s.pods(r.Key) {
		machine.Crash(s.namespace, name)
	}
	for _, n := range first.Nodes {
		loss, err := s.pool.Watch(bounded(t), r.Key, ignored)
		if err != nil || len(loss.Nodes) == 0 {
			t.Fatalf("Watch: %+v, %v", loss, err)
		}
		kubetest.Eventually(t, n.Name+" is over", func(context.Context) bool {
			pod := s.pods(r.Key)[n.Name]
			return over(&pod)
		})
	}
	second, err := s.pool.Acquire(bounded(t), r)
	if err != nil {
		t.Fatal(err)
	}
	for i := range second.Nodes {
		if second.Nodes[i].Queue == first.Nodes[i].Queue {
			t.Errorf("node %d has the queue of the one before", i)
		}
	}
}

// Of many workers that acquire the same, all get the same.
func TestAcquireAtOnce(t *testing.T) {
	s := newSite(t, spec.Pool{Limits: spec.PoolLimits{Nodes: 2}})
	s.AddNode(t, "m1", kubetest.Machine{})
	r := request(1, 1, 2)
	const workers = 4
	gangs, errs := make(chan training.Gang, workers), make(chan error, workers)
	for range workers {
		p := s.other()
		go func() {
			gang, err := p.Acquire(bounded(t), r)
			gangs <- gang
			errs <- err
		}()
	}
	var first training.Gang
	for i := range workers {
		gang, err := <-gangs, <-errs
		if err != nil {
			t.Errorf("Acquire: %v", err)
		} else if i == 0 {
			first = gang
		} else if diff := cmp.Diff(first, gang); diff != "" {
			t.Errorf("two gangs of a key (-one +other):\n%s", diff)
		}
	}
	if pods := s.pods(r.Key); len(pods) != 2 {
		t.Errorf("%d pods, want 2", len(pods))
	}
	s.release(r.Key)
	s.nothingLeft()
}

// Gangs that come at once stay within the limits together, and one of them gets what it wants.
func TestLimitsAtOnce(t *testing.T) {
	s := newSite(t, spec.Pool{
		Limits: spec.PoolLimits{Nodes: 10, USDPerHour: 7}, USDPerHour: spec.Prices{OnDemand: 2},
	})
	s.AddNode(t, "m1", kubetest.Machine{})
	const workers = 4
	errs := make(chan error, workers)
	for i := range workers {
		p := s.other()
		go func() {
			_, err := p.Acquire(bounded(t), request(i+1, 2, 2))
			errs <- err
		}()
	}
	got := 0
	for range workers {
		if err := <-errs; err == nil {
			got++
		} else if !isNoCapacity(err) {
			t.Errorf("Acquire: %v, want ErrNoCapacity", err)
		}
	}
	if got != 1 {
		t.Errorf("%d gangs of 2 nodes at $2 within $7 an hour, want 1", got)
	}
	for i := range workers {
		s.release(request(i+1, 2, 2).Key)
	}
	s.nothingLeft()
}

// A worker that dies between two pods leaves a gang that another goes on with.
func TestAcquireGoesOn(t *testing.T) {
	s := newSite(t, spec.Pool{})
	s.AddNode(t, "m1", kubetest.Machine{})
	r := request(1, 3, 3)
	g, _, err := s.pool.claim(bounded(t), r, 3)
	if err != nil {
		t.Fatal(err)
	}
	// What put does, up to the first pod.
	agent, err := s.pool.opts.Program(bounded(t), lent)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := s.pool.secretOf(g, r, corev1.PodTemplateSpec{}, agent)
	if err != nil {
		t.Fatal(err)
	}
	core := s.pool.opts.Client
	if _, err := core.Secrets(s.namespace).Create(bounded(t), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod, err := s.pool.podOf(g, r, corev1.PodTemplateSpec{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := core.Pods(s.namespace).Create(bounded(t), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	gang, err := s.other().Acquire(bounded(t), r)
	if err != nil {
		t.Fatal(err)
	}
	if pods := s.pods(r.Key); len(gang.Nodes) != 3 || len(pods) != 3 {
		t.Errorf("%d nodes and %d pods, want 3", len(gang.Nodes), len(pods))
	}
	s.release(r.Key)
	s.nothingLeft()
}

// What nobody releases goes with its claim.
func TestClaimOwnsAll(t *testing.T) {
	s := newSite(t, spec.Pool{})
	s.AddNode(t, "m1", kubetest.Machine{})
	r := request(1, 2, 2)
	s.acquire(r)
	if err := s.Client.CoreV1().ConfigMaps(s.namespace).Delete(bounded(t), s.pool.nameOf(r.Key), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	kubetest.Eventually(t, "the pods are collected", func(context.Context) bool { return len(s.pods(r.Key)) == 0 })
}

// Who deletes a pod may give it less time than it asks for: what is left is the ranks', but for the agent's share.
func TestUsableUntil(t *testing.T) {
	asks, gives := int64(120), int64(10)
	in := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: time.Now().Add(d)} }
	for name, tt := range map[string]struct {
		pod  corev1.Pod
		want time.Duration
	}{
		"not deleted yet": {corev1.Pod{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &asks}}, 110 * time.Second},
		"deleted": {corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: in(100 * time.Second), DeletionGracePeriodSeconds: &asks},
			Spec:       corev1.PodSpec{TerminationGracePeriodSeconds: &asks},
		}, 90 * time.Second},
		"drained in a hurry": {corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: in(10 * time.Second), DeletionGracePeriodSeconds: &gives},
			Spec:       corev1.PodSpec{TerminationGracePeriodSeconds: &asks},
		}, 8 * time.Second},
	} {
		if left := time.Until(usableUntil(&tt.pod)); (left - tt.want).Abs() > time.Second {
			t.Errorf("%s: %v are left, want %v", name, left, tt.want)
		}
	}
}
