package kserve

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/kserve/kservetest"
	"github.com/sluiceml/sluice/serving/kserve/predictor"
	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/onnx/onnxtest"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/serving/servingtest"
	"github.com/sluiceml/sluice/serving/triton/layout"
)

// engine stores an engine as a compile step does. The played Triton runs it as the ONNX model that it is here.
func (s *site) engine(e layout.Engine, files map[string]string) artifact.Ref {
	s.t.Helper()
	e.GPU, e.ComputeCapability, e.Driver, e.TensorRT, e.Precision = "NVIDIA L4", "8.9", "550.54.15", "10.3.0", "fp16"
	dir := s.t.TempDir()
	for at, name := range files {
		content, err := os.ReadFile(filepath.Join(onnxtest.Folder(s.t, name), "model.onnx"))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, at), content, 0o600)
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
	ref, err := s.store.PutTree(s.t.Context(), artifact.Model, dir, e.Meta(), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return ref
}

func (s *site) mlp() artifact.Ref {
	return s.engine(layout.Engine{
		Inputs:   []oip.TensorMetadata{{Name: "x", Datatype: oip.FP32, Shape: []int64{-1, 16}}},
		Outputs:  []oip.TensorMetadata{{Name: "logits", Datatype: oip.FP32, Shape: []int64{-1, 3}}},
		MaxBatch: 4,
	}, map[string]string{layout.EngineFile: onnxtest.MLP})
}

// words is an engine that takes what its front makes of text.
func (s *site) words() artifact.Ref {
	hits := []oip.TensorMetadata{{Name: "hits", Datatype: oip.FP32, Shape: []int64{-1, -1}}}
	return s.engine(layout.Engine{
		Inputs: hits, Outputs: []oip.TensorMetadata{{Name: "probabilities", Datatype: oip.FP32, Shape: []int64{-1, 2}}}, MaxBatch: 4,
		Front: &layout.Front{Inputs: []oip.TensorMetadata{{Name: "text", Datatype: oip.Bytes, Shape: []int64{-1}}}, Outputs: hits},
	}, map[string]string{layout.EngineFile: onnxtest.WordsBack, layout.FrontFile: onnxtest.WordsFront})
}

