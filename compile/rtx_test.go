package compile

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/testing/rig"
	"github.com/sluiceml/sluice/serving/onnx/onnxtest"
	"github.com/sluiceml/sluice/serving/triton/layout"
)

// installRTX makes TensorRT for RTX importable.
func installRTX(t *testing.T) {
	t.Helper()
	stamp, err := rig.Program("rtx", ".stamp")
	if err != nil {
		rig.Skip(t, err)
	}
	t.Setenv("PYTHONPATH", filepath.Dir(stamp))
}

// rtx is a variant for two kinds of GPU.
func rtx(shapes *spec.TensorRTShapes) *spec.TensorRTVariant {
	return &spec.TensorRTVariant{Flavor: spec.FlavorRTX, Compute: []string{"8.6", "L4", "A10G"}, Shapes: shapes}
}

// inPrecisions is a job with a variant for ONNX Runtime and an engine of each precision.
func (job Job) inPrecisions(t *testing.T, shapes *spec.TensorRTShapes, inputs []string, row func(*rand.Rand) map[string]any) Job {
	t.Helper()
	job.Spec.Variants = map[string]spec.Variant{"onnx": {ONNX: &spec.ONNXVariant{}}}
	for _, precision := range []string{"fp32", "fp16", "int8"} {
		v := rtx(shapes)
		v.Precision, v.Inputs = precision, inputs
		if precision == "int8" {
			v.Calibration = job.calibrated(t, 16, row)
		}
		job.Spec.Variants[precision] = spec.Variant{TensorRT: v}
	}
	return job
}

const transformer = `
import inspect, sys, torch
torch.manual_seed(1)
options = {"dynamo": False} if "dynamo" in inspect.signature(torch.onnx.export).parameters else {}
block = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0).eval()
torch.onnx.export(block, (torch.zeros(1, 4, 16),), sys.argv[1], input_names=["x"], output_names=["y"], dynamic_axes={"x": {0: "n"}, "y": {0: "n"}}, **options)
`

// transformerFolder exports a transformer's block.
func transformerFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), python(t), "-c", transformer, filepath.Join(dir, "model.onnx")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

func sequences(rng *rand.Rand) map[string]any {
	x := make([][]float64, 4)
	for i := range x {
		x[i], _ = vectors(rng)["x"].([]float64)
	}
	return map[string]any{"x": x}
}

// TestRTX: TensorRT's own builder makes engines for two kinds of GPU on this machine, which has none. They are not measured, and TensorRT takes
// them for engines.
func TestRTX(t *testing.T) {
	installRTX(t)
	block := newJob(t, onnxtest.MLP, samples(t, 5, sequences), nil)
	block.Model = transformerFolder(t)
	behindText := &spec.TensorRTShapes{Min: map[string][]int{"hits": {1, 1}}, Opt: map[string][]int{"hits": {1, 4}}, Max: map[string][]int{"hits": {8, 9}}}
	for name, job := range map[string]Job{
		"convolutions": newJob(t, onnxtest.Conv, samples(t, 5, images), nil).inPrecisions(t, rowsOf("x", 16, 1, 8, 8), nil, images),
		"transformer":  block.inPrecisions(t, rowsOf("x", 16, 4, 16), nil, sequences),
		"behind text":  newJob(t, onnxtest.Words, samples(t, 5, words), nil).inPrecisions(t, behindText, []string{"hits"}, words),
	} {
		t.Run(name, func(t *testing.T) {
			out, err := Run(t.Context(), job)
			if err != nil {
				t.Fatal(err)
			}
			if out.Selected.Name != "onnx" || !out.Variants["onnx"].Measured {
				t.Errorf("selected %s; onnx is %+v", out.Selected.Name, out.Variants["onnx"])
			}
			for _, precision := range []string{"fp32", "fp16", "int8"} {
				job.checkRTX(t, precision, out.Variants[precision])
			}
		})
	}
}

