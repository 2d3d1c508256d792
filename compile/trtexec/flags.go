package trtexec

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Shapes are the dimensions of inputs by name.
type Shapes map[string][]int64

// The precisions of an engine.
const (
	FP32 = "fp32"
	FP16 = "fp16"
	INT8 = "int8"
)

// Build says how an engine is built.
type Build struct {
	// ONNX and Engine are files.
	ONNX   string
	Engine string
	// Precision is fp32, fp16 or int8. The graph of an int8 engine has QDQ pairs; for 11, that of an fp16 engine is in fp16.
	Precision string
	// Min, Opt and Max are the shapes that the engine takes; empty for a model whose shapes are all known.
	Min, Opt, Max Shapes
	// Workspace is the most memory in bytes that a layer may use; 0 for all there is.
	Workspace int64
	// Level is how long the builder tries, 0 to 5; nil for TensorRT's own default, 3.
	Level *int
	// TimingCache is a file of measurements that is read, where it is there, and written.
	TimingCache string
	// Layers is a file that is written with what the engine is made of.
	Layers string
}

// BuildFlags are those that build an engine and do not run it.
func (t *Tool) BuildFlags(b Build) []string {
	flags := []string{
		"--onnx=" + b.ONNX, "--saveEngine=" + b.Engine, "--skipInference", "--timingCacheFile=" + b.TimingCache,
		"--profilingVerbosity=detailed", "--exportLayerInfo=" + b.Layers,
	}
	if len(b.Opt) > 0 {
		flags = append(flags, "--minShapes="+b.Min.spec(), "--optShapes="+b.Opt.spec(), "--maxShapes="+b.Max.spec())
	}
	if b.Workspace > 0 {
		const mebibyte = 1 << 20
		flags = append(flags, fmt.Sprintf("--memPoolSize=workspace:%d", (b.Workspace+mebibyte-1)/mebibyte))
	}
	if b.Level != nil {
		flags = append(flags, fmt.Sprintf("--builderOptimizationLevel=%d", *b.Level))
	}
	if t.Major == Major10 && b.Precision != FP32 {
		flags = append(flags, "--"+b.Precision)
	}
	return flags
}

// Inference says what an engine is run on.
type Inference struct {
	Engine string
	Shapes Shapes            // empty for a model whose shapes are all known
	Inputs map[string]string // files by the input's name: raw elements, little endian
}

// measured are the conditions of every inference, the same on all versions: with CUDA graph and spin-wait, and with the transfers of
// inputs and outputs. Those are what 10 leaves out and 11 does by default, or the other way round.
func (t *Tool) measured(i Inference) []string {
	flags := []string{"--loadEngine=" + i.Engine}
	if len(i.Shapes) > 0 {
		flags = append(flags, "--shapes="+i.Shapes.spec())
	}
	var files []string
	for _, name := range slices.Sorted(maps.Keys(i.Inputs)) {
		files = append(files, quote(name)+":"+i.Inputs[name])
	}
	flags = append(flags, "--loadInputs="+strings.Join(files, ","))
	if t.Major == Major10 {
		return append(flags, "--useCudaGraph", "--useSpinWait")
	}
	return append(flags, "--includeDataTransfers")
}

// TimeFlags are those that measure an engine and then, in a run of its own, its layers.
func (t *Tool) TimeFlags(i Inference, times, profile string) []string {
	return append(t.measured(i), "--exportTimes="+times, "--exportProfile="+profile, "--separateProfileRun")
}

// OutputFlags are those that run an engine once and write what it puts out.
func (t *Tool) OutputFlags(i Inference, output string) []string {
	return append(t.measured(i), "--iterations=1", "--duration=0", "--warmUp=0", "--exportOutput="+output)
}

// spec is how trtexec takes shapes: x:1x3x224x224,y:1x16.
func (s Shapes) spec() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(s)) {
		var dims []string
		for _, d := range s[name] {
			dims = append(dims, strconv.FormatInt(d, 10))
		}
		all = append(all, quote(name)+":"+strings.Join(dims, "x"))
	}
	return strings.Join(all, ",")
}

// quote is how trtexec takes a name that has a colon.
func quote(name string) string {
	if strings.Contains(name, ":") {
		return "'" + name + "'"
	}
	return name
}
