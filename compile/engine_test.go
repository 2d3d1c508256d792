package compile

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/compile/trtexec"
	"github.com/sluiceml/sluice/compile/trtexec/trtexectest"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/onnx"
	"github.com/sluiceml/sluice/serving/onnx/onnxtest"
	"github.com/sluiceml/sluice/serving/triton/layout"
)

func rowsOf(name string, most int, dims ...int) *spec.TensorRTShapes {
	shape := func(n int) map[string][]int { return map[string][]int{name: append([]int{n}, dims...)} }
	return &spec.TensorRTShapes{Min: shape(1), Opt: shape(min(8, most)), Max: shape(most)}
}

// engines is a job with an engine of each precision, of a model with convolutions.
func engines(t *testing.T) Job {
	t.Helper()
	job := newJob(t, onnxtest.Conv, samples(t, 20, images), nil)
	shapes := rowsOf("x", 16, 1, 8, 8)
	job.Spec.Variants = map[string]spec.Variant{
		"onnx": {ONNX: &spec.ONNXVariant{}},
		"fp32": {TensorRT: &spec.TensorRTVariant{Shapes: shapes}, Tolerance: spec.Tolerance{MaxAbs: new(1e-4), Top1: new(1.0)}},
		"fp16": {TensorRT: &spec.TensorRTVariant{Precision: "fp16", Shapes: shapes, Workspace: 3 << 19, BuilderLevel: new(0)}},
		"int8": {
			TensorRT:  &spec.TensorRTVariant{Precision: "int8", Shapes: shapes, Calibration: job.calibrated(t, 64, images)},
			Tolerance: spec.Tolerance{Cosine: new(0.98)},
		},
	}
	return job
}

// callsOf returns the flags of each run of trtexec but the first of a variant, which asks for the version.
func callsOf(t *testing.T, path string) (all []string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		if !strings.Contains(line, "--help") {
			all = append(all, strings.TrimSpace(line))
		}
	}
	return all
}

func TestEngines(t *testing.T) {
	for _, tc := range []struct {
		version     string
		fp16, int8  string // flags of the builder
		differs     bool   // fp16 comes from the graph, so that the stand-in computes in it
		under       string // flags of every inference
		underAbsent string
	}{
		{"10.3.0", " --fp16", " --int8", false, " --useCudaGraph --useSpinWait", "--includeDataTransfers"},
		{"11.1.0", "", "", true, " --includeDataTransfers", "--useCudaGraph"},
	} {
		t.Run(tc.version, func(t *testing.T) {
			calls := trtexectest.Install(t, trtexectest.L4(tc.version))
			job := engines(t)
			out, err := Run(t.Context(), job)
			if err != nil {
				t.Fatal(err)
			}
			checkCalls(t, callsOf(t, calls), tc.fp16, tc.int8, tc.under, tc.underAbsent)
			for _, name := range []string{"fp32", "fp16", "int8"} {
				v := out.Variants[name]
				want := &spec.EngineOutput{
					GPU: "NVIDIA L4", ComputeCapability: "8.9", Driver: "550.54.15", Version: tc.version,
					Layers: map[string]int{strings.ToUpper(name): 1, "FP32": 1},
					Slowest: []spec.EngineLayer{
						{Name: "first", MeanMS: 0.2, Share: 0.666667}, {Name: "second", MeanMS: 0.1, Share: 0.333333},
					},
				}
				if name == "fp32" {
					want.Layers = map[string]int{"FP32": 2}
				}
				if diff := cmp.Diff(want, v.TensorRT); diff != "" {
					t.Errorf("%s (-want +got):\n%s", name, diff)
				}
				if v.Latency != (spec.Latency{P50MS: 0.99, P99MS: 1.48}) || math.Abs(v.Throughput-1669.45) > 0.01 || v.Model.Files != 1 {
					t.Errorf("%s: %+v", name, v)
				}
				job.checkArtifact(t, name, tc.version, v.Model)
			}
			if p := out.Variants["fp16"].Parity; (p.MaxAbs > 1e-5) != tc.differs || p.MaxAbs > 0.1 {
				t.Errorf("parity of fp16 is %+v; a graph in fp16: %v", p, tc.differs)
			}
			if p := out.Variants["int8"].Parity; p.MaxAbs < 1e-5 || p.Top1 < 0.8 {
				t.Errorf("parity of int8 is %+v, want that of a quantised graph", p)
			}
			if v := out.Variants["onnx"]; v.TensorRT != nil || v.Latency.P50MS <= 0 {
				t.Errorf("onnx: %+v", v)
			}
		})
	}
}