// predictor is the spec of an InferenceService's model.
func (s *site) predictor(name string) map[string]any {
	s.t.Helper()
	admin, err := newCluster(s.Config, s.namespace)
	if err != nil {
		s.t.Fatal(err)
	}
	object, err := admin.services.Get(s.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	model, _, err := unstructured.NestedMap(object.Object, "spec", "predictor", "model")
	if err != nil {
		s.t.Fatal(err)
	}
	delete(model, "storageUri")
	return model
}

// TestEngine: an engine lies as Triton wants it, with a description, and gets a GPU.
func TestEngine(t *testing.T) {
	here := newSite(t, servingtest.NewStore(t), role)
	r := here.releases("shop")
	upstream, err := r.open(t.Context(), routing.Release{Version: "1", Model: here.mlp(), Run: "r", Step: "ship"}, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	defer upstream.Close()
	if diff := cmp.Diff([]string{"shop/1/shop-v1/1/model.plan", "shop/1/shop-v1/config.pbtxt"}, here.keys()); diff != "" {
		t.Errorf("models (-want +got):\n%s", diff)
	}
	want := map[string]any{
		"modelFormat": map[string]any{"name": "tensorrt"}, "protocolVersion": "v2", "runtime": "kserve-tritonserver",
		"resources": map[string]any{"limits": map[string]any{"nvidia.com/gpu": "1"}},
	}
	if diff := cmp.Diff(want, here.predictor("shop-v1")); diff != "" {
		t.Errorf("model (-want +got):\n%s", diff)
	}
	outputs, err := upstream.Infer(t.Context(), []oip.Tensor{{Name: "x", Shape: []int64{2, 16}, Data: make([]float32, 32)}})
	if err != nil || len(outputs) != 1 || !slices.Equal(outputs[0].Shape, []int64{2, 3}) {
		t.Errorf("%+v, %v", outputs, err)
	}
	// The server says what it is too much; the gateway counts it as the release's failure.
	_, err = upstream.Infer(t.Context(), []oip.Tensor{{Name: "x", Shape: []int64{5, 16}, Data: make([]float32, 80)}})
	if err == nil || !strings.Contains(err.Error(), "batch-size must be <= 4") {
		t.Errorf("five rows for an engine of four: %v", err)
	}
	// A part of a GPU is one, and a whole one beside it would be two.
	if r.predictor, err = predictor.Parse(object{"model": object{"resources": object{"limits": object{"nvidia.com/mig-1g.10gb": 1}}}}); err != nil {
		t.Fatal(err)
	}
	if upstream, err = r.open(t.Context(), routing.Release{Version: "3", Model: here.mlp(), Run: "r", Step: "ship"}, func(string) {}); err != nil {
		t.Fatal(err)
	}
	defer upstream.Close()
	want["resources"] = object{"limits": object{"nvidia.com/mig-1g.10gb": int64(1)}}
	if diff := cmp.Diff(want, here.predictor("shop-v3")); diff != "" {
		t.Errorf("model (-want +got):\n%s", diff)
	}
	r.predictor = predictor.Predictor{}
	r.spec.Runtime = "triton-h100" // what it asks for is its own business
	if upstream, err = r.open(t.Context(), routing.Release{Version: "2", Model: here.mlp(), Run: "r", Step: "ship"}, func(string) {}); err != nil {
		t.Fatal(err)
	}
	defer upstream.Close()
	delete(want, "resources")
	want["runtime"] = "triton-h100"
	if diff := cmp.Diff(want, here.predictor("shop-v2")); diff != "" {
		t.Errorf("model (-want +got):\n%s", diff)
	}
}

// TestEngineWithFront: an engine of which a front makes the inputs takes what the source model takes. It is served, and replaced, as any
// other release.
func TestEngineWithFront(t *testing.T) {
	here := newSite(t, servingtest.NewStore(t), role)
	target := here.target("shop")
	doc, _, err := target.Load(t.Context(), 0, routing.Release{Model: here.model(onnxtest.Words), Run: "r", Step: "ship"}, nil)
	if err == nil {
		doc, _, err = target.Load(t.Context(), doc.Revision, routing.Release{Model: here.words(), Run: "r", Step: "ship"}, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"shop/1/shop-v1/1/model.onnx",
		"shop/2/shop-v2-engine/1/model.plan", "shop/2/shop-v2-engine/config.pbtxt",
		"shop/2/shop-v2-front/1/model.onnx", "shop/2/shop-v2-front/config.pbtxt",
		"shop/2/shop-v2/1/README", "shop/2/shop-v2/config.pbtxt",
	}
	if diff := cmp.Diff(want, here.keys()); diff != "" {
		t.Errorf("models (-want +got):\n%s", diff)
	}
	texts := []oip.Tensor{{Name: "text", Shape: []int64{3}, Data: []string{"ham", "more spam please", ""}}}
	answers := map[string][]float64{}
	for _, version := range []string{"1", "2"} {
		upstream, err := here.releases("shop").open(t.Context(), *must(doc.Release(version)), func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		defer upstream.Close()
		outputs, err := upstream.Infer(t.Context(), texts)
		if err != nil {
			t.Fatal(err)
		}
		answers[version], _ = outputs[0].Float64s()
	}
	if diff := cmp.Diff(answers["1"], answers["2"]); diff != "" || len(answers["1"]) != 6 {
		t.Errorf("the source model and its engine (-want +got):\n%s", diff)
	}
	if _, err := target.SetTraffic(t.Context(), doc.Revision, gateway.Split{Weights: map[string]float64{"1": 1}}); err != nil {
		t.Fatal(err)
	}
	here.until("the engine is removed", func() bool { return len(here.keys()) == 1 })
}

func must[T any](v T, ok bool) *T {
	if !ok {
		panic("not there")
	}
	return &v
}

// TestEngineIsRefused: what cannot serve an engine says so, and which engine it is that a server does not load.
func TestEngineIsRefused(t *testing.T) {
	here := newSite(t, servingtest.NewStore(t), role)
	here.controller.Report("shop-v1", kservetest.Failed("ModelLoadFailed", "unable to load plan file to auto complete config"))
	_, _, err := here.target("shop").Load(t.Context(), 0, routing.Release{Model: here.mlp(), Run: "r", Step: "ship"}, nil)
	for _, want := range []string{
		"unable to load plan file",
		"built by TensorRT 10.3.0 on NVIDIA L4 (compute capability 8.9, driver 550.54.15), and may load nowhere else",
	} {
		if load, ok := errors.AsType[*gateway.LoadError](err); !ok || !strings.Contains(load.Reason, want) {
			t.Errorf("got %v, want a LoadError that says %q", err, want)
		}
	}
	services, keys := len(here.inferenceServices()), here.keys()
	rtx := here.engine(layout.Engine{Flavor: spec.FlavorRTX}, map[string]string{layout.EngineFile: onnxtest.MLP})
	_, _, err = here.target("rtx").Load(t.Context(), 0, routing.Release{Model: rtx, Run: "r", Step: "ship"}, nil)
	if load, ok := errors.AsType[*gateway.LoadError](err); !ok || !strings.Contains(load.Reason, "an engine of TensorRT for RTX, which Triton") {
		t.Errorf("got %v, want a LoadError that speaks of TensorRT for RTX", err)
	}
	if now := len(here.inferenceServices()); now != services || !slices.Equal(keys, here.keys()) {
		t.Errorf("there were %d InferenceServices and the models %q, and are %d and %q", services, keys, now, here.keys())
	}

	r := here.releases("window")
	r.spec.Server, r.models.server = "openvino", servers["openvino"]
	server, err := r.serve(t.Context(), gateway.Ports{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer servingtest.Stop(t, server)
	target := gateway.NewTarget(here.store, "window", server.URL(), server.ControlURL())
	_, _, err = target.Load(t.Context(), 0, routing.Release{Model: here.mlp(), Run: "r", Step: "ship"}, nil)
	const want = "which OpenVINO Model Server cannot load: give the target `server: triton`"
	if load, ok := errors.AsType[*gateway.LoadError](err); !ok || !strings.Contains(load.Reason, want) {
		t.Errorf("got %v, want a LoadError that says %q", err, want)
	}
}
