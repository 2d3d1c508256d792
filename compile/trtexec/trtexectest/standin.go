package trtexectest

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/onnx"
)

// flags are those that trtexec documents and that are understood here, by major version. In 11 networks are strongly typed: the
// flags that ask for a precision are gone, and so are those that ask for what it does by default.
var flags = map[int][]string{
	10: slices.Concat(common, []string{
		"fp16", "bf16", "int8", "fp8", "best", "calib", "noTF32", "stronglyTyped", "useCudaGraph", "useSpinWait", "noDataTransfers",
	}),
	11: slices.Concat(common, []string{"noTF32", "includeDataTransfers", "noCudaGraph", "noSpinWait"}),
}

var common = []string{
	"onnx", "saveEngine", "loadEngine", "minShapes", "optShapes", "maxShapes", "shapes", "memPoolSize", "timingCacheFile",
	"builderOptimizationLevel", "profilingVerbosity", "skipInference", "exportLayerInfo", "exportTimes", "exportProfile", "exportOutput",
	"separateProfileRun", "loadInputs", "iterations", "duration", "warmUp", "help",
}

// trtexec is one run.
type trtexec struct {
	version string
	gpu     string
	flags   map[string]string
}

// header begins an engine.
type header struct {
	Version   string           `json:"version"`
	GPU       string           `json:"gpu"`
	Precision string           `json:"precision"`
	Min       map[string][]int `json:"min"`
	Max       map[string][]int `json:"max"`
	Detailed  bool             `json:"detailed"`
}

// run is trtexec's main, and returns its exit code.
func run(version, gpu string, args []string) int {
	number := versionNumber(version)
	fmt.Printf("&&&& RUNNING TensorRT.trtexec [TensorRT v%d] [b1] # trtexec %s\n", number, strings.Join(args, " "))
	t := &trtexec{version: version, gpu: gpu, flags: map[string]string{}}
	var unknown []string
	for _, arg := range args {
		name, value, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		if !slices.Contains(flags[number/10_000], name) {
			unknown = append(unknown, fmt.Sprintf("[E] Unknown option: --%s %s", name, value))
		}
		t.flags[name] = value
	}
	if _, help := t.flags["help"]; help {
		fmt.Println("=== Model Options ===")
		return 0
	}
	err := errors.New(strings.Join(unknown, "\n"))
	if len(unknown) == 0 {
		err = t.do(context.Background())
	}
	if err != nil {
		fmt.Printf("%v\n&&&& FAILED TensorRT.trtexec [TensorRT v%d] [b1]\n", err, number)
		return 1
	}
	fmt.Printf("&&&& PASSED TensorRT.trtexec [TensorRT v%d] [b1]\n", number)
	return 0
}

func versionNumber(version string) int {
	n := 0
	for part := range strings.SplitSeq(version, ".") {
		d, err := strconv.Atoi(part)
		if err != nil {
			panic(err)
		}
		n = n*100 + d
	}
	return n
}

func (t *trtexec) has(flag string) bool { _, ok := t.flags[flag]; return ok }

func (t *trtexec) do(ctx context.Context) error {
	if t.has("onnx") {
		if err := t.build(); err != nil {
			return err
		}
	}
	if t.has("skipInference") {
		return nil
	}
	return t.infer(ctx)
}

// build makes an engine of a graph.
func (t *trtexec) build() error {
	graph, err := os.ReadFile(t.flags["onnx"])
	if err != nil {
		return fmt.Errorf("[E] Could not open file %s: %w", t.flags["onnx"], err)
	}
	if err := t.timings(); err != nil {
		return err
	}
	h := header{Version: t.version, GPU: t.gpu, Precision: "FP32", Detailed: t.flags["profilingVerbosity"] == "detailed"}
	switch {
	case t.has("fp16") || bytes.Contains(graph, []byte("_input_cast")): // as the converter calls the casts that it adds
		h.Precision = "FP16"
	case t.has("int8") || bytes.Contains(graph, []byte("QuantizeLinear")):
		h.Precision = "INT8"
	}
	if h.Min, err = shapes(t.flags["minShapes"]); err != nil {
		return err
	}
	if h.Max, err = shapes(t.flags["maxShapes"]); err != nil {
		return err
	}
	first, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if path := t.flags["exportLayerInfo"]; path != "" {
		if err := os.WriteFile(path, []byte(layerInfo(h)), 0o600); err != nil {
			return err
		}
	}
	return os.WriteFile(t.flags["saveEngine"], slices.Concat(first, []byte("\n"), graph), 0o600)
}

// timings reads and writes the timing cache. One of another version or GPU ends the build.
func (t *trtexec) timings() error {
	path := t.flags["timingCacheFile"]
	if path == "" {
		return nil
	}
	own := "timing cache of " + t.version + " on " + t.gpu + "\n"
	content, err := os.ReadFile(path)
	if err == nil && !strings.HasPrefix(string(content), own) {
		return errors.New("[E] Error[1]: [timingCache.cpp::deserialize] the timing cache is of another TensorRT or GPU")
	}
	if err != nil {
		content = []byte(own)
	}
	return os.WriteFile(path, append(content, "a measurement\n"...), 0o600)
}

func layerInfo(h header) string {
	if !h.Detailed {
		return `{"Layers": ["first", "second"], "Bindings": ["x", "logits"]}`
	}
	return fmt.Sprintf(`{"Layers": [
{"Name": "first", "LayerType": "gemm", "Outputs": [{"Name": "h", "Location": "Device", "Dimensions": [1,64], "Format/Datatype": "Row major linear %s format"}]},
{"Name": "second", "LayerType": "Reformat", "Outputs": [{"Name": "logits", "Location": "Device", "Dimensions": [1,3], "Format/Datatype": "Row major linear FP32"}]}
], "Bindings": ["x", "logits"]}`, h.Precision)
}

