package kubernetes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/testing/kubetest"
	"github.com/sluiceml/sluice/internal/testing/rig"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/delivery"
	"github.com/sluiceml/sluice/training/pooltest"
	"github.com/sluiceml/sluice/training/protocol"
)

// worker is the user that pools of these tests are.
const worker = "sluice-worker"

// shared is the control plane of all tests here: it takes seconds to start. started is set when it runs.
var (
	shared = sync.OnceValues(func() (c *kubetest.Cluster, err error) {
		started, err = kubetest.Start(context.Background(), worker, "nobody")
		return started, err
	})
	started *kubetest.Cluster
)

func TestMain(m *testing.M) {
	code := m.Run()
	if started != nil {
		started.Stop()
	}
	os.Exit(code)
}

func cluster(t *testing.T) *kubetest.Cluster {
	t.Helper()
	if _, err := kubetest.Program(); err != nil {
		rig.Skip(t, err)
	}
	c, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// role is what docs/kubernetes.md says that workers need, and no more.
var role = []rbacv1.PolicyRule{
	{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create", "get", "list", "delete"}},
	{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create", "delete"}},
	{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"create", "list", "watch", "delete"}},
}

const (
	// idle stands for the agent: it does nothing, for long.
	idle = "#!/bin/sh\nexec sleep 3600\n"
	// saving is an agent that takes its grace period, as when ranks write a checkpoint.
	saving = "#!/bin/sh\ntrap '' TERM\nexec sleep 3600\n"
)

// lender lends a program.
func lender(t *testing.T, program string) func(context.Context, time.Duration) (delivery.Item, error) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, program) }))
	t.Cleanup(server.Close)
	sum := sha256.Sum256([]byte(program))
	return func(context.Context, time.Duration) (delivery.Item, error) {
		return delivery.Item{URL: server.URL + "/agent", SHA256: hex.EncodeToString(sum[:])}, nil
	}
}

// site is a namespace with a pool.
type site struct {
	*kubetest.Cluster
	t         *testing.T
	namespace string
	pool      *Pool
}

// newSite makes a pool in a namespace of its own. Its cluster has no machines yet.
func newSite(t *testing.T, sp spec.Pool) *site {
	t.Helper()
	c := cluster(t)
	s := &site{Cluster: c, t: t, namespace: c.Namespace(t)}
	c.Allow(t, worker, s.namespace, role)
	if sp.Kubernetes == nil {
		sp.Kubernetes = &spec.KubernetesPool{}
	}
	if sp.Runtime.Image == "" {
		sp.Runtime.Image = "acme/train:1"
	}
	s.pool = New(Options{
		Name: "burst", Client: c.As(t, worker).CoreV1(), Namespace: s.namespace, Spec: sp,
		Agent:   protocol.AgentConfig{Address: "temporal:7233", Namespace: "default", Store: "s3://acme"},
		Environ: func(c protocol.AgentConfig) ([]string, error) { return c.Environ(nil), nil },
		Token:   func(prefix, workflow string) string { return "token of " + prefix + workflow }, Program: lender(t, idle),
	})
	return s
}

// other is the pool as another worker has it.
func (s *site) other() *Pool {
	again := *s.pool
	return &again
}

func request(generation, minimum, maximum int) training.Request {
	return training.Request{
		Key: training.Key{Run: "r1", Step: "fit", Generation: generation}, MinNodes: minimum, MaxNodes: maximum,
		Workflow: "w", Capacity: spec.CapacityOnDemand,
	}
}

func (s *site) acquire(r training.Request) training.Gang {
	s.t.Helper()
	gang, err := s.pool.Acquire(bounded(s.t), r)
	if err != nil {
		s.t.Fatalf("Acquire: %v", err)
	}
	s.t.Cleanup(func() { s.release(r.Key) })
	return gang
}

func (s *site) release(key training.Key) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), time.Minute)
	defer cancel()
	if _, err := s.pool.Release(ctx, key); err != nil {
		s.t.Errorf("Release: %v", err)
	}
}

