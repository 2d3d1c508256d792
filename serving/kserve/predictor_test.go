package kserve

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sluiceml/sluice/internal/testing/kubetest"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/kserve/predictor"
	"github.com/sluiceml/sluice/serving/onnx/onnxtest"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/serving/servingtest"
)

// served is a target whose environment has a predictor, until the test ends or stop.
func (s *site) served(name string, document map[string]any) (target *gateway.Target, stop func()) {
	s.t.Helper()
	r := s.releases(name)
	var err error
	if r.predictor, err = predictor.Parse(document); err != nil {
		s.t.Fatal(err)
	}
	server, err := r.serve(s.t.Context(), gateway.Ports{}, slog.New(slog.DiscardHandler))
	if err != nil {
		s.t.Fatal(err)
	}
	stop = func() {
		if server != nil {
			servingtest.Stop(s.t, server)
			server = nil
		}
	}
	s.t.Cleanup(stop)
	return gateway.NewTarget(s.store, name, server.URL(), server.ControlURL()), stop
}

// inferenceService is one as the cluster has it; nil for none.
func (s *site) inferenceService(name string) *unstructured.Unstructured {
	s.t.Helper()
	all := s.inferenceServices()
	i := slices.IndexFunc(all, func(object unstructured.Unstructured) bool { return object.GetName() == name })
	if i < 0 {
		return nil
	}
	return &all[i]
}

func (s *site) inferenceServices() []unstructured.Unstructured {
	s.t.Helper()
	admin, err := newCluster(s.Config, s.namespace)
	if err != nil {
		s.t.Fatal(err)
	}
	found, err := admin.services.List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return found.Items
}

func (s *site) release(target *gateway.Target, expected int64, model string) (routing.Document, error) {
	doc, _, err := target.Load(s.t.Context(), expected, routing.Release{Model: s.model(model), Run: "run-" + model, Step: "ship"}, nil)
	return doc, err
}

type object = map[string]any