// TestEnginesBehindText: an engine begins behind what works on text. What that makes of the samples goes into it, and it is kept beside it.
func TestEnginesBehindText(t *testing.T) {
	for _, version := range []string{"10.3.0", "11.1.0"} {
		t.Run(version, func(t *testing.T) {
			trtexectest.Install(t, trtexectest.L4(version))
			job := newJob(t, onnxtest.Words, samples(t, 20, words), nil)
			shapes := &spec.TensorRTShapes{Min: map[string][]int{"hits": {1, 1}}, Opt: map[string][]int{"hits": {1, 4}}, Max: map[string][]int{"hits": {8, 9}}}
			variant := func(precision string, c *spec.Calibration) *spec.TensorRTVariant {
				return &spec.TensorRTVariant{Inputs: []string{"hits"}, Precision: precision, Shapes: shapes, Calibration: c}
			}
			job.Spec.Variants = map[string]spec.Variant{
				"fp32": {TensorRT: variant("", nil), Tolerance: spec.Tolerance{MaxAbs: new(1e-5)}},
				"fp16": {TensorRT: variant("fp16", nil), Tolerance: spec.Tolerance{MaxAbs: new(1e-2), Top1: new(1.0)}},
				"int8": {TensorRT: variant("int8", job.calibrated(t, 16, words)), Tolerance: spec.Tolerance{MaxAbs: new(0.1), Top1: new(1.0)}},
			}
			out, err := Run(t.Context(), job)
			if err != nil {
				t.Fatal(err)
			}
			for name, v := range out.Variants {
				job.checkFront(t, name, v)
			}
		})
	}
}

// words has texts of several lengths, none longer than the engine takes.
func words(rng *rand.Rand) map[string]any {
	all := []string{"spam", "ham", "eggs"}
	var text []string
	for range 1 + rng.IntN(9) {
		text = append(text, all[rng.IntN(len(all))])
	}
	return map[string]any{"text": strings.Join(text, " ")}
}

func echoes(*rand.Rand) map[string]any {
	row := map[string]any{"bool": []bool{true, false}, "string": []string{"a", "b"}}
	for _, number := range []string{"int32", "int64", "uint8", "float", "double"} {
		row[number] = []int{1, 2}
	}
	return row
}

// checkFront looks at the artifact of an engine that begins at "hits".
func (job Job) checkFront(t *testing.T, name string, v spec.VariantOutput) {
	t.Helper()
	manifest, err := job.Store.Manifest(t.Context(), v.Model)
	if err != nil {
		t.Fatal(err)
	}
	e, err := layout.DescribeEngine(manifest)
	if err != nil {
		t.Fatal(err)
	}
	hits := []oip.TensorMetadata{{Name: "hits", Datatype: oip.FP32, Shape: []int64{-1, -1}}}
	text := []oip.TensorMetadata{{Name: "text", Datatype: oip.Bytes, Shape: []int64{-1}}}
	want := layout.Engine{
		GPU: e.GPU, ComputeCapability: e.ComputeCapability, Driver: e.Driver, TensorRT: e.TensorRT, Precision: name,
		Inputs: hits, Outputs: []oip.TensorMetadata{{Name: "probabilities", Datatype: oip.FP32, Shape: []int64{-1, 2}}}, MaxBatch: 8,
		Front: &layout.Front{Inputs: text, Outputs: hits},
	}
	if diff := cmp.Diff(want, e); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
	if diff := cmp.Diff(text, e.SourceInputs()); diff != "" {
		t.Errorf("%s: inputs of the source model (-want +got):\n%s", name, diff)
	}
	front := filepath.Join(filepath.Dir(job.modelOf(t, v)), layout.FrontFile)
	session, err := onnx.Open(front)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	made, err := session.Infer(t.Context(), []oip.Tensor{{Name: "text", Shape: []int64{1}, Data: []string{"no spam"}}})
	if diff := cmp.Diff([]oip.Tensor{{Name: "hits", Shape: []int64{1, 2}, Data: []float32{0, 1}}}, made); diff != "" || err != nil {
		t.Errorf("%s: the front: %v; (-want +got):\n%s", name, err, diff)
	}
	if v.TensorRT.Layers[strings.ToUpper(name)] == 0 || !slices.Equal(v.TensorRT.Inputs, []string{"hits"}) {
		t.Errorf("%s: %+v", name, v.TensorRT)
	}
	if v.Model.Files != 2 || v.Bytes != v.Model.Bytes {
		t.Errorf("%s: %d bytes, %+v: want the engine and its front", name, v.Bytes, v.Model)
	}
}

