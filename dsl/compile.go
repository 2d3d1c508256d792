package dsl

import (
	"maps"
	"reflect"
	"slices"

	"github.com/google/cel-go/cel"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/store/artifact"
)

// CompileModel turns an ONNX model into faster variants and proves each against the source.
type CompileModel struct {
	// Model is the source model.
	Model artifact.Ref `json:"model" dsl:"artifact=model"`
	// Samples are the rows parity and latency are measured on.
	Samples Samples `json:"samples"`
	// Variants by name.
	Variants map[string]Variant `json:"variants" dsl:"names,literal"`
	// Select names the output `selected`: fastest, smallest or a variant's name. Default fastest.
	Select string `json:"select,omitempty" dsl:"literal,default=fastest"`
}

// Kind implements Spec.
func (*CompileModel) Kind() Kind { return KindCompile }

// Samples picks rows of a dataset; columns named as the model's inputs become its tensors.
type Samples struct {
	// Dataset the rows are taken from.
	Dataset artifact.Ref `json:"dataset" dsl:"artifact=dataset"`
	// Split of the dataset. Default test.
	Split string `json:"split,omitempty" dsl:"default=test"`
	// Count of rows, from the first. Default 500.
	Count int `json:"count,omitempty" dsl:"default=500,min=1"`
}

// Variant is one way to build the model; exactly one builder key.
type Variant struct {
	// ONNX builds with ONNX Runtime's own tools.
	ONNX *ONNXVariant `json:"onnx,omitempty"`
	// Tolerance is what parity must keep; outside it the step fails.
	Tolerance Tolerance `json:"tolerance,omitzero"`
}

// ONNXVariant sets ONNX Runtime's optimiser, quantisers and float16 converter.
type ONNXVariant struct {
	// Optimize: none, basic, extended or all. Default all; with `calibration` basic, and with `precision: fp16` none. These two take no
	// more than basic: what the other levels write is for one kind of processor, and what loads the model optimizes it for its own.
	Optimize string `json:"optimize,omitempty" dsl:"enum=none|basic|extended|all"`
	// Precision: fp32 (default), fp16 (inputs and outputs stay fp32) or int8: dynamic quantisation of the weights of everything but
	// convolutions, or static quantisation where `calibration` is given.
	Precision string `json:"precision,omitempty" dsl:"default=fp32,enum=fp32|fp16|int8"`
	// KeepFP32 lists operators, such as Softmax, that `precision: fp16` leaves in fp32. The model must have each of them.
	KeepFP32 []string `json:"keep_fp32,omitempty"`
	// Calibration makes `precision: int8` static: weights per channel and activations too, convolutions among them, in QDQ form.
	Calibration *Calibration `json:"calibration,omitempty"`
}

// Calibration picks the rows from which static quantisation takes the ranges of activations.
type Calibration struct {
	// Dataset the rows are taken from.
	Dataset artifact.Ref `json:"dataset" dsl:"artifact=dataset"`
	// Split of the dataset: not the one of `samples`, or parity is measured on what was calibrated with. Default train.
	Split string `json:"split,omitempty" dsl:"default=train"`
	// Count of rows, from the first. Default 200.
	Count int `json:"count,omitempty" dsl:"default=200,min=1"`
}

// Tolerance bounds how far a variant's outputs may be from the source model's. What is not declared is not checked; zero is a bound.
type Tolerance struct {
	// MaxAbs is the largest absolute difference allowed of any output element.
	MaxAbs *float64 `json:"max_abs,omitempty" dsl:"min=0"`
	// Cosine is the lowest cosine similarity allowed of any sample's output vector.
	Cosine *float64 `json:"cosine,omitempty" dsl:"min=-1,max=1"`
	// Top1 is the lowest share of samples allowed whose largest output is the same class. Samples without an answer are not the same.
	Top1 *float64 `json:"top1,omitempty" dsl:"min=0,max=1"`
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
	Model   artifact.Ref `json:"model" dsl:"artifact=model"`
	Parity  Parity       `json:"parity"`
	Latency Latency      `json:"latency"`
	// Throughput in rows per second at batch 1 on one thread.
	Throughput float64 `json:"throughput"`
	// Bytes of the model file and of the files that hold its external data.
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

func (spec *CompileModel) outputTypes(ts *typeSystem, id string) map[string]*cel.Type {
	fields := ts.structFields(reflect.TypeFor[CompileOutput]())
	variants := &objectType{name: "steps." + id + ".variants", code: "variant", what: "a variant of `" + id + "`", fields: map[string]*cel.Type{}}
	for name := range spec.Variants {
		variants.fields[name] = ts.structType(reflect.TypeFor[VariantOutput]())
	}
	fields["variants"] = ts.define(variants)
	return fields
}

func (spec *CompileModel) check(c *checker, s *step) {
	variants := lookup(s.body, "variants")
	if variants == nil || variants.Kind != yaml.MappingNode {
		return
	}
	if len(variants.Content) == 0 {
		c.src.errorf(variants, "variant", "such as fp32: {onnx: {}}", "there are no variants to build")
	}
	for i := 0; i+1 < len(variants.Content); i += 2 {
		if name, body := variants.Content[i], variants.Content[i+1]; body.Kind == yaml.MappingNode {
			c.checkVariant(name, body)
		}
	}
	names := slices.Sorted(maps.Keys(spec.Variants))
	if at := lookup(s.body, "select"); at != nil && spec.Select != "fastest" && spec.Select != "smallest" && !slices.Contains(names, spec.Select) {
		c.src.errorf(at, "variant", suggest(spec.Select, append(names, "fastest", "smallest")), "%q is neither fastest, smallest nor a variant", spec.Select)
	}
}

// checkVariant reports a variant that nothing builds, and keys that its precision has no use for.
func (c *checker) checkVariant(name, body *yaml.Node) {
	onnx := lookup(body, "onnx")
	if onnx == nil && lookup(body, "tensorrt") == nil {
		c.src.errorf(name, "variant", "give it `onnx: {}`", "the variant `%s` does not say how it is built", name.Value)
	}
	if onnx == nil || onnx.Kind != yaml.MappingNode {
		return
	}
	precision := scalarOf(onnx, "precision")
	if at := lookup(onnx, "keep_fp32"); at != nil && precision != "fp16" {
		c.src.errorf(at, "variant", "add `precision: fp16`", "`keep_fp32` has no effect: only `precision: fp16` converts operators")
	}
	if at := lookup(onnx, "calibration"); at != nil && precision != "int8" {
		c.src.errorf(at, "variant", "add `precision: int8`", "`calibration` has no effect: only `precision: int8` calibrates")
	}
	portable := precision == "fp16" || lookup(onnx, "calibration") != nil
	if at := lookup(onnx, "optimize"); at != nil && portable && (at.Value == "extended" || at.Value == "all") {
		c.src.errorf(at, "variant", "write `optimize: basic`, or leave it out",
			"`optimize: %s` cannot be combined with `precision: fp16` or `calibration`", at.Value)
	}
}

// scalarOf is the text of a key of a mapping; empty where there is none.
func scalarOf(mapping *yaml.Node, key string) string {
	if at := lookup(mapping, key); at != nil && at.Kind == yaml.ScalarNode {
		return at.Value
	}
	return ""
}
