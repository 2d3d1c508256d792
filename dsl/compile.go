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

// ONNXVariant sets ONNX Runtime's optimiser and quantiser.
type ONNXVariant struct {
	// Optimize: none, basic, extended or all (default).
	Optimize string `json:"optimize,omitempty" dsl:"default=all,enum=none|basic|extended|all"`
	// Precision: fp32 (default) or int8 (dynamic quantisation of weights).
	Precision string `json:"precision,omitempty" dsl:"default=fp32,enum=fp32|int8"`
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
		if name, body := variants.Content[i], variants.Content[i+1]; body.Kind == yaml.MappingNode && lookup(body, "onnx") == nil && lookup(body, "tensorrt") == nil {
			c.src.errorf(name, "variant", "give it `onnx: {}`", "the variant `%s` does not say how it is built", name.Value)
		}
	}
	names := slices.Sorted(maps.Keys(spec.Variants))
	if at := lookup(s.body, "select"); at != nil && spec.Select != "fastest" && spec.Select != "smallest" && !slices.Contains(names, spec.Select) {
		c.src.errorf(at, "variant", suggest(spec.Select, append(names, "fastest", "smallest")), "%q is neither fastest, smallest nor a variant", spec.Select)
	}
}