// TestPredictor: a release has what the environment says when it is made, below what Sluice sets. An environment that changes leaves the
// releases that are there as they are, and one that somebody has removed comes back as the environment is then.
func TestPredictor(t *testing.T) {
	here := newSite(t, servingtest.NewStore(t), role)
	small := object{"minReplicas": 1, "maxReplicas": 2}
	large := object{
		"minReplicas": 1, "maxReplicas": 8, "scaleMetric": "cpu", "scaleTarget": 70, "timeout": 30,
		"tolerations": []any{object{"key": "nvidia.com/gpu", "operator": "Exists"}}, "nodeSelector": object{"pool": "l4"},
		"annotations": object{"team": "ml"},
		"model":       object{"resources": object{"limits": object{"memory": "8Gi"}}, "env": []any{object{"name": "A", "value": "b"}}},
	}
	target, stop := here.served("shop", small)
	doc, err := here.release(target, 0, onnxtest.Text)
	if err == nil {
		doc, err = target.SetTraffic(t.Context(), doc.Revision, gateway.Split{Weights: map[string]float64{"1": 1}})
	}
	if err != nil {
		t.Fatal(err)
	}
	first := here.inferenceService("shop-v1")
	stop()
	target, stop = here.served("shop", large)
	if doc, err = here.release(target, doc.Revision, onnxtest.TextClose); err != nil {
		t.Fatal(err)
	}
	predictorOf := func(name string) object {
		t.Helper()
		found := here.inferenceService(name)
		if found == nil {
			t.Fatalf("there is no InferenceService %s", name)
		}
		of, _, err := unstructured.NestedMap(found.Object, "spec", "predictor")
		if err != nil {
			t.Fatal(err)
		}
		uri, _, _ := unstructured.NestedString(of, "model", "storageUri")
		if !strings.HasPrefix(uri, "s3://models/shared/serving/") {
			t.Errorf("the model of %s is at %q", name, uri)
		}
		unstructured.RemoveNestedField(of, "model", "storageUri")
		return of
	}
	model := object{"modelFormat": object{"name": "onnx"}, "protocolVersion": "v2", "runtime": "kserve-tritonserver"}
	wantSmall := object{"minReplicas": int64(1), "maxReplicas": int64(2), "model": model}
	wantLarge := object{
		"minReplicas": int64(1), "maxReplicas": int64(8), "scaleMetric": "cpu", "scaleTarget": int64(70), "timeout": int64(30),
		"tolerations": []any{object{"key": "nvidia.com/gpu", "operator": "Exists"}}, "nodeSelector": object{"pool": "l4"},
		"annotations": object{"team": "ml"},
		"model": object{
			"modelFormat": object{"name": "onnx"}, "protocolVersion": "v2", "runtime": "kserve-tritonserver",
			"resources": object{"limits": object{"memory": "8Gi"}}, "env": []any{object{"name": "A", "value": "b"}},
		},
	}
	for name, want := range map[string]object{"shop-v1": wantSmall, "shop-v2": wantLarge} {
		if diff := cmp.Diff(want, predictorOf(name)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if now := here.inferenceService("shop-v1"); now.GetUID() != first.GetUID() || now.GetGeneration() != first.GetGeneration() {
		t.Errorf("the release that serves was changed: it was %v, and is %v", first.Object, now.Object)
	}

	stop()
	admin, err := newCluster(here.Config, here.namespace)
	if err == nil {
		err = admin.services.Delete(t.Context(), "shop-v1", metav1.DeleteOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	here.served("shop", large)
	here.until("it is made again", func() bool { return here.inferenceService("shop-v1") != nil })
	if diff := cmp.Diff(wantLarge, predictorOf("shop-v1")); diff != "" {
		t.Errorf("what is made again (-want +got):\n%s", diff)
	}
}

// TestPredictorThatTheClusterRefuses: what KServe's definition does not have, or has otherwise, is refused by the API server before anything
// is made, and the release that serves goes on.
func TestPredictorThatTheClusterRefuses(t *testing.T) {
	here := newSite(t, servingtest.NewStore(t), role)
	for name, tt := range map[string]struct {
		predictor object
		says      string
	}{
		// Kubernetes has it, and KServe 0.20 does not.
		"unknown":       {object{"ephemeralContainers": []any{}}, `unknown field "spec.predictor.ephemeralContainers"`},
		"no such value": {object{"scaleMetricType": "Sometimes"}, `spec.predictor.scaleMetricType: Unsupported value: "Sometimes"`},
		"what it needs": {object{"volumes": []any{object{"emptyDir": object{}}}}, "spec.predictor.volumes[0].name: Required value"},
	} {
		t.Run(name, func(t *testing.T) {
			here.t = t
			shop := "shop-" + strings.ReplaceAll(name, " ", "-")
			target, stop := here.served(shop, nil)
			doc, err := here.release(target, 0, onnxtest.Text)
			if err == nil {
				doc, err = target.SetTraffic(t.Context(), doc.Revision, gateway.Split{Weights: map[string]float64{"1": 1}})
			}
			if err != nil {
				t.Fatal(err)
			}
			stop()
			services, keys := len(here.inferenceServices()), here.keys()
			target, stop = here.served(shop, tt.predictor)
			defer stop()
			_, err = here.release(target, doc.Revision, onnxtest.TextClose)
			for _, want := range []string{"the cluster rejected the InferenceService", tt.says, "`predictor`", "of the target"} {
				if load, ok := errors.AsType[*gateway.LoadError](err); !ok || !strings.Contains(load.Reason, want) {
					t.Errorf("got %v, want a LoadError that says %q", err, want)
				}
			}
			if now := len(here.inferenceServices()); now != services {
				t.Errorf("there were %d InferenceServices, and are %d", services, now)
			}
			if diff := cmp.Diff(keys, here.keys()); diff != "" {
				t.Errorf("models (-before +after):\n%s", diff)
			}
			current, err := target.Current(t.Context())
			if err != nil || must(current.Release("1")).Weight != 1 || must(current.Release("2")).Weight != 0 {
				t.Errorf("the traffic flows by %+v, %v", current, err)
			}
		})
	}
}

// TestPredictorThatAPolicyForbids: what is forbidden by a policy of the cluster, as by KServe's webhook, is not told as a missing permission.
func TestPredictorThatAPolicyForbids(t *testing.T) {
	here := newSite(t, servingtest.NewStore(t), role)
	policies := here.Client.AdmissionregistrationV1()
	const name = "few-pods"
	_, err := policies.ValidatingAdmissionPolicies().Create(t.Context(), &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{resource.Group}, APIVersions: []string{resource.Version}, Resources: []string{resource.Resource}},
			}}}},
			Validations: []admissionv1.Validation{{
				Expression: "object.spec.predictor.?maxReplicas.orValue(0) <= 4", Message: "at most four pods", Reason: new(metav1.StatusReasonForbidden),
			}},
		},
	}, metav1.CreateOptions{})
	if err == nil {
		_, err = policies.ValidatingAdmissionPolicyBindings().Create(t.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
				MatchResources: &admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{
					MatchLabels: map[string]string{corev1.LabelMetadataName: here.namespace},
				}},
			},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := errors.Join(policies.ValidatingAdmissionPolicyBindings().Delete(ctx, name, metav1.DeleteOptions{}),
			policies.ValidatingAdmissionPolicies().Delete(ctx, name, metav1.DeleteOptions{})); err != nil {
			t.Error(err)
		}
	})
	r := here.releases("shop")
	if r.predictor, err = predictor.Parse(object{"maxReplicas": 8}); err != nil {
		t.Fatal(err)
	}
	w := &wait{releases: r, release: routing.Release{Version: "1"}, name: "probe"}
	kubetest.Eventually(t, "the policy holds", func(ctx context.Context) bool {
		_, err := r.cluster.create(ctx, w.object("owner", planned{uri: "s3://models/"}), metav1.DryRunAll)
		return err != nil
	})
	target, _ := here.served("shop", object{"maxReplicas": 8})
	_, err = here.release(target, 0, onnxtest.Text)
	load, ok := errors.AsType[*gateway.LoadError](err)
	if !ok || !strings.Contains(load.Reason, "at most four pods") || strings.Contains(load.Reason, "role") {
		t.Errorf("got %v, want a LoadError that tells what the policy says, and nothing of a role", err)
	}
}