// checkCalls compares the flags of the builds, and those of the inferences.
func checkCalls(t *testing.T, calls []string, fp16Flags, int8Flags, under, absent string) {
	t.Helper()
	const (
		shapes = " --minShapes=x:1x1x8x8 --optShapes=x:8x1x8x8 --maxShapes=x:16x1x8x8"
		always = " --skipInference --timingCacheFile=timing.cache --profilingVerbosity=detailed --exportLayerInfo=layers.json"
	)
	var builds []string
	inferences := 0
	for _, call := range calls {
		if !strings.HasPrefix(call, "GPU-0a1b ") {
			t.Errorf("%s: not on the GPU that was looked at", call)
		}
		if _, rest, ok := strings.Cut(call, always); ok {
			builds = append(builds, rest)
			continue
		}
		inferences++
		if !strings.Contains(call, under) || strings.Contains(call, absent) {
			t.Errorf("%s: want%s", call, under)
		}
	}
	want := []string{shapes + " --memPoolSize=workspace:2 --builderOptimizationLevel=0" + fp16Flags, shapes, shapes + int8Flags}
	if diff := cmp.Diff(want, builds); diff != "" {
		t.Errorf("builds (-want +got):\n%s", diff)
	}
	if want := 3 * (1 + 2); inferences != want { // 20 samples at 16 a batch, and one that is timed
		t.Errorf("%d inferences, want %d", inferences, want)
	}
}

func (job Job) checkArtifact(t *testing.T, name, version string, ref artifact.Ref) {
	t.Helper()
	manifest, err := job.Store.Manifest(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	e, err := layout.DescribeEngine(manifest)
	if err != nil {
		t.Fatal(err)
	}
	if manifest.Meta["variant"] != name || manifest.Files[0].Path != layout.EngineFile || e.GPU != "NVIDIA L4" || e.ComputeCapability != "8.9" ||
		e.Driver != "550.54.15" || e.TensorRT != version || e.Precision != name || e.MaxBatch != 16 ||
		e.Inputs[0].Name != "x" || e.Outputs[0].Name != "logits" {
		t.Errorf("%s: %+v, %+v", name, manifest, e)
	}
}

// TestTimingCache: what TensorRT has measured is kept for the next engine on the same GPU and version, and no other.
func TestTimingCache(t *testing.T) {
	job := newJob(t, onnxtest.MLP, samples(t, 4, vectors), map[string]spec.Variant{"trt": {TensorRT: &spec.TensorRTVariant{Shapes: rowsOf("x", 4, 16)}}})
	cache := func() string {
		t.Helper()
		job.Dir = t.TempDir()
		if _, err := Run(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		var all []string
		for info, err := range job.Store.Driver().List(t.Context(), "timings/") {
			if err != nil {
				t.Fatal(err)
			}
			var record timings
			if err := job.Store.GetJSON(t.Context(), info.Key, &record); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "cache")
			if found, err := job.fetchTimings(t.Context(), record.Platform, file); err != nil || !found {
				t.Fatalf("%v, %v", found, err)
			}
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, record.TensorRT+" "+string(rune('0'+strings.Count(string(content), "a measurement"))))
		}
		return strings.Join(all, ", ")
	}
	trtexectest.Install(t, trtexectest.L4("10.3.0"))
	if got := cache() + "; " + cache(); got != "10.3.0 1; 10.3.0 2" {
		t.Errorf("measurements: %s", got)
	}
	trtexectest.Install(t, trtexectest.L4("11.1.0"))
	if got := cache(); got != "10.3.0 2, 11.1.0 1" && got != "11.1.0 1, 10.3.0 2" {
		t.Errorf("measurements: %s", got)
	}
	// One that TensorRT does not take is made anew.
	tool, err := trtexec.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := job.storeTimings(t.Context(), tool.Platform, broken); err != nil {
		t.Fatal(err)
	}
	if got := cache(); got != "10.3.0 2, 11.1.0 1" && got != "11.1.0 1, 10.3.0 2" {
		t.Errorf("measurements: %s", got)
	}
}

