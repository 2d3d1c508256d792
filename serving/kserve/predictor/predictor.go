// Package predictor lets an environment say of a target's InferenceServices what only their cluster knows: how many pods serve a release
// and when there are more of them, with which resources, on which machines. It is said in KServe's own words, as a PredictorSpec.
package predictor

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	exact "k8s.io/apimachinery/pkg/util/json"

	"github.com/sluiceml/sluice/internal/template"
)

const (
	// container is that of the model's server.
	container = "kserve-container"
	// internalAnnotations begin those by which KServe's controller tells its webhook what a pod is to serve.
	internalAnnotations = "internal.serving.kserve.io/"
	// autoscalerAnnotation says what decides on the number of pods. With external it is none of KServe's business.
	autoscalerAnnotation = "serving.kserve.io/autoscalerClass"
	nvidia               = "nvidia.com/"
)

const (
	isNamed   = "Sluice names what it makes after the release"
	isModel   = "which model is served, and where it lies, is the release's; `models` of the target says in which bucket"
	isAccount = "use `service_account` of the target"
	isServer  = "releases are served by `model`, with the server that `server` and `runtime` of the target say"
)

// own are the fields that Sluice sets, and those that would have KServe serve something else.
var own = []struct{ field, why string }{
	{"name", isNamed},
	{"model.name", isNamed},
	{"model.modelFormat", isModel},
	{"model.storageUri", isModel},
	{"model.storage", isModel},
	{"storageUris", isModel},
	{"model.runtime", "use `runtime` of the target"},
	{"model.protocolVersion", "the gateway speaks version 2 with the server"},
	{"serviceAccountName", isAccount},
	{"serviceAccount", isAccount},
	{"canaryTrafficPercent", "Sluice's gateway splits the traffic, by the `stages` of a rollout"},
	{"workerSpec", "KServe serves a model on several machines only from a volume or an image, and releases lie in a bucket"},
	{"huggingface", isServer},
	{"lightgbm", isServer},
	{"onnx", isServer},
	{"paddle", isServer},
	{"pmml", isServer},
	{"pytorch", isServer},
	{"sklearn", isServer},
	{"tensorflow", isServer},
	{"triton", isServer},
	{"xgboost", isServer},
}

// Predictor is what an environment says.
type Predictor struct {
	document map[string]any
	spec     spec
}

// Parse reads what an environment says, which may be nothing. The error tells by template.FieldErrors what is wrong of which field.
func Parse(document map[string]any) (Predictor, error) {
	var p Predictor
	raw, err := json.Marshal(document)
	if err == nil {
		err = exact.Unmarshal(raw, &p.document) // whole numbers must stay so
	}
	if err != nil {
		return p, err
	}
	errs := template.Errors(template.Read(document, &p.spec))
	mistyped := slices.ContainsFunc(errs, func(err error) bool {
		wrong, ok := errors.AsType[*template.FieldError](err)
		return !ok || !wrong.Unknown
	})
	for _, set := range own {
		if _, there, _ := unstructured.NestedFieldNoCopy(document, strings.Split(set.field, ".")...); there {
			errs = slices.DeleteFunc(errs, func(err error) bool {
				wrong, ok := errors.AsType[*template.FieldError](err)
				return ok && (wrong.Field == set.field || strings.HasPrefix(wrong.Field, set.field+"."))
			})
			errs = append(errs, template.Errorf(set.field, "it cannot be set: %s", set.why))
		}
	}
	if !mistyped {
		errs = append(errs, p.spec.check()...)
	}
	return p, errors.Join(errs...)
}

// check refuses what KServe takes and does otherwise than its author thinks, or refuses late.
func (s *spec) check() (errs []error) {
	least := int32(1)
	if s.MinReplicas != nil {
		least = *s.MinReplicas
	}
	switch {
	case least < 1:
		errs = append(errs, template.Errorf("minReplicas", "%d pods cannot be: Sluice uses KServe's Standard mode, in which nothing holds a "+
			"request until a pod has started; write 1 or more", least))
	case s.MaxReplicas != 0 && s.MaxReplicas < least:
		errs = append(errs, template.Errorf("maxReplicas", "%d is less than `minReplicas`, %d", s.MaxReplicas, least))
	}
	if s.ScaleMetric == "concurrency" || s.ScaleMetric == "rps" {
		errs = append(errs, template.Errorf("scaleMetric", "%q is counted by Knative only, and Sluice uses KServe's Standard mode: write cpu or "+
			"memory, or use `autoScaling` with KEDA", s.ScaleMetric))
	}
	if slices.ContainsFunc(s.Containers, func(c corev1.Container) bool { return c.Name == container || c.Name == "" }) {
		errs = append(errs, template.Errorf("containers", "the container of the model's server is `model`, and others have names of their own"))
	}
	for key := range s.Annotations {
		if strings.HasPrefix(key, internalAnnotations) {
			errs = append(errs, template.Errorf("annotations", "%s cannot be set: it is between KServe and its webhook", key))
		}
	}
	return errs
}

// Replicas is how many pods a release has at least; 0 where something else than KServe decides.
func (p Predictor) Replicas() int {
	if p.spec.MinReplicas == nil || p.spec.Annotations[autoscalerAnnotation] == "external" {
		return 0
	}
	return int(*p.spec.MinReplicas)
}

// HasGPU reports whether a GPU is asked for, or a part of one.
func (p Predictor) HasGPU() bool {
	for name := range p.spec.Model.Resources.Limits {
		if strings.HasPrefix(string(name), nvidia) {
			return true
		}
	}
	return false
}

// Merge is the predictor of a release, of which Sluice's own part is given. Where both say something, Sluice's word counts.
func (p Predictor) Merge(own map[string]any) map[string]any {
	return merge(runtime.DeepCopyJSON(p.document), own)
}

func merge(into, own map[string]any) map[string]any {
	if into == nil {
		return own
	}
	for key, value := range own {
		theirs, isMap := into[key].(map[string]any)
		if ours, ok := value.(map[string]any); ok && isMap {
			value = merge(theirs, ours)
		}
		into[key] = value
	}
	return into
}
