package spec

import (
	"cmp"
	"slices"

	"github.com/sluiceml/sluice/internal/artifact"
)

// CompileModel turns an ONNX model into faster variants and compares each with the source.
type CompileModel struct {
	// Model is the source model.
	Model artifact.Ref `json:"model" dsl:"artifact=model"`
	// Samples are the rows on which parity and latency are measured.
	Samples Samples `json:"samples"`
	// Variants by name.
	Variants map[string]Variant `json:"variants" dsl:"names,literal"`
	// Compare says how an answer of a variant is compared with the source model's: a rule, or a list of rules for several outputs, all of which
	// must agree. Default: the first output.
	Compare []Compare `json:"compare,omitempty" dsl:"literal,single"`
	// Select is the variant that becomes the output `selected`: fastest, smallest or a variant's name. Default fastest.
	Select string `json:"select,omitempty" dsl:"literal,default=fastest"`
	Placement
	// Runtime of a node of a pool. The image must contain Sluice itself, of the worker's version. Default: the pool's.
	Runtime Runtime `json:"runtime,omitzero" dsl:"literal"`
}

// Engines returns the flavors of TensorRT of which the variants are engines, each once.
func (spec *CompileModel) Engines() []string {
	var flavors []string
	for _, v := range spec.Variants {
		if v.TensorRT != nil && !slices.Contains(flavors, v.TensorRT.flavor()) {
			flavors = append(flavors, v.TensorRT.flavor())
		}
	}
	return flavors
}

// The flavors of TensorRT.
const (
	FlavorTrtexec = "trtexec"
	FlavorRTX     = "rtx"
)

// RTXCompute lists the compute capabilities for which TensorRT for RTX builds engines.
var RTXCompute = []string{"8.0", "8.6", "8.9", "12.0", "12.1"}

// ComputeOf returns the compute capability of a GPU by name, or capability itself if it has no such name.
func ComputeOf(capability string) string { return cmp.Or(computeOfGPU[capability], capability) }

// computeOfGPU is from NVIDIA's table of CUDA GPUs, https://developer.nvidia.com/cuda-gpus.
var computeOfGPU = map[string]string{
	"A100": "8.0", "A30": "8.0", "A2": "8.6", "A10": "8.6", "A10G": "8.6", "A16": "8.6", "A40": "8.6", "RTX 3090": "8.6", "RTX A6000": "8.6",
	"L4": "8.9", "L40": "8.9", "L40S": "8.9", "RTX 4090": "8.9", "RTX 6000 Ada": "8.9", "RTX 5090": "12.0", "RTX PRO 6000": "12.0", "GB10": "12.1",
}

// Samples picks rows of a dataset; columns named as the model's inputs become its tensors.
type Samples struct {
	// Dataset with the rows.
	Dataset artifact.Ref `json:"dataset" dsl:"artifact=dataset"`
	// Split of the dataset. Default test.
	Split string `json:"split,omitempty" dsl:"default=test"`
	// Count is the number of rows, from the first one on. Default 500.
	Count int `json:"count,omitempty" dsl:"default=500,min=1"`
}

// Variant is one way to build the model; exactly one builder key.
type Variant struct {
	// ONNX builds with ONNX Runtime's own tools.
	ONNX *ONNXVariant `json:"onnx,omitempty"`
	// TensorRT builds an engine: with trtexec of TensorRT 10 or 11, on the GPU of the machine that runs the step; or with TensorRT for RTX, on
	// any machine.
	TensorRT *TensorRTVariant `json:"tensorrt,omitempty"`
	// Tolerance is the required parity; if a variant deviates more, the step fails.
	Tolerance Tolerance `json:"tolerance,omitzero"`
}

