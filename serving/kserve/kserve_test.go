package kserve

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/testing/kubetest"
	"github.com/sluiceml/sluice/internal/testing/rig"
	"github.com/sluiceml/sluice/internal/testing/s3test"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/kserve/kservetest"
	"github.com/sluiceml/sluice/serving/onnx/onnxtest"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/serving/servingtest"
	"github.com/sluiceml/sluice/store"
)

// user is whom the targets of these tests act as.
const user = "sluice"

// role is what docs/kserve.md says that Sluice needs, and no more.
var role = []rbacv1.PolicyRule{
	{APIGroups: []string{"serving.kserve.io"}, Resources: []string{"inferenceservices"}, Verbs: []string{"create", "get", "list", "delete"}},
	{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}},
}

// shared is the control plane of all tests here: it takes seconds to start.
var shared = sync.OnceValues(func() (*kubetest.Cluster, error) {
	c, err := kubetest.Start(context.Background(), user)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return c, kservetest.Install(ctx, c.Config)
})

func TestMain(m *testing.M) {
	code := m.Run()
	if cluster, err := shared(); err == nil {
		cluster.Stop()
	}
	os.Exit(code)
}

func controlPlane(t *testing.T) *kubetest.Cluster {
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

// site is a namespace of the cluster, a bucket, and a played KServe.
type site struct {
	*kubetest.Cluster
	t          *testing.T
	store      *store.Store
	namespace  string
	bucket     *s3test.Server
	controller *kservetest.Controller
}

func newSite(t *testing.T, s *store.Store, rules []rbacv1.PolicyRule) *site {
	t.Helper()
	c := controlPlane(t)
	here := &site{Cluster: c, t: t, store: s, namespace: c.Namespace(t), bucket: s3test.Start(t, "models", s3test.Options{})}
	c.Allow(t, user, here.namespace, rules)
	here.controller = kservetest.Play(t, c.Config, here.namespace, "?endpoint="+here.bucket.URL)
	config, err := c.Kubeconfig(user, here.namespace)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", config)
	return here
}

// releases are those of a target in a hurry.
func (s *site) releases(target string) *releases {
	s.t.Helper()
	spec := spec.KServeTarget{Context: "kubetest", Models: s.bucket.At("shared"), Server: "triton"}
	config, namespace, inside, err := configOf(spec)
	if err != nil || inside || namespace != s.namespace {
		s.t.Fatalf("namespace %s, inside %v: %v", namespace, inside, err)
	}
	r, err := newReleases(s.store, target, spec, config, namespace)
	if err != nil {
		s.t.Fatal(err)
	}
	r.patience, r.lookEvery = 200*time.Millisecond, 10*time.Millisecond
	return r
}

func (s *site) serve(target string, ports gateway.Ports) *gateway.Server {
	s.t.Helper()
	server, err := s.releases(target).serve(s.t.Context(), ports, slog.New(slog.DiscardHandler))
	if err != nil {
		s.t.Fatal(err)
	}
	return server
}

func TestConformance(t *testing.T) {
	servingtest.Run(t, func(t *testing.T, s *store.Store) servingtest.Harness {
		here := newSite(t, s, role)
		return servingtest.Open(t, s, func(ports gateway.Ports) *gateway.Server { return here.serve(servingtest.Name, ports) })
	})
}

func (s *site) model(name string) artifact.Ref {
	s.t.Helper()
	ref, err := s.store.PutTree(s.t.Context(), artifact.Model, onnxtest.Folder(s.t, name), nil, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return ref
}

// target is a served target of a name.
func (s *site) target(name string) *gateway.Target {
	s.t.Helper()
	server := s.serve(name, gateway.Ports{})
	s.t.Cleanup(func() { servingtest.Stop(s.t, server) })
	return gateway.NewTarget(s.store, name, server.URL(), server.ControlURL())
}

// keys lists what the bucket has, below the store's identity.
func (s *site) keys() []string {
	s.t.Helper()
	bucket, err := store.Open(s.t.Context(), s.bucket.At("shared"))
	if err != nil {
		s.t.Fatal(err)
	}
	var keys []string
	for info, err := range bucket.Driver().List(s.t.Context(), "") {
		if err != nil {
			s.t.Fatal(err)
		}
		keys = append(keys, strings.SplitN(info.Key, "/", 3)[2])
	}
	return keys
}

func (s *site) until(what string, holds func() bool) {
	s.t.Helper()
	deadline := time.After(30 * time.Second)
	for !holds() {
		select {
		case <-deadline:
			s.t.Fatalf("not in time: %s", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestWhatIsDroppedIsRemoved: InferenceServices and models of releases that the document drops go, and no others.
func TestWhatIsDroppedIsRemoved(t *testing.T) {
	here := newSite(t, servingtest.NewStore(t), role)
	shop, other := here.target("shop_window"), here.target("other")
	load := func(target *gateway.Target, expected int64, model string) int64 {
		doc, _, err := target.Load(t.Context(), expected, routing.Release{Model: here.model(model), Run: "run-" + model, Step: "ship"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return doc.Revision
	}
	revision := load(shop, load(shop, 0, onnxtest.Text), onnxtest.TextClose)
	load(other, 0, onnxtest.Text)
	name := targetName("shop_window")
	want := []string{"other-v1", name + "-v1", name + "-v2"}
	running := func() []string {
		names := here.controller.Running()
		slices.Sort(names)
		return names
	}
	if diff := cmp.Diff(want, running()); diff != "" {
		t.Errorf("running (-want +got):\n%s", diff)
	}
	wantKeys := []string{"other/1/other-v1/1/model.onnx", "shop_window/1/" + name + "-v1/1/model.onnx", "shop_window/2/" + name + "-v2/1/model.onnx"}
	if diff := cmp.Diff(wantKeys, here.keys()); diff != "" {
		t.Errorf("models (-want +got):\n%s", diff)
	}
	if _, err := shop.SetTraffic(t.Context(), revision, gateway.Split{Weights: map[string]float64{"2": 1}}); err != nil {
		t.Fatal(err)
	}
	here.until("version 1 is removed", func() bool { return slices.Equal(running(), []string{want[0], want[2]}) && len(here.keys()) == 2 })
}

// TestOtherGateways: what another gateway still sends requests to is not removed before that gateway has moved on or gone.
func TestOtherGateways(t *testing.T) {
	here := newSite(t, servingtest.NewStore(t), role)
	r := here.releases("shop")
	r.lease = 100 * time.Millisecond
	upstream, err := r.open(t.Context(), routing.Release{Version: "1", Model: here.model(onnxtest.Text), Run: "r", Step: "ship"}, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	if err := upstream.Close(); err != nil {
		t.Fatal(err)
	}
	other := servingtest.NewNeighbour(t, here.store, "shop", 7, 6)
	doc := routing.Document{Target: "shop", Revision: 7, Versions: 1}
	err = other.During(func() error { return r.sweep(t.Context(), doc) })
	if err == nil || !strings.Contains(err.Error(), "the gateway on there still serves revision 6") || len(here.controller.Running()) != 1 || len(here.keys()) != 1 {
		t.Errorf("swept under another gateway: %v; running %q with models %q", err, here.controller.Running(), here.keys())
	}
	other.Report.Revision = 7
	other.Beat()
	if err := r.sweep(t.Context(), doc); err != nil {
		t.Error(err)
	}
	here.until("version 1 is removed", func() bool { return len(here.controller.Running()) == 0 && len(here.keys()) == 0 })
}

// TestWhyAReleaseFails: the reason reaches who asked for the release.
func TestWhyAReleaseFails(t *testing.T) {
	for name, tc := range map[string]struct {
		status map[string]any
		says   string
	}{
		"the model does not load": {
			kservetest.Failed("ModelLoadFailed", "failed to load 'm' version 1: unexpected inference output 'y'"), "unexpected inference output 'y'",
		},
		"no runtime": {map[string]any{"modelStatus": map[string]any{
			"transitionStatus": "InvalidSpec",
			"lastFailureInfo":  map[string]any{"reason": "RuntimeNotRecognized", "message": "Waiting for runtime kserve-tritonserver to be created"},
		}}, "RuntimeNotRecognized"},
		"no room": {map[string]any{"conditions": []any{
			kservetest.Condition("PredictorReady", "False", "FailedCreate", "pods are forbidden: exceeded quota: gpus"),
		}}, "exceeded quota"},
		"no progress": {map[string]any{"conditions": []any{
			kservetest.Condition("PredictorReady", "False", "ProgressDeadlineExceeded", "ReplicaSet has timed out progressing."),
		}}, "timed out progressing"},
	} {
		t.Run(name, func(t *testing.T) {
			here := newSite(t, servingtest.NewStore(t), role)
			here.controller.Report("shop-v1", tc.status)
			_, _, err := here.target("shop").Load(t.Context(), 0, routing.Release{Model: here.model(onnxtest.Text), Run: "r", Step: "ship"}, nil)
			if load, ok := errors.AsType[*gateway.LoadError](err); !ok || !strings.Contains(load.Reason, tc.says) {
				t.Errorf("got %v, want a LoadError that says %q", err, tc.says)
			}
		})
	}
}

// TestWhatIsWaitedFor: who has asked for a release hears what it waits for.
func TestWhatIsWaitedFor(t *testing.T) {
	here := newSite(t, servingtest.NewStore(t), role)
	here.controller.Report("shop-v1", map[string]any{"conditions": []any{
		kservetest.Condition("PredictorReady", "Unknown", "ReplicaSetUpdated", "ReplicaSet shop-v1-predictor is progressing."),
	}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var said string
	_, _, err := here.target("shop").Load(ctx, 0, routing.Release{Model: here.model(onnxtest.Text), Run: "r", Step: "ship"}, func(what string) {
		if strings.Contains(what, "progressing") {
			said = what
			cancel()
		}
	})
	if want := "InferenceService shop-v1 is not ready: PredictorReady is Unknown ReplicaSet shop-v1-predictor is progressing."; said != want {
		t.Errorf("said %q, want %q: %v", said, want, err)
	}
}

// TestForbidden: what the role lacks is named.
func TestForbidden(t *testing.T) {
	here := newSite(t, servingtest.NewStore(t), []rbacv1.PolicyRule{
		{APIGroups: []string{"serving.kserve.io"}, Resources: []string{"inferenceservices"}, Verbs: []string{"get", "list"}},
	})
	_, _, err := here.target("shop").Load(t.Context(), 0, routing.Release{Model: here.model(onnxtest.Text), Run: "r", Step: "ship"}, nil)
	for _, want := range []string{`cannot create resource "inferenceservices"`, here.namespace, "docs/kserve.md"} {
		if load, ok := errors.AsType[*gateway.LoadError](err); !ok || !strings.Contains(load.Reason, want) {
			t.Errorf("got %v, want a LoadError that says %q", err, want)
		}
	}
}

// TestPodsThatCannotStart: KServe does not tell of images that cannot be pulled, so the pods are looked at.
func TestPodsThatCannotStart(t *testing.T) {
	here := newSite(t, servingtest.NewStore(t), role)
	here.AddNode(t, "machine", kubetest.Machine{})
	here.controller.Report("shop-v1", map[string]any{"conditions": []any{
		kservetest.Condition("PredictorReady", "False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability."),
	}})
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "shop-v1-predictor-abc", Labels: map[string]string{podLabel: "shop-v1"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "kserve-container", Image: "missing/tritonserver:1", Command: []string{"sleep", "1"}}}},
	}
	if _, err := here.Client.CoreV1().Pods(here.namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, _, err := here.target("shop").Load(t.Context(), 0, routing.Release{Model: here.model(onnxtest.Text), Run: "r", Step: "ship"}, nil)
	for _, want := range []string{"shop-v1-predictor-abc", "ErrImagePull", "missing/tritonserver:1"} {
		if load, ok := errors.AsType[*gateway.LoadError](err); !ok || !strings.Contains(load.Reason, want) {
			t.Errorf("got %v, want a LoadError that says %q", err, want)
		}
	}
}

// TestWithoutKServe: on a cluster that does not know InferenceServices that is said, and a cluster that is not there is asked again.
func TestWithoutKServe(t *testing.T) {
	here := newSite(t, servingtest.NewStore(t), role)
	client, err := dynamic.NewForConfig(here.Config)
	if err != nil {
		t.Fatal(err)
	}
	other := resource
	other.Group = "not.installed.example.com"
	c := &cluster{namespace: here.namespace, services: client.Resource(other).Namespace(here.namespace), core: here.Client}
	if _, err := c.get(t.Context(), "shop-v1"); err == nil || !strings.Contains(err.Error(), "is KServe installed?") {
		t.Errorf("got %v, want the question whether KServe is installed", err)
	}
	c, err = newCluster(&rest.Config{Host: "http://127.0.0.1:1"}, "serving")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.get(t.Context(), "shop-v1"); err == nil {
		t.Error("a cluster that is not there has answered")
	} else if _, soon := errors.AsType[*notYet](err); !soon {
		t.Errorf("got %v, want one that passes", err)
	}
}

// TestIngress: through an ingress an InferenceService is asked by its name.
func TestIngress(t *testing.T) {
	here := newSite(t, servingtest.NewStore(t), role)
	plain := here.target("shop")
	if _, _, err := plain.Load(t.Context(), 0, routing.Release{Model: here.model(onnxtest.Text), Run: "r", Step: "ship"}, nil); err != nil {
		t.Fatal(err)
	}
	admin, err := newCluster(here.Config, here.namespace)
	if err != nil {
		t.Fatal(err)
	}
	object, err := admin.services.Get(t.Context(), "shop-v1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	behind, err := url.Parse(object.Object["status"].(map[string]any)["url"].(string))
	if err != nil {
		t.Fatal(err)
	}
	object.Object["status"].(map[string]any)["url"] = "https://shop-v1.serving.example.com"
	if _, err := admin.services.UpdateStatus(t.Context(), object, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	var host atomic.Value
	proxy := httputil.NewSingleHostReverseProxy(behind)
	ingress := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host.Store(r.Host)
		proxy.ServeHTTP(w, r)
	}))
	defer ingress.Close()
	r := here.releases("shop")
	r.spec.Ingress = ingress.URL
	doc, err := plain.Current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	upstream, err := r.open(t.Context(), doc.Releases[0], func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	defer upstream.Close()
	if host.Load() != "shop-v1.serving.example.com" {
		t.Errorf("the ingress was asked for %v", host.Load())
	}
}

// TestAnotherSluice: of two stores whose targets have one name in one namespace, the second is told.
func TestAnotherSluice(t *testing.T) {
	here := newSite(t, servingtest.NewStore(t), role)
	release := routing.Release{Model: here.model(onnxtest.Text), Run: "r", Step: "ship"}
	if _, _, err := here.target("shop").Load(t.Context(), 0, release, nil); err != nil {
		t.Fatal(err)
	}
	here.store = servingtest.NewStore(t)
	release.Model = here.model(onnxtest.Text)
	_, _, err := here.target("shop").Load(t.Context(), 0, release, nil)
	if load, ok := errors.AsType[*gateway.LoadError](err); !ok || !strings.Contains(load.Reason, "another Sluice") {
		t.Errorf("got %v, want a LoadError that speaks of another Sluice", err)
	}
}

// TestAnInferenceServiceThatSomebodyRemoved is made again when the gateway starts.
func TestAnInferenceServiceThatSomebodyRemoved(t *testing.T) {
	here := newSite(t, servingtest.NewStore(t), role)
	server := here.serve("shop", gateway.Ports{})
	target := gateway.NewTarget(here.store, "shop", server.URL(), server.ControlURL())
	doc, _, err := target.Load(t.Context(), 0, routing.Release{Model: here.model(onnxtest.Text), Run: "r", Step: "ship"}, nil)
	if err == nil {
		_, err = target.SetTraffic(t.Context(), doc.Revision, gateway.Split{Weights: map[string]float64{"1": 1}})
	}
	servingtest.Stop(t, server)
	if err != nil {
		t.Fatal(err)
	}
	admin, err := newCluster(here.Config, here.namespace)
	if err == nil {
		err = admin.services.Delete(t.Context(), "shop-v1", metav1.DeleteOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	here.until("it is gone", func() bool { return len(here.controller.Running()) == 0 })
	again := here.serve("shop", gateway.Ports{})
	defer servingtest.Stop(t, again)
	here.until("it serves again", func() bool { return again.Gateway.State().Serving == doc.Revision+1 })
}