func (job Job) checkRTX(t *testing.T, precision string, v spec.VariantOutput) {
	t.Helper()
	if v.Measured || v.IsMeasured() || v.Parity != (spec.Parity{}) || v.Throughput != 0 {
		t.Errorf("%s: measured without a GPU: %+v", precision, v)
	}
	inputs := job.Spec.Variants[precision].TensorRT.Inputs
	want := &spec.EngineOutput{ComputeCapability: "8.6, 8.9", Version: v.TensorRT.Version, Inputs: inputs, Layers: map[string]int{}, Slowest: []spec.EngineLayer{}}
	if diff := cmp.Diff(want, v.TensorRT); diff != "" || !strings.HasPrefix(v.TensorRT.Version, "1.") {
		t.Errorf("%s (-want +got):\n%s", precision, diff)
	}
	manifest, err := job.Store.Manifest(t.Context(), v.Model)
	if err != nil {
		t.Fatal(err)
	}
	described, err := layout.DescribeEngine(manifest)
	if err != nil || described.Flavor != spec.FlavorRTX || described.Precision != precision || (described.Front != nil) != (len(inputs) > 0) {
		t.Errorf("%s: %v; described as %+v", precision, err, described)
	}
	engine, err := os.ReadFile(filepath.Join(job.Dir, precision, layout.EngineFile))
	if err != nil {
		t.Fatal(err)
	}
	if said := validity(t, engine); said != "[]" {
		t.Errorf("%s: TensorRT says of the engine: %s", precision, said)
	}
	engine[1] ^= 1
	if said := validity(t, engine); said != "['MALFORMED_ENGINE']" {
		t.Errorf("%s: TensorRT says of an engine with another byte: %s", precision, said)
	}
}

// validity is what TensorRT finds wrong with an engine, apart from the want of a GPU.
func validity(t *testing.T, engine []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "engine")
	if err := os.WriteFile(file, engine, 0o600); err != nil {
		t.Fatal(err)
	}
	script := strings.Replace(rtxScript, `if __name__ == "__main__":`, "if False:", 1) + `
trt, _ = load()
print(reasons(trt, int(trt.Runtime(logger_of(trt)).get_engine_validity(pathlib.Path(sys.argv[1]).read_bytes())[1])))
`
	out, err := exec.CommandContext(t.Context(), python(t), "-c", script, file).Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

const determinant = `
import onnx, sys
from onnx import helper
x, y = (helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, s) for n, s in (("x", [4, 4]), ("y", [])))
graph = helper.make_graph([helper.make_node("Det", ["x"], ["y"], name="volume")], "g", [x], [y])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), sys.argv[1])
`

// TestRTXRefuses: what cannot be built is refused in one sentence, and so is what cannot be measured but must be.
func TestRTXRefuses(t *testing.T) {
	installRTX(t)
	det := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), python(t), "-c", determinant, filepath.Join(det, "model.onnx")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	mlp := func(change func(v *spec.Variant)) spec.Variant {
		v := spec.Variant{TensorRT: rtx(rowsOf("x", 8, 16))}
		change(&v)
		return v
	}
	for _, tc := range []struct {
		name, model string
		variant     spec.Variant
		row         func(*rand.Rand) map[string]any
		fails       string
	}{
		{"an operator", det, spec.Variant{TensorRT: rtx(nil)}, func(*rand.Rand) map[string]any {
			return map[string]any{"x": [][]float64{{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}}}
		}, "TensorRT for RTX cannot read the model: operator Det of node 'volume' is not supported"},
		{"a capability", "", mlp(func(v *spec.Variant) { v.TensorRT.Compute = []string{"9.0"} }), vectors, "TensorRT for RTX 1.7.1.116 does not build for compute capability 9.0"},
		{"Turing", "", mlp(func(v *spec.Variant) { v.TensorRT.Compute = []string{"7.5"} }), vectors, "TensorRT for RTX cannot build the engine: Myelin (Cannot compile operation"},
		{"memory", "", mlp(func(v *spec.Variant) { v.TensorRT.Workspace = 1 }), vectors, "TensorRT for RTX cannot build the engine: "},
		{"shapes", "", mlp(func(v *spec.Variant) { v.TensorRT.Shapes = rowsOf("x", 8, 15) }), vectors, "dimension 2 of input \"x\" is fixed at 16 in the model"},
		{"text", onnxtest.Folder(t, onnxtest.Words), spec.Variant{TensorRT: rtx(nil)}, words, "works on strings, which TensorRT does not support"},
		{"a tolerance", "", mlp(func(v *spec.Variant) { v.Tolerance.Top1 = new(0.9) }), vectors, "variant a has a `tolerance`, but was not measured"},
		{"the fastest", "", mlp(func(*spec.Variant) {}), vectors, "select: no variant was measured, so none is the fastest"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			job := newJob(t, onnxtest.MLP, samples(t, 2, tc.row), map[string]spec.Variant{"a": tc.variant})
			if tc.model != "" {
				job.Model = tc.model
			}
			_, err := Run(t.Context(), job)
			if _, fault := errors.AsType[*ModelError](err); !fault || !strings.Contains(err.Error(), tc.fails) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want %q", err, tc.fails)
			}
		})
	}
}

