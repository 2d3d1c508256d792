package compile

import (
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/onnx/onnxtest"
)

// calibrated is a calibration on the train split of a dataset that has nothing else.
func (job Job) calibrated(t *testing.T, count int, row func(rng *rand.Rand) map[string]any) *spec.Calibration {
	t.Helper()
	dir := t.TempDir()
	writeSplit(t, dir, "train", count, row)
	ref, err := job.Store.PutTree(t.Context(), artifact.Dataset, dir, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &spec.Calibration{Dataset: ref}
}

// runScript runs a few lines of Python on a model file and returns what they print.
func runScript(t *testing.T, script string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), python(t), append([]string{"-c", script}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// modelOf brings the model of a variant from the store and returns its file.
func (job Job) modelOf(t *testing.T, v spec.VariantOutput) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "model")
	if err := job.Store.Fetch(t.Context(), v.Model, dir); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "model.onnx")
}

// weights prints the operators that compute, each with the element types of the weights that it reads.
const weights = `
import collections, sys, onnx
model = onnx.load(sys.argv[1])
types = {t.name: onnx.TensorProto.DataType.Name(t.data_type) for t in model.graph.initializer}
makers = {name: node for node in model.graph.node for name in node.output}
for node in model.graph.node:
    if node.op_type in ("MatMul", "Add", "Gemm", "Conv"):
        read = [n if n in types else makers[n].input[0] if n in makers else n for n in node.input]
        print(node.op_type, *sorted({types[n] for n in read if n in types}))
`

func TestFP16(t *testing.T) {
	job := newJob(t, onnxtest.MLP, samples(t, 50, vectors), map[string]spec.Variant{
		"half": {ONNX: &spec.ONNXVariant{Precision: "fp16"}, Tolerance: spec.Tolerance{MaxAbs: new(0.05), Top1: new(0.95)}},
		"most": {ONNX: &spec.ONNXVariant{Precision: "fp16", KeepFP32: []string{"Add"}}, Tolerance: spec.Tolerance{MaxAbs: new(0.05)}},
	})
	out, err := Run(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"half": {"MatMul FLOAT16", "Add FLOAT16", "MatMul FLOAT16", "Add FLOAT16"},
		"most": {"MatMul FLOAT16", "Add FLOAT", "MatMul FLOAT16", "Add FLOAT"},
	} {
		v := out.Variants[name]
		if diff := cmp.Diff(want, strings.Split(runScript(t, weights, job.modelOf(t, v)), "\n")); diff != "" {
			t.Errorf("%s: operators and weights (-want +got):\n%s", name, diff)
		}
		if v.Parity.MaxAbs == 0 || v.Bytes >= out.Source.Bytes*3/4 {
			t.Errorf("%s: %+v; it cannot be in fp16, the source has %d bytes", name, v, out.Source.Bytes)
		}
	}
}