func TestEngineFaults(t *testing.T) {
	variant := func(v spec.TensorRTVariant) map[string]spec.Variant {
		return map[string]spec.Variant{"trt": {TensorRT: &v}}
	}
	l4 := trtexectest.L4("10.3.0")
	other, none := l4, l4
	other.Version, none.GPU = "8.6.1", ""
	for _, tc := range []struct {
		name, model string
		row         func(*rand.Rand) map[string]any
		machine     trtexectest.Options
		variant     spec.TensorRTVariant
		want        string
	}{
		{"text", onnxtest.Words, texts, l4, spec.TensorRTVariant{}, "Tokenizer works on strings, which TensorRT does not support: let the engine start after it " +
			"with `inputs: [hits]`, or later, such as at hit, scaled, logits"},
		{"text behind the cut", onnxtest.Words, texts, l4, spec.TensorRTVariant{Inputs: []string{"tokens"}}, "LabelEncoder works on strings, which"},
		{"text that nothing else follows", onnxtest.Echo, echoes, l4, spec.TensorRTVariant{}, "Identity works on strings, which TensorRT does not support, and an output"},
		{"no such tensor", onnxtest.Words, texts, l4, spec.TensorRTVariant{Inputs: []string{"hitz"}}, "inputs: the model has no tensor hitz; it has hit, hits"},
		{"a tensor too many", onnxtest.Words, texts, l4, spec.TensorRTVariant{Inputs: []string{"hits", "hit"}}, "inputs: nothing that follows the others reads hits"},
		{"its own input", onnxtest.MLP, vectors, l4, spec.TensorRTVariant{Inputs: []string{"x"}}, "inputs: the model begins at these tensors already"},
		{"open dimensions", onnxtest.MLP, vectors, l4, spec.TensorRTVariant{}, `input "x" of the model has dynamic dimensions, [-1 16]: set`},
		{"another rank", onnxtest.MLP, vectors, l4, spec.TensorRTVariant{Shapes: rowsOf("x", 4)}, "the variant's has 1 dimensions"},
		{"an input without a shape", onnxtest.MLP, vectors, l4, spec.TensorRTVariant{Shapes: rowsOf("y", 4, 16)}, `shapes: input "x" is missing; its shape in the model is [-1 16]`},
		{"another size", onnxtest.MLP, vectors, l4, spec.TensorRTVariant{Shapes: rowsOf("x", 4, 8)}, `dimension 2 of input "x" is fixed at 16`},
		{"a sample that does not fit", onnxtest.Words, texts, l4, spec.TensorRTVariant{Inputs: []string{"hits"}, Shapes: rowsOf("hits", 4, 2)}, `sample 1 has the shape [1 1] at input "hits", but the engine accepts [1 2] to [4 2]`},
		{"a version that is not known", onnxtest.MLP, vectors, other, spec.TensorRTVariant{Shapes: rowsOf("x", 4, 16)}, "trtexec is from TensorRT 8.6.1; 10 and 11 are supported"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			calls := trtexectest.Install(t, tc.machine)
			_, err := Run(t.Context(), newJob(t, tc.model, samples(t, 4, tc.row), variant(tc.variant)))
			if fault, ok := errors.AsType[*ModelError](err); !ok || !strings.Contains(fault.Message, tc.want) {
				t.Errorf("%v, want a ModelError with %q", err, tc.want)
			}
			if calls := callsOf(t, calls); len(calls) > 0 {
				t.Errorf("found only after trtexec had done %s", calls)
			}
		})
	}
	t.Run("no GPU", func(t *testing.T) {
		trtexectest.Install(t, none)
		_, err := Run(t.Context(), newJob(t, onnxtest.MLP, samples(t, 4, vectors), variant(spec.TensorRTVariant{})))
		if _, ok := errors.AsType[*ModelError](err); ok || err == nil || !strings.Contains(err.Error(), "No devices were found") {
			t.Errorf("%v, want an error of the machine's that may pass", err)
		}
	})
	t.Run("no TensorRT", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		_, err := Run(t.Context(), newJob(t, onnxtest.MLP, samples(t, 4, vectors), variant(spec.TensorRTVariant{})))
		if fault, ok := errors.AsType[*ModelError](err); !ok || !strings.Contains(fault.Message, "trtexec is neither in PATH nor at") {
			t.Errorf("%v", err)
		}
	})
	t.Run("out of tolerance", func(t *testing.T) {
		trtexectest.Install(t, trtexectest.L4("11.1.0"))
		job := engines(t)
		v := job.Spec.Variants["int8"]
		v.Tolerance = spec.Tolerance{MaxAbs: new(1e-9)}
		job.Spec.Variants = map[string]spec.Variant{"int8": v}
		_, err := Run(t.Context(), job)
		if e, ok := errors.AsType[*ToleranceError](err); !ok || e.Variant != "int8" {
			t.Errorf("%v, want a ToleranceError", err)
		}
	})
}
