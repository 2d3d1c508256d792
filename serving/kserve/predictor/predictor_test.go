package predictor

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sluiceml/sluice/internal/template"
	"github.com/sluiceml/sluice/serving/kserve/kservetest"
)

func parse(t *testing.T, text string) (Predictor, error) {
	t.Helper()
	var document map[string]any
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		t.Fatal(err)
	}
	return Parse(document)
}

func TestParse(t *testing.T) {
	for text, says := range map[string]string{
		"": "",
		"{minReplicas: 2, maxReplicas: 8, scaleMetric: cpu, scaleTarget: 70}":                                                                    "",
		"{maxReplicas: 8, autoScaling: {metrics: [{type: External, external: {metric: {backend: prometheus, query: up}, target: {value: 5}}}]}}": "",
		"{tolerations: [{key: nvidia.com/gpu, operator: Exists}], nodeSelector: {pool: l4}}":                                                     "",
		"{model: {resources: {requests: {cpu: 2, memory: 4Gi}}, env: [{name: A, value: b}], args: [--log-verbose=1]}}":                           "",
		"{containers: [{name: sidecar, image: proxy}]}":                                                                                          "",
		"{annotations: {serving.kserve.io/autoscalerClass: keda}, labels: {team: ml}}":                                                           "",

		"{minReplica: 2}":                                `unknown field "minReplica"`,
		"{model: {resource: {}}}":                        `unknown field "model.resource"`,
		"{tolerations: [{kee: a}]}":                      `unknown field "tolerations[0].kee"`,
		"{predictor: {minReplicas: 2}}":                  `unknown field "predictor"`,
		"{minReplicas: two}":                             "minReplicas: it is of the type string, but has to be a whole number",
		"{minReplicas: 1.5}":                             "minReplicas: it is of the type number 1.5",
		"{tolerations: {key: gpu}}":                      "tolerations: it is of the type object, but has to be a list",
		"{model: {resources: {limits: {memory: lots}}}}": "quantities must match",

		"{minReplicas: 0}":                         "minReplicas: 0 pods cannot be",
		"{minReplicas: -1}":                        "minReplicas: -1 pods cannot be",
		"{minReplicas: 3, maxReplicas: 2}":         "maxReplicas: 2 is less than `minReplicas`, 3",
		"{scaleMetric: rps}":                       `scaleMetric: "rps" is counted by Knative only`,
		"{containers: [{name: kserve-container}]}": "containers: the container of the model's server is `model`",
		"{containers: [{image: proxy}]}":           "containers: the container of the model's server is `model`",
		"{annotations: {internal.serving.kserve.io/storage-initializer-sourceuri: s3://mine}}": "annotations: internal.serving.kserve.io/storage-initializer-sourceuri cannot be set",

		"{model: {storageUri: s3://mine}}":                     "model.storageUri: it cannot be set",
		"{model: {storage: {key: a, parameters: {type: s3}}}}": "model.storage: it cannot be set",
		"{storageUris: [{uri: s3://mine}]}":                    "storageUris: it cannot be set",
		"{model: {runtime: mine}}":                             "model.runtime: it cannot be set: use `runtime` of the target",
		"{model: {protocolVersion: v1}}":                       "model.protocolVersion: it cannot be set",
		"{model: {modelFormat: {name: sklearn}}}":              "model.modelFormat: it cannot be set",
		"{serviceAccountName: mine}":                           "serviceAccountName: it cannot be set: use `service_account` of the target",
		"{serviceAccount: mine}":                               "serviceAccount: it cannot be set",
		"{canaryTrafficPercent: 10}":                           "canaryTrafficPercent: it cannot be set",
		"{sklearn: {storageUri: s3://mine}}":                   "sklearn: it cannot be set",
		"{workerSpec: {pipelineParallelSize: 2}}":              "workerSpec: it cannot be set",
		"{name: blue}":                                         "name: it cannot be set",
		"{model: {name: blue}}":                                "model.name: it cannot be set",
	} {
		_, err := parse(t, text)
		if errs := template.Errors(err); (err == nil) != (says == "") || err != nil && (len(errs) != 1 || !strings.HasPrefix(err.Error(), says)) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
	_, err := parse(t, "{minReplica: 2, model: {storageUri: s3://mine}, scaleMetric: rps}")
	if errs := template.Errors(err); len(errs) != 3 {
		t.Errorf("all that is wrong is told: %v", errs)
	}
}

func TestMerge(t *testing.T) {
	p, err := parse(t, "{minReplicas: 2, nodeSelector: {pool: l4}, model: {runtimeVersion: 24.05-py3, resources: {limits: {memory: 8Gi}, requests: {cpu: 2}}}}")
	if err != nil {
		t.Fatal(err)
	}
	type object = map[string]any
	own := object{
		"serviceAccountName": "models",
		"model":              object{"storageUri": "s3://models/1/", "runtimeVersion": "own", "resources": object{"limits": object{"nvidia.com/gpu": "1"}}},
	}
	want := object{
		"minReplicas": int64(2), "nodeSelector": object{"pool": "l4"}, "serviceAccountName": "models",
		"model": object{
			"storageUri": "s3://models/1/", "runtimeVersion": "own",
			"resources": object{"limits": object{"memory": "8Gi", "nvidia.com/gpu": "1"}, "requests": object{"cpu": int64(2)}},
		},
	}
	for range 2 { // it leaves the predictor as it is
		if diff := cmp.Diff(want, p.Merge(own)); diff != "" {
			t.Errorf("merged (-want +got):\n%s", diff)
		}
	}
	if p.Replicas() != 2 || p.HasGPU() {
		t.Errorf("%d replicas, with a GPU: %v", p.Replicas(), p.HasGPU())
	}
	p, err = parse(t, "{minReplicas: 2, annotations: {serving.kserve.io/autoscalerClass: external}, model: {resources: {limits: {nvidia.com/mig-1g.5gb: 1}}}}")
	if err != nil || p.Replicas() != 0 || !p.HasGPU() {
		t.Errorf("%d replicas, with a GPU: %v, %v", p.Replicas(), p.HasGPU(), err)
	}
}

// TestKServesWords: what KServe's own definition takes is known here, with its type, and nothing else is.
func TestKServesWords(t *testing.T) {
	definition, err := kservetest.Definition()
	if err != nil {
		t.Fatal(err)
	}
	versions, _, err := unstructured.NestedSlice(definition.Object, "spec", "versions")
	if err != nil || len(versions) != 1 {
		t.Fatal(len(versions), err)
	}
	schema, _, err := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "spec", "properties", "predictor")
	if err != nil {
		t.Fatal(err)
	}
	document := sample(schema).(map[string]any)
	compareFields(t, "", reflect.TypeFor[spec](), document)
	compareFields(t, "model.", reflect.TypeOf(spec{}.Model), document["model"].(map[string]any))
	_, err = Parse(document)
	refused := map[string]bool{}
	for _, err := range template.Errors(err) {
		wrong, ok := err.(*template.FieldError) //nolint:errorlint // each of them is one
		if !ok || !strings.Contains(err.Error(), "it cannot be set") {
			t.Error(err)
			continue
		}
		refused[wrong.Field] = true
	}
	for _, set := range own {
		if !refused[set.field] {
			t.Errorf("KServe has no field %s", set.field)
		}
	}
}

// compareFields reports fields of a struct of this package that KServe does not have.
func compareFields(t *testing.T, at string, of reflect.Type, properties map[string]any) {
	for f := range of.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if _, known := properties[name]; name != "" && !known {
			t.Errorf("KServe has no field %s%s: it has %v", at, name, slices.Sorted(maps.Keys(properties)))
		}
	}
}

// sample is a value that has all that a schema knows.
func sample(schema map[string]any) any {
	if options, _, _ := unstructured.NestedSlice(schema, "enum"); len(options) > 0 {
		return options[0]
	}
	if properties, ok, _ := unstructured.NestedMap(schema, "properties"); ok {
		all := map[string]any{}
		for name, of := range properties {
			all[name] = sample(of.(map[string]any))
		}
		return all
	}
	if of, ok, _ := unstructured.NestedMap(schema, "additionalProperties"); ok {
		return map[string]any{"key": sample(of)}
	}
	if of, ok, _ := unstructured.NestedMap(schema, "items"); ok {
		return []any{sample(of)}
	}
	switch schema["type"] {
	case "integer", "number":
		return int64(1)
	case "boolean":
		return true
	case "object":
		return map[string]any{}
	case "string":
		return "text"
	}
	return int64(1) // an integer or a string
}
