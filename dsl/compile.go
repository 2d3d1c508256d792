package dsl

import "github.com/sluiceml/sluice/store/artifact"

// Compile turns an ONNX model into faster variants and proves each against the source.
type Compile struct {
	// Model is the source model.
	Model artifact.Ref `json:"model"`
	// Samples are the rows parity and latency are measured on.
	Samples Samples `json:"samples"`
	// Variants by name.
	Variants map[string]Variant `json:"variants"`
	// Select names the output `selected`: fastest, smallest or a variant's name. Default fastest.
	Select string `json:"select,omitempty"`
}

// Kind implements Spec.
func (*Compile) Kind() Kind { return KindCompile }

// Samples picks rows of a dataset; columns named as the model's inputs become its tensors.
type Samples struct {
	Dataset artifact.Ref `json:"dataset"`
	// Split of the dataset. Default test.
	Split string `json:"split,omitempty"`
	// Count of rows, from the first. Default 500.
	Count int `json:"count,omitempty"`
}

// Variant is one way to build the model; exactly one builder key.
type Variant struct {
	// ONNX builds with ONNX Runtime's own tools.
	ONNX *ONNXVariant `json:"onnx,omitempty"`
	// Tolerance is what parity must keep; outside it the step fails.
	Tolerance Tolerance `json:"tolerance,omitempty"`
}

// ONNXVariant sets ONNX Runtime's optimiser and quantiser.
type ONNXVariant struct {
	// Optimize: none, basic, extended or all (default).
	Optimize string `json:"optimize,omitempty"`
	// Precision: fp32 (default) or int8 (dynamic quantisation of weights).
	Precision string `json:"precision,omitempty"`
}

// Tolerance bounds how far a variant's outputs may be from the source model's.
type Tolerance struct {
	// MaxAbs is the largest absolute difference allowed of any output element.
	MaxAbs float64 `json:"max_abs,omitempty"`
	// Cosine is the lowest cosine similarity allowed of any sample's output vector.
	Cosine float64 `json:"cosine,omitempty"`
	// Top1 is the lowest share of samples allowed whose largest output is the same class.
	Top1 float64 `json:"top1,omitempty"`
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
	Model artifact.Ref `json:"model"`
}

// VariantOutput is one built and measured variant.
type VariantOutput struct {
	Model   artifact.Ref `json:"model"`
	Parity  Parity       `json:"parity"`
	Latency Latency      `json:"latency"`
	// Throughput in rows per second at batch 1 on one thread.
	Throughput float64 `json:"throughput"`
	// Bytes of the model file.
	Bytes int64 `json:"bytes"`
}

// Parity compares a variant's outputs with the source model's on the samples.
type Parity struct {
	MaxAbs float64 `json:"max_abs"`
	Cosine float64 `json:"cosine"`
	Top1   float64 `json:"top1"`
}

// Latency of one inference at batch 1, warm-up excluded.
type Latency struct {
	P50MS float64 `json:"p50_ms"`
	P99MS float64 `json:"p99_ms"`
}
