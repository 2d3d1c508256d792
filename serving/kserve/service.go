package kserve

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// What marks an InferenceService as a release. Everything by which they are selected is a label.
const (
	labelManaged = "app.kubernetes.io/managed-by"
	labelStore   = "sluice.dev/store"
	labelTarget  = "sluice.dev/target"
	labelVersion = "sluice.dev/version"

	annotationModel = "sluice.dev/model"
	annotationRun   = "sluice.dev/run"
	annotationStep  = "sluice.dev/step"
	// annotationEngine says of a TensorRT engine what it was built on.
	annotationEngine = "sluice.dev/engine"

	// podLabel is on every pod of an InferenceService.
	podLabel = "serving.kserve.io/inferenceservice"
)

// maxTarget leaves room, in a label of a host name, for the version, for what KServe adds and for the namespace.
const maxTarget = 24

// targetName is a target's name as Kubernetes takes names, short, and another one for every target.
func targetName(target string) string {
	clean := strings.ReplaceAll(target, "_", "-")
	if clean == target && len(clean) <= maxTarget && !strings.HasSuffix(clean, "-") {
		return clean
	}
	sum := sha256.Sum256([]byte(target))
	return strings.TrimRight(clean[:min(len(clean), maxTarget-7)], "-") + "-" + hex.EncodeToString(sum[:3])
}

// serviceName is the name of a release's InferenceService, and of its model.
func serviceName(target, version string) string { return targetName(target) + "-v" + version }

// object is the InferenceService of the release.
func (w *wait) object(owner string, m planned) *unstructured.Unstructured {
	model := map[string]any{
		"modelFormat":     map[string]any{"name": "onnx"},
		"protocolVersion": "v2",
		"runtime":         cmp.Or(w.spec.Runtime, servers[w.spec.Server].runtime),
		"storageUri":      m.uri,
	}
	annotations := map[string]any{
		"serving.kserve.io/deploymentMode": "Standard",
		annotationModel:                    w.release.Model.Digest, annotationRun: w.release.Run, annotationStep: w.release.Step,
	}
	if m.engine != "" {
		model["modelFormat"] = map[string]any{"name": "tensorrt"}
		annotations[annotationEngine] = m.engine
		if w.spec.Runtime == "" && !w.predictor.HasGPU() { // KServe's own asks for no GPU; which one another has is its business
			model["resources"] = map[string]any{"limits": map[string]any{"nvidia.com/gpu": "1"}}
		}
	}
	own := map[string]any{"model": model}
	if w.spec.ServiceAccount != "" {
		own["serviceAccountName"] = w.spec.ServiceAccount
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": resource.GroupVersion().String(),
		"kind":       "InferenceService",
		"metadata": map[string]any{
			"name": w.name,
			"labels": map[string]any{
				labelManaged: "sluice", labelStore: owner, labelTarget: targetName(w.target), labelVersion: w.release.Version,
			},
			"annotations": annotations,
		},
		"spec": map[string]any{"predictor": w.predictor.Merge(own)},
	}}
}

// service is what matters of an InferenceService.
type service struct {
	name                string
	labels, annotations map[string]string
	deleted             bool
	status              status
}

// status has the fields of KServe's that are read.
type status struct {
	Conditions []condition `json:"conditions"`
	URL        string      `json:"url"`
	Address    struct {
		URL string `json:"url"`
	} `json:"address"`
	ModelStatus struct {
		TransitionStatus string `json:"transitionStatus"`
		LastFailureInfo  struct {
			Location string `json:"location"`
			Reason   string `json:"reason"`
			Message  string `json:"message"`
			ExitCode int    `json:"exitCode"`
		} `json:"lastFailureInfo"`
	} `json:"modelStatus"`
}

type condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

func serviceOf(object *unstructured.Unstructured) (*service, error) {
	var seen struct {
		Status status `json:"status"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &seen); err != nil {
		return nil, fmt.Errorf("the status of InferenceService %s is not KServe's: %w", object.GetName(), err)
	}
	return &service{
		name: object.GetName(), labels: object.GetLabels(), annotations: object.GetAnnotations(),
		deleted: object.GetDeletionTimestamp() != nil, status: seen.Status,
	}, nil
}

func (s *service) condition(kind string) condition {
	for _, c := range s.status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return condition{}
}

// ready reports whether KServe says so, and where.
func (s *service) ready(inside bool) bool {
	return s.condition("Ready").Status == "True" && s.url(inside) != ""
}

// url is where the service is: in the cluster, or for the world.
func (s *service) url(inside bool) string {
	if inside {
		return cmp.Or(s.status.Address.URL, s.status.URL)
	}
	return s.status.URL
}

// host is the name by which an ingress knows the service.
func (s *service) host() string {
	at, err := url.Parse(s.status.URL)
	if err != nil {
		return ""
	}
	return at.Host
}

// hopeless says why the service will never be ready; empty when it may be.
func (s *service) hopeless() string {
	if s.status.ModelStatus.TransitionStatus == "InvalidSpec" {
		return "KServe rejected it: " + s.failure()
	}
	if p := s.condition("PredictorReady"); p.Status == "False" && p.Reason == "ProgressDeadlineExceeded" {
		return "its deployment makes no progress: " + p.Message
	}
	return ""
}

// trouble says what stands in the way and may pass; empty when nothing does.
func (s *service) trouble() string {
	if s.status.ModelStatus.TransitionStatus == "BlockedByFailedLoad" {
		why := "the model cannot be loaded: " + s.failure()
		if engine := s.annotations[annotationEngine]; engine != "" {
			why += "; it is a TensorRT engine, built by " + engine + ", and may load nowhere else"
		}
		return why
	}
	if p := s.condition("PredictorReady"); p.Status == "False" && p.Reason == "FailedCreate" {
		return "its pods cannot be created: " + p.Message
	}
	return ""
}

func (s *service) failure() string {
	f := s.status.ModelStatus.LastFailureInfo
	text := cmp.Or(f.Reason, "no reason is given")
	if f.Location != "" {
		text += " in " + f.Location
	}
	if f.ExitCode != 0 {
		text += fmt.Sprintf(", exit code %d", f.ExitCode)
	}
	if f.Message != "" {
		text += ": " + strings.TrimSpace(f.Message)
	}
	return text
}

// waitsFor is KServe's own word for what is not ready yet.
func (s *service) waitsFor() string {
	for _, kind := range []string{"PredictorReady", "IngressReady", "Ready"} {
		if c := s.condition(kind); c.Status != "" && c.Status != "True" {
			return strings.TrimSpace(kind + " is " + c.Status + " " + cmp.Or(c.Message, c.Reason))
		}
	}
	return "KServe has not reported yet"
}