// infer runs an engine and writes what is asked for.
func (t *trtexec) infer(ctx context.Context) error {
	content, err := os.ReadFile(t.flags["loadEngine"])
	if err != nil {
		return fmt.Errorf("[E] Could not open plan file %s: %w", t.flags["loadEngine"], err)
	}
	first, graph, _ := bytes.Cut(content, []byte("\n"))
	var h header
	if err := json.Unmarshal(first, &h); err != nil {
		return fmt.Errorf("[E] Engine deserialization failed: %w", err)
	}
	if h.Version != t.version || h.GPU != t.gpu {
		return errors.New("[E] IRuntime::deserializeCudaEngine: Error Code 6: API Usage Error (the engine plan file is not compatible)")
	}
	temporary, err := os.CreateTemp("", "engine-*.onnx")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name())
	_, err = temporary.Write(graph)
	if err := errors.Join(err, temporary.Close()); err != nil {
		return err
	}
	session, err := onnx.OpenAsWritten(temporary.Name()) // an engine's arithmetic is not that of this processor
	if err != nil {
		return fmt.Errorf("[E] %w", err)
	}
	defer func() { _ = session.Close() }()
	inputs, err := t.inputs(h, session.Inputs())
	if err != nil {
		return err
	}
	outputs, err := session.Infer(ctx, inputs)
	if err != nil {
		return fmt.Errorf("[E] Error occurred during inference: %w", err)
	}
	return t.export(outputs)
}

// inputs reads the files of --loadInputs.
func (t *trtexec) inputs(h header, described []oip.TensorMetadata) ([]oip.Tensor, error) {
	given, err := shapes(t.flags["shapes"])
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for item := range strings.SplitSeq(t.flags["loadInputs"], ",") {
		name, file, _ := strings.Cut(item, ":")
		files[name] = file
	}
	inputs := make([]oip.Tensor, len(described))
	for i, d := range described {
		shape := slices.Clone(d.Shape)
		for k, n := range given[d.Name] {
			if n < h.Min[d.Name][k] || n > h.Max[d.Name][k] {
				return nil, fmt.Errorf("[E] Static dimension mismatch or out of profile while setting input shape for %s", d.Name)
			}
			shape[k] = int64(n)
		}
		inputs[i], err = oip.Zero(oip.TensorMetadata{Name: d.Name, Datatype: d.Datatype, Shape: shape})
		if err != nil {
			return nil, err
		}
		content, err := os.ReadFile(files[d.Name])
		if err != nil {
			return nil, fmt.Errorf("[E] Cannot open file %s: %w", files[d.Name], err)
		}
		n, err := binary.Decode(content, binary.LittleEndian, inputs[i].Data)
		if err != nil || n != len(content) {
			return nil, fmt.Errorf("[E] input %s wants %d bytes and the file has %d: %w", d.Name, n, len(content), err)
		}
	}
	return inputs, nil
}

// shapes reads x:1x3,y:2.
func shapes(spec string) (map[string][]int, error) {
	all := map[string][]int{}
	if spec == "" {
		return all, nil
	}
	for item := range strings.SplitSeq(spec, ",") {
		name, dims, _ := strings.Cut(item, ":")
		for dim := range strings.SplitSeq(dims, "x") {
			d, err := strconv.Atoi(dim)
			if err != nil {
				return nil, fmt.Errorf("[E] Invalid shapes %q", spec)
			}
			all[name] = append(all[name], d)
		}
	}
	return all, nil
}

// export writes files as trtexec's samples do, with the six digits of C++'s streams.
func (t *trtexec) export(outputs []oip.Tensor) error {
	var output strings.Builder
	sep := "  "
	output.WriteString("[\n")
	for _, o := range outputs {
		dims := make([]string, len(o.Shape))
		for i, d := range o.Shape {
			dims[i] = strconv.FormatInt(d, 10)
		}
		values, _ := o.Float64s()
		texts := make([]string, len(values))
		for i, v := range values {
			texts[i] = strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(v, 'g', 6, 64), "+"))
		}
		fmt.Fprintf(&output, "%s{ \"name\" : %q\n  , \"dimensions\" : %q\n  , \"values\" : [ %s ]\n  }\n", sep, o.Name, strings.Join(dims, "x"), strings.Join(texts, ", "))
		sep = ", "
	}
	output.WriteString("]\n")
	var times strings.Builder
	sep = "  "
	times.WriteString("[\n")
	for i := range 100 {
		start, latency := float64(i)*0.6, 0.5+float64(i)/100
		fmt.Fprintf(&times, "%s{ \"startEnqMs\" : %g, \"endEnqMs\" : %g, \"startH2dMs\" : %g, \"endH2dMs\" : %g, \"startComputeMs\" : %g, \"endComputeMs\" : %g, "+
			"\"startD2hMs\" : %g, \"endD2hMs\" : %g, \"h2dMs\" : 0.1, \"computeMs\" : 0.3, \"d2hMs\" : 0.1, \"latencyMs\" : %g }\n",
			sep, start, start+0.01, start, start+0.1, start+0.1, start+0.4, start+0.4, start+0.5, latency)
		sep = ", "
	}
	times.WriteString("]\n")
	const profile = `[
  { "count" : 100 }
, { "name" : "first", "timeMs" : 20, "averageMs" : 0.2, "medianMs" : 0.2, "percentage" : 66.6667 }
, { "name" : "second", "timeMs" : 10, "averageMs" : 0.1, "medianMs" : 0.1, "percentage" : 33.3333 }
]
`
	for flag, content := range map[string]string{"exportOutput": output.String(), "exportTimes": times.String(), "exportProfile": profile} {
		if path := t.flags[flag]; path != "" {
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}
