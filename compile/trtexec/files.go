package trtexec

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Times is how fast an engine is: milliseconds from the first byte of the inputs to the last of the outputs, and inferences per second.
type Times struct{ P50MS, P99MS, PerSecond float64 }

// ReadTimes reads what --exportTimes writes: one entry an inference, warm-up left out.
func ReadTimes(path string) (Times, error) {
	var entries []struct {
		Start   float64 `json:"startH2dMs"`
		End     float64 `json:"endD2hMs"`
		Latency float64 `json:"latencyMs"`
	}
	if err := read(path, &entries); err != nil {
		return Times{}, err
	}
	if len(entries) == 0 {
		return Times{}, errors.New("trtexec measured no inference")
	}
	first, last := entries[0].Start, entries[0].End
	var latencies []float64
	for _, e := range entries {
		first, last = min(first, e.Start), max(last, e.End)
		latencies = append(latencies, e.Latency)
	}
	slices.Sort(latencies)
	at := func(q float64) float64 { return latencies[int(math.Ceil(q*float64(len(latencies))))-1] }
	if last <= first || at(0.5) <= 0 {
		return Times{}, errors.New("trtexec measured inferences that took no time")
	}
	return Times{P50MS: at(0.5), P99MS: at(0.99), PerSecond: float64(len(entries)) / (last - first) * 1000}, nil
}

// Layer is a layer of an engine with its part in the time.
type Layer struct {
	Name   string
	MeanMS float64
	Share  float64 // of all layers, 0 to 1
}

// ReadProfile reads what --exportProfile writes, the slowest layer first.
func ReadProfile(path string) ([]Layer, error) {
	var entries []struct {
		Name       *string `json:"name"` // the first entry is a count and has none
		Average    float64 `json:"averageMs"`
		Percentage float64 `json:"percentage"`
	}
	if err := read(path, &entries); err != nil {
		return nil, err
	}
	var layers []Layer
	for _, e := range entries {
		if e.Name != nil {
			layers = append(layers, Layer{Name: *e.Name, MeanMS: e.Average, Share: e.Percentage / 100})
		}
	}
	slices.SortStableFunc(layers, func(a, b Layer) int { return cmp.Compare(b.MeanMS, a.MeanMS) })
	return layers, nil
}

// ReadLayers reads what --exportLayerInfo writes: how many layers put out what, by element type such as FP16. A layer is an object
// where the engine was built with all its details, and else a name, which counts as "".
func ReadLayers(path string) (map[string]int, error) {
	var info struct{ Layers []json.RawMessage }
	if err := read(path, &info); err != nil {
		return nil, err
	}
	types := map[string]int{}
	for _, raw := range info.Layers {
		var layer struct {
			Outputs []struct {
				Format string `json:"Format/Datatype"` // "Row major linear FP16 format"
			}
		}
		if json.Unmarshal(raw, &layer) != nil || len(layer.Outputs) == 0 {
			types[""]++
			continue
		}
		types[strings.ToUpper(elementType.FindString(layer.Outputs[0].Format))]++
	}
	return types, nil
}

// elementType is TensorRT's name of one, in the description of a tensor's format.
var elementType = regexp.MustCompile(`(?i)\b(FP|BF|INT|UINT)[0-9]+\b|\b(Half|Float|Bool)\b`)

// Output is one output of an engine.
type Output struct {
	Name   string
	Shape  []int64
	Values []float64
}

// ReadOutputs reads what --exportOutput writes. Values have the six digits that trtexec prints.
func ReadOutputs(path string) ([]Output, error) {
	var entries []struct {
		Name       string    `json:"name"`
		Dimensions string    `json:"dimensions"` // 1x3
		Values     []float64 `json:"values"`
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(content, &entries); err != nil {
		if found := notFinite.Find(content); found != nil {
			return nil, &NotFiniteError{}
		}
		return nil, fmt.Errorf("the output of trtexec cannot be parsed: %w", err)
	}
	outputs := make([]Output, len(entries))
	for i, e := range entries {
		outputs[i] = Output{Name: e.Name, Values: e.Values}
		elements := int64(1)
		for dim := range strings.SplitSeq(e.Dimensions, "x") {
			d, err := strconv.ParseInt(dim, 10, 64)
			if err != nil || d < 0 {
				return nil, fmt.Errorf("the output of trtexec cannot be parsed: output %q has dimensions %q", e.Name, e.Dimensions)
			}
			outputs[i].Shape, elements = append(outputs[i].Shape, d), elements*d
		}
		if elements != int64(len(e.Values)) {
			return nil, fmt.Errorf("the output of trtexec cannot be parsed: output %q has dimensions %q and %d values", e.Name, e.Dimensions, len(e.Values))
		}
	}
	return outputs, nil
}

// notFinite is how C++ prints the numbers that JSON has no form of.
var notFinite = regexp.MustCompile(`[\[,]\s*-?(nan|inf)\s*[,\]]`)

// NotFiniteError says that an engine puts out NaN or an infinity.
type NotFiniteError struct{}

// Error implements error.
func (*NotFiniteError) Error() string {
	return "its output has NaN or infinity: the numbers are too large for its precision"
}

func read(path string, v any) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, v); err != nil {
		return fmt.Errorf("the output of trtexec cannot be parsed: %w", err)
	}
	return nil
}
