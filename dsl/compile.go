package dsl

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/suggest"
)

func compileOutputs(ts *expr.TypeSystem, id string, sp *spec.CompileModel) expr.ObjectType {
	fields := ts.StructFields(reflect.TypeFor[spec.CompileOutput]())
	delete(ts.ObjectType(ts.StructType(reflect.TypeFor[spec.Parity]())).Optional, "batched") // it is only missing of engines
	always := ts.ObjectType(ts.StructType(reflect.TypeFor[spec.VariantOutput]()))
	for _, name := range measurements { // they are only missing of engines that are built on any machine
		delete(always.Optional, name)
	}
	delete(always.Fields, "measured")
	variants := &expr.ObjectType{Name: "steps." + id + ".variants", Code: "variant", What: "a variant of `" + id + "`", Fields: map[string]*cel.Type{}}
	for name, v := range sp.Variants {
		variants.Fields[name] = ts.StructType(reflect.TypeFor[spec.VariantOutput]())
		if v.TensorRT != nil {
			variants.Fields[name] = engineType(ts, v.TensorRT.IsRTX())
		}
	}
	fields["variants"] = ts.Define(variants)
	return expr.ObjectType{Fields: fields}
}

// measurements are the fields of a variant that one has only if it was measured.
var measurements = []string{"parity", "latency", "throughput"}

// engineType is a VariantOutput whose `tensorrt` is always there, and `parity.batched` never. Only one of TensorRT for RTX may lack measurements,
// and says whether it does.
func engineType(ts *expr.TypeSystem, rtx bool) *cel.Type {
	t := reflect.TypeFor[spec.VariantOutput]()
	o := &expr.ObjectType{Name: "EngineVariantOutput", What: "a field of an engine", Fields: ts.StructFields(t), Optional: expr.OptionalFields(t)}
	delete(o.Optional, "tensorrt")
	if rtx {
		o.Name = "RTXVariantOutput"
	} else {
		delete(o.Fields, "measured")
		for _, name := range measurements {
			delete(o.Optional, name)
		}
	}
	parity := reflect.TypeFor[spec.Parity]()
	p := &expr.ObjectType{Name: "EngineParity", What: "a field of the parity of an engine", Fields: ts.StructFields(parity), Ranges: expr.StructRanges(parity)}
	delete(p.Fields, "batched")
	o.Fields["parity"] = ts.Define(p)
	return ts.Define(o)
}

func checkCompile(c *checker, s *step, spec *spec.CompileModel) {
	c.checkCompilePlace(s, spec)
	samples := document.Lookup(s.body, "samples")
	c.checkReader(samples, "dataset", "test")
	checkCompare(c, s, spec.Compare)
	variants := document.Lookup(s.body, "variants")
	if variants == nil || variants.Kind != yaml.MappingNode {
		return
	}
	if len(variants.Content) == 0 {
		c.src.Errorf(variants, "variant", "for example fp32: {onnx: {}}", "no variants are listed")
	}
	for name, body := range document.Entries(variants) {
		if body.Kind == yaml.MappingNode {
			c.checkVariant(name, body)
		}
		for _, builder := range []string{"onnx", "tensorrt"} {
			c.checkCalibration(document.Lookup(body, builder, "calibration"), samples)
		}
	}
	names := slices.Sorted(maps.Keys(spec.Variants))
	if at := document.Lookup(s.body, "select"); at != nil && spec.Select != "fastest" && spec.Select != "smallest" && !slices.Contains(names, spec.Select) {
		c.src.Errorf(at, "variant", suggest.Hint(spec.Select, append(names, "fastest", "smallest")), "%q is not a variant, nor `fastest` or `smallest`", spec.Select)
	}
	onGPU := document.Lookup(s.body, "resources", "gpu") != nil
	measured := slices.ContainsFunc(names, func(name string) bool {
		engine := spec.Variants[name].TensorRT
		return onGPU || engine == nil || !engine.IsRTX()
	})
	if (spec.Select == "" || spec.Select == "fastest") && len(names) > 0 && !measured {
		c.src.Warnf(variants, "variant", "write `select: "+names[0]+"`", "no variant is measured on a machine without a GPU, so none is the fastest there")
	}
}