// TestRTXIsNotInstalled: the error names what to install.
func TestRTXIsNotInstalled(t *testing.T) {
	job := newJob(t, onnxtest.MLP, samples(t, 2, vectors), map[string]spec.Variant{"a": {TensorRT: rtx(rowsOf("x", 8, 16))}})
	_, err := Run(t.Context(), job)
	const want = "TensorRT for RTX is not installed; install it in the step's Python: pip install tensorrt-rtx-cu13-bindings onnxruntime-ep-nv-tensorrt-rtx-cu13"
	if _, fault := errors.AsType[*ModelError](err); !fault || !strings.HasSuffix(err.Error(), want) {
		t.Error(err)
	}
}

// installStandIn makes a stand-in of TensorRT for RTX importable, on a machine that has a GPU of this name where it is not empty.
func installStandIn(t *testing.T, gpu string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/rtx")); err != nil {
		t.Fatal(err)
	}
	library := filepath.Join(dir, "onnxruntime_ep_nv_tensorrt_rtx", "libcudart.so.13.4")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if out, err := exec.CommandContext(ctx, "cc", "-shared", "-fPIC", "-o", library, filepath.Join(dir, "cudart.c")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Setenv("PYTHONPATH", dir)
	if gpu != "" {
		t.Setenv("FAKE_GPU", gpu)
	}
}

// TestRTXWithGPU: where there is a GPU, engines are measured as other variants are. No GPU is at hand: what runs here is rtx.py with a stand-in
// for TensorRT and CUDA that computes with ONNX Runtime.
func TestRTXWithGPU(t *testing.T) {
	installStandIn(t, "NVIDIA L4")
	job := newJob(t, onnxtest.Conv, samples(t, 5, images), nil).inPrecisions(t, rowsOf("x", 16, 1, 8, 8), nil, images)
	loose := job.Spec.Variants["fp16"]
	loose.Tolerance = spec.Tolerance{MaxAbs: new(0.01), Top1: new(1.0)}
	job.Spec.Variants["fp16"] = loose
	out, err := Run(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range out.Variants {
		if !v.Measured || v.Latency.P50MS <= 0 || v.Latency.P99MS < v.Latency.P50MS || v.Throughput <= 0 || v.Parity.Cosine < 0.95 {
			t.Errorf("%s: %+v", name, v)
		}
	}
	if a, b := out.Variants["fp32"].Parity, out.Variants["fp16"].Parity; a.MaxAbs > 1e-5 || b.MaxAbs <= a.MaxAbs {
		t.Errorf("parity of fp32 is %+v, and of fp16 %+v", a, b)
	}
	if e := out.Variants["fp32"].TensorRT; e.GPU != "NVIDIA L4" || e.Driver != "CUDA 13.4" {
		t.Errorf("%+v", e)
	}

	outside := newJob(t, onnxtest.Conv, job.Dataset, map[string]spec.Variant{"fp16": loose})
	outside.Spec.Variants["fp16"] = spec.Variant{TensorRT: loose.TensorRT, Tolerance: spec.Tolerance{MaxAbs: new(0.0)}}
	_, err = Run(t.Context(), outside)
	if _, broken := errors.AsType[*ToleranceError](err); !broken {
		t.Errorf("a variant outside its tolerance: %v", err)
	}
}

// TestRTXOnOtherGPU: an engine that the GPU does not run is built, and not measured; one that is none fails.
func TestRTXOnOtherGPU(t *testing.T) {
	installStandIn(t, "NVIDIA H200")
	variants := map[string]spec.Variant{"a": {TensorRT: rtx(rowsOf("x", 8, 16))}}
	t.Setenv("FAKE_VALIDITY", "UNSUPPORTED_CC")
	job := newJob(t, onnxtest.MLP, samples(t, 2, vectors), variants)
	job.Spec.Select = "a"
	var progress []string
	job.Progress = func(text string) { progress = append(progress, text) }
	out, err := Run(t.Context(), job)
	if err != nil || out.Variants["a"].Measured {
		t.Fatalf("%v; %+v", err, out.Variants["a"])
	}
	if said := strings.Join(progress, "\n"); !strings.Contains(said, "not measured: the engine does not run on NVIDIA H200: UNSUPPORTED_CC") {
		t.Error(said)
	}
	t.Setenv("FAKE_VALIDITY", "MALFORMED_ENGINE")
	job.Dir = t.TempDir()
	if _, err := Run(t.Context(), job); err == nil || !strings.Contains(err.Error(), "does not accept the engine: MALFORMED_ENGINE") {
		t.Error(err)
	}
}