// nothingLeft checks that the namespace comes to have nothing of the pool's any more: what has ended is the kubelet's to remove.
func (s *site) nothingLeft() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), time.Minute) // it is asked when the test is over, too
	defer cancel()
	var left string
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		core, options := s.Client.CoreV1(), metav1.ListOptions{LabelSelector: labelManaged + "=sluice"}
		pods, err := core.Pods(s.namespace).List(ctx, options)
		secrets, err2 := core.Secrets(s.namespace).List(ctx, options)
		maps, err3 := core.ConfigMaps(s.namespace).List(ctx, options)
		if err := errors.Join(err, err2, err3); err != nil {
			return false, err
		}
		left = fmt.Sprintf("%d pods, %d secrets and %d config maps are left", len(pods.Items), len(secrets.Items), len(maps.Items))
		return len(pods.Items)+len(secrets.Items)+len(maps.Items) == 0, nil
	})
	if err != nil {
		s.t.Errorf("%s: %v", left, err)
	}
}

// pods are those of a gang, by name.
func (s *site) pods(key training.Key) map[string]corev1.Pod {
	s.t.Helper()
	pods, _, err := s.pool.list(bounded(s.t), gang{name: s.pool.nameOf(key)})
	if err != nil {
		s.t.Fatal(err)
	}
	return pods
}

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestPool(t *testing.T) {
	pooltest.Run(t, func(t *testing.T) pooltest.Harness {
		s := newSite(t, spec.Pool{Limits: spec.PoolLimits{Nodes: 3}})
		machine := s.AddNode(t, "m1", kubetest.Machine{})
		t.Cleanup(s.nothingLeft)
		return pooltest.Harness{
			Nodes: 3, Pool: s.pool,
			Reopen: func() training.Pool { return s.other() },
			Kill: func(_ *testing.T, key training.Key, node int) {
				for name, pod := range s.pods(key) {
					if pod.Labels[labelNode] == fmt.Sprint(node) {
						machine.Crash(s.namespace, name)
					}
				}
			},
			Alive: func(_ *testing.T, key training.Key) int {
				return machine.Running(s.namespace, labelGang, s.pool.nameOf(key))
			},
		}
	})
}

// Where a worker may read the cluster's nodes, the ledger has their type and zone; where it may not, it does without.
func TestMachineLabels(t *testing.T) {
	s := newSite(t, spec.Pool{})
	s.AddNode(t, "m1", kubetest.Machine{Labels: map[string]string{
		corev1.LabelInstanceTypeStable: "g6.xlarge", corev1.LabelTopologyZone: "eu-1a",
	}})
	if n := s.acquire(request(1, 1, 1)).Nodes[0]; n.Type != "" || n.Zone != "" {
		t.Errorf("without the right to read nodes: %q in %q", n.Type, n.Zone)
	}
	s.release(request(1, 1, 1).Key)

	meta, rbac := metav1.ObjectMeta{Name: s.namespace}, s.Client.RbacV1()
	_, err := rbac.ClusterRoles().Create(bounded(t), &rbacv1.ClusterRole{
		ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = rbac.ClusterRoleBindings().Create(bounded(t), &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: worker}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: s.namespace},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // others of this package may not
		err := rbac.ClusterRoles().Delete(context.WithoutCancel(t.Context()), s.namespace, metav1.DeleteOptions{})
		if err != nil {
			t.Error(err)
		}
	})
	err = wait.PollUntilContextCancel(bounded(t), 50*time.Millisecond, true, func(context.Context) (bool, error) { // the API server learns of the role
		return s.pool.machineLabels(t.Context(), "m1") != nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := s.acquire(request(2, 1, 1)).Nodes[0]; n.Type != "g6.xlarge" || n.Zone != "eu-1a" {
		t.Errorf("with the right to read nodes: %q in %q", n.Type, n.Zone)
	}
}
