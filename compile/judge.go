package compile

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/offload"
)

// The values of spec.CompileModel.Select that are no variant's name.
const (
	selectFastest  = "fastest"
	selectSmallest = "smallest"
)

// ToleranceError says that a variant's outputs are further from the source model's than its tolerance allows.
type ToleranceError struct {
	Variant   string
	Measure   string // max_abs, cosine, top1 or agreement
	Measured  float64
	Tolerated float64
}

// Error implements error.
func (e *ToleranceError) Error() string {
	limit := "at least"
	if e.Measure == "max_abs" {
		limit = "at most"
	}
	return fmt.Sprintf("variant %s differs too much from the source model: %s is %.6g, but its tolerance is %s %.6g",
		e.Variant, e.Measure, e.Measured, limit, e.Tolerated)
}

// Judge checks the tolerances of variants that were built, stores them and selects one. put stores one with what is to be said of its
// artifact.
func Judge(
	sp spec.CompileModel, report offload.BuildReport, put func(name string, meta map[string]string) (artifact.Ref, error),
) (spec.CompileOutput, error) {
	if report.Fault != "" {
		return spec.CompileOutput{}, &ModelError{report.Fault}
	}
	names := slices.Sorted(maps.Keys(sp.Variants))
	var broken []error
	for _, name := range names {
		v, ok := report.Variants[name]
		if !ok {
			return spec.CompileOutput{}, fmt.Errorf("variant %s was not built", name)
		}
		if !isMeasured(v) && sp.Variants[name].Tolerance != (spec.Tolerance{}) {
			return spec.CompileOutput{}, &ModelError{fmt.Sprintf("variant %s has a `tolerance`, but was not measured, because this machine has no GPU on "+
				"which it runs: run the step on a machine with such a GPU, or remove `tolerance`", name)}
		}
		broken = append(broken, tolerated(name, v.Parity, sp.Variants[name].Tolerance))
	}
	if err := errors.Join(broken...); err != nil {
		return spec.CompileOutput{}, err
	}
	out := spec.CompileOutput{Source: output(report.Source, sp.Model, report.Source.Bytes), Variants: map[string]spec.VariantOutput{}}
	for _, name := range names {
		v := report.Variants[name]
		meta := map[string]string{spec.MetaVariant: name, spec.MetaSource: sp.Model.Digest}
		maps.Copy(meta, v.Meta)
		if v.Parity.Batched != nil {
			meta[spec.MetaBatched] = strconv.FormatFloat(*v.Parity.Batched, 'g', -1, 64)
		}
		ref, err := put(name, meta)
		if err != nil {
			return spec.CompileOutput{}, fmt.Errorf("store variant %s: %w", name, err)
		}
		out.Variants[name] = output(v, ref, ref.Bytes) // its folder has nothing else
	}
	selected := pick(sp.Select, names, out.Variants)
	if selected == "" && (sp.Select == "" || sp.Select == selectFastest) {
		return spec.CompileOutput{}, &ModelError{"select: no variant was measured, so none is the fastest: name one, or write `select: smallest`"}
	}
	if selected == "" {
		return spec.CompileOutput{}, &ModelError{fmt.Sprintf("select: there is no variant %q", sp.Select)}
	}
	out.Selected = spec.SelectedVariant{Name: selected, Model: out.Variants[selected].Model}
	return out, nil
}

func output(v offload.Variant, model artifact.Ref, size int64) spec.VariantOutput {
	return spec.VariantOutput{
		Model: model, Measured: isMeasured(v), Parity: v.Parity, Latency: v.Latency, Throughput: v.Throughput, Bytes: size, TensorRT: v.TensorRT,
	}
}

func isMeasured(v offload.Variant) bool { return v.Latency != (spec.Latency{}) }

// tolerated compares a variant's parity with what it declared.
func tolerated(name string, p spec.Parity, t spec.Tolerance) error {
	switch {
	case t.MaxAbs != nil && p.MaxAbs > *t.MaxAbs:
		return &ToleranceError{Variant: name, Measure: "max_abs", Measured: p.MaxAbs, Tolerated: *t.MaxAbs}
	case t.Cosine != nil && p.Cosine < *t.Cosine:
		return &ToleranceError{Variant: name, Measure: "cosine", Measured: p.Cosine, Tolerated: *t.Cosine}
	case t.Top1 != nil && p.Top1 < *t.Top1:
		return &ToleranceError{Variant: name, Measure: "top1", Measured: p.Top1, Tolerated: *t.Top1}
	case t.Agreement != nil && p.Agreement < *t.Agreement:
		return &ToleranceError{Variant: name, Measure: "agreement", Measured: p.Agreement, Tolerated: *t.Agreement}
	}
	return nil
}

// pick returns the name of the variant to select, the first of equals; "" when there is none. Only one that was measured is the fastest.
func pick(how string, names []string, variants map[string]spec.VariantOutput) string {
	least := func(of func(spec.VariantOutput) float64) string {
		return slices.MinFunc(names, func(a, b string) int { return cmp.Compare(of(variants[a]), of(variants[b])) })
	}
	switch how {
	case "", selectFastest:
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !variants[name].IsMeasured() })
		if len(names) == 0 {
			return ""
		}
		return least(func(v spec.VariantOutput) float64 { return v.Latency.P50MS })
	case selectSmallest:
		return least(func(v spec.VariantOutput) float64 { return float64(v.Bytes) })
	}
	if _, ok := variants[how]; !ok {
		return ""
	}
	return how
}