// checkCompilePlace checks where the step runs. Beside the worker it has no environment of its own.
func (c *checker) checkCompilePlace(s *step, spec *spec.CompileModel) {
	checkPlacement(c, s, spec.Train())
	if document.Lookup(s.body, "pool") == nil {
		c.refuseRuntime(s)
		return
	}
	c.checkPoolPython(s, spec.Runtime.Python)
	if buildsOnGPU(spec) && document.Lookup(s.body, "resources", "gpu") == nil {
		c.src.Errorf(s.kindKey(), "resources", "write `resources: {gpu: 1}`", "`%s` builds a TensorRT engine on a node of a pool, but does not request a GPU", s.ID)
	}
}

func buildsOnGPU(sp *spec.CompileModel) bool {
	return slices.Contains(sp.Engines(), spec.FlavorTrtexec)
}

// checkVariant reports a variant that nothing builds, and keys that its precision has no use for.
func (c *checker) checkVariant(name, body *yaml.Node) {
	onnx, tensorrt := document.Lookup(body, "onnx"), document.Lookup(body, "tensorrt")
	switch {
	case onnx == nil && tensorrt == nil && slices.Contains(c.d.MeantKeys(body), "onnx"):
	case onnx == nil && tensorrt == nil:
		c.src.Errorf(name, "variant", "give it `onnx: {}`", "the variant `%s` does not say how it is built", name.Value)
	case onnx != nil && tensorrt != nil:
		c.src.Errorf(name, "variant", "split it into two variants", "the variant `%s` has both `onnx` and `tensorrt`", name.Value)
	case onnx != nil && onnx.Kind == yaml.MappingNode:
		c.checkONNXVariant(onnx)
	case tensorrt != nil && tensorrt.Kind == yaml.MappingNode:
		c.checkTensorRTVariant(tensorrt)
	}
}

// checkCalibration checks what a variant is calibrated with, and warns when it is what parity is measured on.
func (c *checker) checkCalibration(calibration, samples *yaml.Node) {
	c.checkReader(calibration, "dataset", "train")
	split, measured := cmp.Or(document.TextAt(calibration, "split"), "train"), cmp.Or(document.TextAt(samples, "split"), "test")
	if from := document.TextAt(calibration, "dataset"); from != "" && from == document.TextAt(samples, "dataset") && split == measured {
		c.src.Warnf(document.PlaceOf(calibration, "split"), "variant", "calibrate with another split", "the variant is calibrated with the split `%s`, on which its parity is measured", split)
	}
}

// checkNames reports what a list of names has twice, or without a name.
func (c *checker) checkNames(list *yaml.Node) {
	if list == nil || list.Kind != yaml.SequenceNode {
		return
	}
	for i, at := range list.Content {
		switch {
		case at.Value == "":
			c.src.Errorf(at, "variant", "", "a name is empty")
		case slices.ContainsFunc(list.Content[:i], func(other *yaml.Node) bool { return other.Value == at.Value }):
			c.src.Errorf(at, "variant", "", "`%s` is listed twice", at.Value)
		}
	}
}

func (c *checker) checkONNXVariant(onnx *yaml.Node) {
	precision := document.TextAt(onnx, "precision")
	c.checkNames(document.Lookup(onnx, "keep_fp32"))
	if at := document.Lookup(onnx, "keep_fp32"); at != nil && slices.Contains([]string{"", "fp32", "int8"}, precision) {
		c.src.Errorf(at, "variant", "add `precision: fp16`", "`keep_fp32` has no effect: only `precision: fp16` converts operators")
	}
	if at := document.Lookup(onnx, "calibration"); at != nil && slices.Contains([]string{"", "fp32", "fp16"}, precision) {
		c.src.Errorf(at, "variant", "add `precision: int8`", "`calibration` has no effect: only `precision: int8` calibrates")
	}
	portable := precision == "fp16" || document.Lookup(onnx, "calibration") != nil
	if at := document.Lookup(onnx, "optimize"); at != nil && portable && (at.Value == "extended" || at.Value == "all") {
		c.src.Errorf(at, "variant", "write `optimize: basic`, or leave it out",
			"`optimize: %s` cannot be combined with `precision: fp16` or `calibration`", at.Value)
	}
}