// TestAllPodsAreWaitedFor: KServe calls a release ready with its first pod, but it takes part in a rollout with as many as it is to have.
func TestAllPodsAreWaitedFor(t *testing.T) {
	here := newSite(t, servingtest.NewStore(t), role)
	target, stop := here.served("shop", object{"minReplicas": 2, "maxReplicas": 4})
	add := func(name string) {
		t.Helper()
		pods := here.Client.CoreV1().Pods(here.namespace)
		pod, err := pods.Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{podLabel: "shop-v1"}},
			Spec: corev1.PodSpec{
				SchedulerName: "nobody", // who would say that there is no node
				Containers:    []corev1.Container{{Name: "kserve-container", Image: "tritonserver"}},
			},
		}, metav1.CreateOptions{})
		if err == nil {
			pod.Status.Phase = corev1.PodRunning
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			_, err = pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
		}
		if err != nil {
			t.Error(err)
		}
	}
	add("shop-v1-a")
	var said []string
	release := routing.Release{Model: here.model(onnxtest.Text), Run: "r", Step: "ship"}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	doc, _, err := target.Load(ctx, 0, release, func(what string) {
		if said = append(said, what); strings.Contains(what, "1 of the 2 pods of `minReplicas`") && !slices.Contains(said[:len(said)-1], what) {
			add("shop-v1-b")
		}
	})
	if err != nil || !slices.ContainsFunc(said, func(what string) bool { return strings.Contains(what, "1 of the 2 pods of `minReplicas`") }) {
		t.Fatalf("%v, after it waited for %q", err, said)
	}
	if doc, err = target.SetTraffic(t.Context(), doc.Revision, gateway.Split{Weights: map[string]float64{"1": 1}}); err != nil {
		t.Fatal(err)
	}
	stop()
	// A gateway that starts while a pod is away must not keep what serves from serving.
	if err := here.Client.CoreV1().Pods(here.namespace).Delete(t.Context(), "shop-v1-b", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		t.Fatal(err)
	}
	target, _ = here.served("shop", object{"minReplicas": 2, "maxReplicas": 4})
	if serving, err := target.Await(ctx, doc); err != nil || serving != 1 {
		t.Errorf("%d gateways serve it: %v", serving, err)
	}
}