// ONNXVariant sets ONNX Runtime's optimiser, quantisers and float16 converter.
type ONNXVariant struct {
	// Optimize: none, basic, extended or all. Default all; with `calibration` basic, and with `precision: fp16` none. With these two the
	// maximum is basic: the other levels optimize for one kind of processor, and the program that loads the model optimizes it for its own.
	Optimize string `json:"optimize,omitempty" dsl:"enum=none|basic|extended|all"`
	// Precision: fp32 (default), fp16 (inputs and outputs remain fp32) or int8: dynamic quantisation of all weights except those of
	// convolutions, or static quantisation if `calibration` is set.
	Precision string `json:"precision,omitempty" dsl:"default=fp32,enum=fp32|fp16|int8"`
	// KeepFP32 lists operators, such as Softmax, that remain in fp32 with `precision: fp16`. The model must contain each of them.
	KeepFP32 []string `json:"keep_fp32,omitempty"`
	// Calibration makes `precision: int8` static: weights are quantised per channel, including those of convolutions, and activations too,
	// in QDQ form.
	Calibration *Calibration `json:"calibration,omitempty"`
}

// TensorRTVariant sets TensorRT's builder.
type TensorRTVariant struct {
	// Flavor is whose builder it is. trtexec builds for the kind of GPU that it runs on alone. rtx is TensorRT for RTX, which needs no GPU to
	// build; it takes `inputs`, `precision`, `calibration`, `shapes` and `compute`. Default trtexec.
	Flavor string `json:"flavor,omitempty" dsl:"default=trtexec,enum=trtexec|rtx"`
	// Compute lists the compute capabilities of the GPUs that the engine is for, such as "8.6", or their names, such as A10G. Required with
	// `flavor: rtx`.
	Compute []string `json:"compute,omitempty"`
	// Inputs are the tensors of the model at which the engine begins, for a model with text inputs, which TensorRT does not support. The
	// part before them is stored next to the engine, as an ONNX model. Default: the model's own inputs.
	Inputs []string `json:"inputs,omitempty"`
	// Precision: fp32 (default), fp16, or int8, which requires `calibration`.
	Precision string `json:"precision,omitempty" dsl:"default=fp32,enum=fp32|fp16|int8"`
	// Calibration is the calibration rows for `precision: int8`.
	Calibration *Calibration `json:"calibration,omitempty"`
	// Shapes are the shapes that the engine accepts, for a model whose inputs have open dimensions.
	Shapes *TensorRTShapes `json:"shapes,omitempty"`
	// Workspace is the maximum memory of a layer. Default: the whole memory of the GPU.
	Workspace Size `json:"workspace,omitempty" dsl:"min=1"`
	// BuilderLevel is how long the builder searches for faster kernels, 0 to 5. Default 3.
	BuilderLevel *int `json:"builder_level,omitempty" dsl:"min=0,max=5"`
}

func (v TensorRTVariant) flavor() string { return cmp.Or(v.Flavor, FlavorTrtexec) }

// IsRTX reports whether TensorRT for RTX builds the engine.
func (v TensorRTVariant) IsRTX() bool { return v.Flavor == FlavorRTX }

// TensorRTShapes are dimensions by input: the smallest an engine takes, those it is tuned for, and the largest.
type TensorRTShapes struct {
	// Min is the smallest shape of each input.
	Min map[string][]int `json:"min"`
	// Opt is the shape of each input that the engine is tuned for.
	Opt map[string][]int `json:"opt"`
	// Max is the largest shape of each input. Its first dimension is the maximum batch size of a server.
	Max map[string][]int `json:"max"`
}

// Calibration picks the rows from which static quantisation takes the ranges of activations.
type Calibration struct {
	// Dataset with the rows.
	Dataset artifact.Ref `json:"dataset" dsl:"artifact=dataset"`
	// Split of the dataset. Use a different split than that of `samples`; otherwise parity is measured on the calibration rows. Default
	// train.
	Split string `json:"split,omitempty" dsl:"default=train"`
	// Count is the number of rows, from the first one on. Default 200.
	Count int `json:"count,omitempty" dsl:"default=200,min=1"`
}

// Tolerance bounds how far a variant's outputs may be from the source model's. What is not declared is not checked; zero is a bound.
type Tolerance struct {
	// MaxAbs is the largest allowed absolute difference of an output element.
	MaxAbs *float64 `json:"max_abs,omitempty" dsl:"min=0"`
	// Cosine is the lowest allowed cosine similarity of a sample's output vector.
	Cosine *float64 `json:"cosine,omitempty" dsl:"min=-1,max=1"`
	// Top1 is the lowest allowed share of samples whose largest output is the same class. Samples without an answer count as different.
	Top1 *float64 `json:"top1,omitempty" dsl:"min=0,max=1"`
	// Agreement is the lowest allowed share of samples whose answers agree by `compare`.
	Agreement *float64 `json:"agreement,omitempty" dsl:"min=0,max=1"`
}