func (c *checker) checkTensorRTVariant(tensorrt *yaml.Node) {
	precision, calibration := document.TextAt(tensorrt, "precision"), document.Lookup(tensorrt, "calibration")
	switch {
	case precision == "int8" && calibration == nil:
		c.src.Errorf(document.Lookup(tensorrt, "precision"), "variant", "add `calibration: {dataset: ...}`",
			"`precision: int8` needs rows to calibrate with")
	case slices.Contains([]string{"", "fp32", "fp16"}, precision) && calibration != nil:
		c.src.Errorf(calibration, "variant", "add `precision: int8`", "`calibration` has no effect: only `precision: int8` calibrates")
	}
	c.checkNames(document.Lookup(tensorrt, "inputs"))
	c.checkFlavor(tensorrt)
	shapes := document.Lookup(tensorrt, "shapes")
	if shapes == nil || shapes.Kind != yaml.MappingNode {
		return
	}
	low, opt, high := dimensionsOf(shapes, "min"), dimensionsOf(shapes, "opt"), dimensionsOf(shapes, "max")
	if low == nil || opt == nil || high == nil {
		return // missing, or not lists of numbers, which is reported
	}
	for _, input := range slices.Sorted(maps.Keys(opt)) {
		at := document.Lookup(shapes, "opt", input)
		switch a, b, z := low[input], opt[input], high[input]; {
		case a == nil || z == nil:
			c.src.Errorf(at, "variant", "", "`min`, `opt` and `max` must have the same inputs, and `%s` is not in all of them", input)
		case len(a) != len(b) || len(b) != len(z):
			c.src.Errorf(at, "variant", "", "`%s` has %d dimensions in `min`, %d in `opt` and %d in `max`", input, len(a), len(b), len(z))
		case slices.Min(slices.Concat(a, []int{1})) < 1:
			c.src.Errorf(document.Lookup(shapes, "min", input), "variant", "", "`%s`: no dimension may be less than 1", input)
		case !ascending(a, b) || !ascending(b, z):
			c.src.Errorf(at, "variant", "", "`%s`: no dimension may be less than in `min` or more than in `max`", input)
		}
	}
	if len(low) > len(opt) || len(high) > len(opt) {
		c.src.Errorf(document.Lookup(shapes, "opt"), "variant", "", "`min`, `opt` and `max` must have the same inputs")
	}
}

// checkFlavor checks the keys that only one of TensorRT's builders has.
func (c *checker) checkFlavor(tensorrt *yaml.Node) {
	compute, level := document.Lookup(tensorrt, "compute"), document.Lookup(tensorrt, "builder_level")
	switch flavor := document.TextAt(tensorrt, "flavor"); {
	case flavor == "" || flavor == spec.FlavorTrtexec:
		if compute != nil {
			c.src.Errorf(compute, "variant", "add `flavor: rtx`", "`compute` has no effect: trtexec builds for the GPU that it runs on")
		}
		return
	case flavor != spec.FlavorRTX:
		return // which is reported
	case compute == nil:
		c.src.Errorf(document.Lookup(tensorrt, "flavor"), "variant", `add for example compute: ["8.6", L4]`, "`flavor: rtx` needs the `compute` capabilities that the engine is for")
	case compute.Kind == yaml.SequenceNode && len(compute.Content) == 0:
		c.src.Errorf(compute, "variant", "", "no compute capability is listed")
	case compute.Kind == yaml.SequenceNode:
		for _, at := range compute.Content {
			if !slices.Contains(spec.RTXCompute, spec.ComputeOf(at.Value)) {
				c.src.Errorf(at, "variant", "", "TensorRT for RTX does not build for %q; it builds for %s", at.Value, strings.Join(spec.RTXCompute, ", "))
			}
		}
	}
	if level != nil {
		c.src.Errorf(level, "variant", "remove it", "`builder_level` has no effect with `flavor: rtx`")
	}
}

// dimensionsOf reads a mapping of inputs to dimensions; nil where it is not one.
func dimensionsOf(shapes *yaml.Node, key string) map[string][]int {
	var dims map[string][]int
	if at := document.Lookup(shapes, key); at == nil || at.Decode(&dims) != nil {
		return nil
	}
	return dims
}

func ascending(low, high []int) bool {
	for i := range low {
		if low[i] > high[i] {
			return false
		}
	}
	return true
}