func TestOperatorsThatAreNotThere(t *testing.T) {
	job := newJob(t, onnxtest.MLP, samples(t, 10, vectors), map[string]spec.Variant{
		"half": {ONNX: &spec.ONNXVariant{Precision: "fp16", KeepFP32: []string{"Softmax", "Add"}}},
	})
	_, err := Run(t.Context(), job)
	const want = "keep_fp32: the model has no operator Softmax; it has: Add, MatMul, Relu"
	if fault, ok := errors.AsType[*ModelError](err); !ok || !strings.Contains(fault.Message, want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// quantized prints, for each convolution, how its inputs come to be and how many scales its weights have.
const quantized = `
import sys, onnx
model = onnx.load(sys.argv[1])
shapes = {t.name: list(t.dims) for t in model.graph.initializer}
makers = {name: node for node in model.graph.node for name in node.output}
for node in model.graph.node:
    if node.op_type == "Conv":
        activation, weight = (makers[name] for name in node.input[:2])
        print(activation.op_type, makers[activation.input[0]].op_type, weight.op_type, shapes[weight.input[1]])
`

func TestStaticInt8(t *testing.T) {
	dir := samples(t, 50, images)
	job := newJob(t, onnxtest.Conv, dir, nil)
	job.Spec.Variants = map[string]spec.Variant{
		"static": {
			ONNX:      &spec.ONNXVariant{Precision: "int8", Calibration: job.calibrated(t, 64, images)},
			Tolerance: spec.Tolerance{Cosine: new(0.98), Top1: new(0.9)},
		},
	}
	out, err := Run(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	want := "DequantizeLinear QuantizeLinear DequantizeLinear [8]\nDequantizeLinear QuantizeLinear DequantizeLinear [16]"
	if got := runScript(t, quantized, job.modelOf(t, out.Variants["static"])); got != want {
		t.Errorf("convolutions are\n%s\nwant, in QDQ and by channel,\n%s", got, want)
	}
	if out.Variants["static"].Parity.MaxAbs == 0 {
		t.Error("a model that is the source model")
	}
	job.Dir = t.TempDir()
	again, err := Run(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	if again.Variants["static"].Model != out.Variants["static"].Model {
		t.Error("another model the second time")
	}
	if entries, err := os.ReadDir(job.Dir); err != nil || len(entries) != 1 {
		t.Errorf("left in the folder: %v, %v", entries, err)
	}
}

func TestCalibrationHasNoSuchSplit(t *testing.T) {
	job := newJob(t, onnxtest.Conv, samples(t, 10, images), nil)
	c := job.calibrated(t, 4, images)
	c.Split = "valid"
	job.Spec.Variants = map[string]spec.Variant{"static": {ONNX: &spec.ONNXVariant{Precision: "int8", Calibration: c}}}
	_, err := Run(t.Context(), job)
	const want = `calibration: the dataset has no split "valid"; it has: train`
	if fault, ok := errors.AsType[*ModelError](err); !ok || !strings.Contains(fault.Message, want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// externalize moves all tensors of a model into a file beside it.
const externalize = `
import sys, onnx
model = onnx.load(sys.argv[1])
onnx.save_model(model, sys.argv[1], save_as_external_data=True, location="weights.bin", size_threshold=0)
`

// TestExternalData: a model whose tensors lie beside it has variants whose tensors lie beside them, so that none is too large for a file.
func TestExternalData(t *testing.T) {
	job := newJob(t, onnxtest.MLP, samples(t, 50, vectors), map[string]spec.Variant{
		"fp32": {ONNX: &spec.ONNXVariant{}, Tolerance: spec.Tolerance{MaxAbs: new(1e-4)}},
		"fp16": {ONNX: &spec.ONNXVariant{Precision: "fp16"}, Tolerance: spec.Tolerance{MaxAbs: new(0.05)}},
		"int8": {ONNX: &spec.ONNXVariant{Precision: "int8"}, Tolerance: spec.Tolerance{Cosine: new(0.99)}},
	})
	job.Spec.Variants["static"] = spec.Variant{
		ONNX:      &spec.ONNXVariant{Precision: "int8", Calibration: job.calibrated(t, 64, vectors)},
		Tolerance: spec.Tolerance{Cosine: new(0.98)},
	}
	file := filepath.Join(job.Model, "model.onnx")
	whole, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	runScript(t, externalize, file)
	if err := os.WriteFile(filepath.Join(job.Model, "README.md"), []byte(strings.Repeat("not the model\n", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := Run(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	if got := out.Source.Bytes; got < whole.Size()*9/10 || got > whole.Size()*2 {
		t.Errorf("the source has %d bytes, want about %d", got, whole.Size())
	}
	for name, v := range out.Variants {
		data, err := os.Stat(job.modelOf(t, v) + ".data")
		if err != nil || v.Model.Files != 2 || v.Bytes != v.Model.Bytes || data.Size() < 1024 {
			t.Errorf("%s: %d bytes, %+v, %v: want a model and its external data", name, v.Bytes, v.Model, err)
		}
	}
	if fp32, fp16 := out.Variants["fp32"].Bytes, out.Variants["fp16"].Bytes; fp16 > fp32*3/4 {
		t.Errorf("fp16 has %d bytes, fp32 %d", fp16, fp32)
	}
}

// large makes a model of two matrices that are too large for one protobuf message.
const large = `
import sys, numpy, onnx
from onnx import TensorProto, helper
N = 24000
nodes = [helper.make_node("MatMul", ["x", "w1"], ["h"]), helper.make_node("MatMul", ["h", "w2"], ["logits"])]
weights = []
for i, (name, columns) in enumerate((("w1", N), ("w2", N))):
    w = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[16 if name == "w1" else N, columns])
    values = numpy.random.default_rng(i).standard_normal(w.dims[0] * columns, numpy.float32) * 0.05
    with open(sys.argv[1] + "." + name, "wb") as f:
        values.tofile(f)
    w.data_location = TensorProto.EXTERNAL
    w.external_data.add(key="location", value="model.onnx." + name)
    weights.append(w)
graph = helper.make_graph(
    nodes, "large", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 16])],
    [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", N])], weights)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), sys.argv[1])
`

// TestBeyondTwoGiB takes minutes, 10 GB of memory and as much disk.
func TestBeyondTwoGiB(t *testing.T) {
	if os.Getenv("SLUICE_TEST_SOAK") == "" {
		t.Skip("SLUICE_TEST_SOAK is not set")
	}
	job := newJob(t, onnxtest.MLP, samples(t, 3, vectors), map[string]spec.Variant{
		"fp32": {ONNX: &spec.ONNXVariant{}, Tolerance: spec.Tolerance{Cosine: new(0.9999)}},
		"fp16": {ONNX: &spec.ONNXVariant{Precision: "fp16"}, Tolerance: spec.Tolerance{Cosine: new(0.99)}},
		"int8": {ONNX: &spec.ONNXVariant{Precision: "int8"}, Tolerance: spec.Tolerance{Cosine: new(0.9)}},
	})
	if err := os.RemoveAll(job.Model); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(job.Model, 0o700); err != nil {
		t.Fatal(err)
	}
	runScript(t, large, filepath.Join(job.Model, "model.onnx"))
	out, err := Run(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	if out.Source.Bytes <= 2<<30 || out.Variants["fp32"].Bytes <= 2<<30 || out.Variants["int8"].Bytes >= 1<<30 {
		t.Errorf("%+v", out)
	}
}

// TestBatched: among rows with numbers of other sizes a variant gives the answers that it gives alone, unless it takes the scale of its inputs from
// all rows. Sums in another order change nothing.
func TestBatched(t *testing.T) {
	job := newJob(t, onnxtest.MLP, samples(t, 100, vectors), map[string]spec.Variant{
		"fp32":    {ONNX: &spec.ONNXVariant{}},
		"fp16":    {ONNX: &spec.ONNXVariant{Precision: "fp16"}},
		"dynamic": {ONNX: &spec.ONNXVariant{Precision: "int8"}},
	})
	job.Spec.Variants["static"] = spec.Variant{ONNX: &spec.ONNXVariant{Precision: "int8", Calibration: job.calibrated(t, 64, vectors)}}
	out, err := Run(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"fp32", "fp16", "static"} {
		if share := *out.Variants[name].Parity.Batched; share != 1 {
			t.Errorf("%s: %v of the answers are the same, want all", name, share)
		}
	}
	dynamic := out.Variants["dynamic"]
	if p := dynamic.Parity; *p.Batched >= 0.9 || p.Agreement < 0.95 {
		t.Errorf("dynamic: %+v, batched %v", p, *p.Batched)
	}
	manifest, err := job.Store.Manifest(t.Context(), dynamic.Model)
	if err != nil || manifest.Meta[spec.MetaBatched] != strconv.FormatFloat(*dynamic.Parity.Batched, 'g', -1, 64) {
		t.Errorf("the facts of its artifact are %v, %v", manifest.Meta, err)
	}
}

// TestBatchedOfSeveralShapes: samples run among others of their shape, and a sample without one among itself.
func TestBatchedOfSeveralShapes(t *testing.T) {
	of := func(shape ...int64) []oip.Tensor { return []oip.Tensor{{Name: "x", Shape: shape, Data: []float32{}}} }
	samples := [][]oip.Tensor{of(1, 2), of(1, 3), of(1, 2), of(1, 4), of(1, 2)}
	for i, want := range []int{2, 1, 2, 1, 2} {
		if got := fitting(samples, i); len(got) != want || !sameShapes(got[0], samples[i]) {
			t.Errorf("sample %d: %d others %v", i, len(got), got)
		}
	}
}