// CompileOutput is what a compile step hands on.
type CompileOutput struct {
	Variants map[string]VariantOutput `json:"variants"`
	Selected SelectedVariant          `json:"selected"`
	// Source is the source model, measured the same way.
	Source VariantOutput `json:"source"`
}

// SelectedVariant is the variant `select` picked.
type SelectedVariant struct {
	Name  string       `json:"name"`
	Model artifact.Ref `json:"model" dsl:"artifact=model"`
}

// VariantOutput is one built and measured variant.
type VariantOutput struct {
	Model artifact.Ref `json:"model" dsl:"artifact=model"`
	// Measured is false for an engine that was built on a machine without a GPU on which it runs. It has no parity, latency and throughput.
	Measured bool    `json:"measured"`
	Parity   Parity  `json:"parity,omitzero"`
	Latency  Latency `json:"latency,omitzero"`
	// Throughput in rows per second at batch 1, on one thread or, of an engine, on its GPU.
	Throughput float64 `json:"throughput,omitzero"`
	// Bytes of the model file, of the files that hold its external data, and of what comes before an engine.
	Bytes int64 `json:"bytes"`
	// TensorRT says of an engine what it was built on and where its time goes.
	TensorRT *EngineOutput `json:"tensorrt,omitempty"`
}

// IsMeasured is Measured, also of a variant that was built before there was that field.
func (v VariantOutput) IsMeasured() bool { return v.Latency != Latency{} }

// EngineOutput is what is known of a TensorRT engine beside its speed.
type EngineOutput struct {
	// GPU on which it was built or, of `flavor: rtx`, measured; empty if it was not measured.
	GPU string `json:"gpu"`
	// ComputeCapability of that GPU or, of `flavor: rtx`, all those that it was built for: "8.6, 8.9".
	ComputeCapability string `json:"compute_capability"`
	// Driver of that GPU.
	Driver string `json:"driver"`
	// Version of TensorRT.
	Version string `json:"version"`
	// Inputs are the tensors at which it begins, where that is not the beginning of the model.
	Inputs []string `json:"inputs,omitempty"`
	// Layers by the element type of what they put out, such as FP16; "other" where TensorRT does not say. Empty of `flavor: rtx`.
	Layers map[string]int `json:"layers"`
	// Slowest layers, at most ten. Empty of `flavor: rtx`.
	Slowest []EngineLayer `json:"slowest"`
}

// EngineLayer is a layer of an engine and its part in the time of an inference.
type EngineLayer struct {
	Name   string  `json:"name"`
	MeanMS float64 `json:"mean_ms"`
	// Share of the time of all layers, between 0 and 1.
	Share float64 `json:"share" dsl:"min=0,max=1"`
}

// Parity compares a variant's outputs with the source model's on the samples.
type Parity struct {
	MaxAbs float64 `json:"max_abs" dsl:"min=0"`
	Cosine float64 `json:"cosine" dsl:"min=-1,max=1"`
	Top1   float64 `json:"top1" dsl:"min=0,max=1"`
	// Agreement is the share of samples whose answers agree by `compare`.
	Agreement float64 `json:"agreement" dsl:"min=0,max=1"`
	// Batched is the share of samples whose answers are the same alone and among 8 rows, of which the others are samples multiplied by 0.01, 1
	// and 100; 0 for a model that does not run so many rows at once. It is not measured of engines. An `embedded` target batches a variant
	// by default only if it is 1.
	Batched *float64 `json:"batched,omitempty" dsl:"min=0,max=1"`
}

// The keys of a variant's artifact's facts: its name, the digest of its source, and Parity.Batched.
const (
	MetaVariant = "variant"
	MetaSource  = "source"
	MetaBatched = "batched"
)

// Latency of one inference at batch 1, warm-up excluded.
type Latency struct {
	P50MS float64 `json:"p50_ms"`
	P99MS float64 `json:"p99_ms"`
}
