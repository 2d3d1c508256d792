package offload

import "github.com/sluiceml/sluice/dsl/spec"

// BuildFile is the report's name, in the folder that the variants' folders are in. It is no name of a variant.
const BuildFile = "built.json"

// BuildReport says what was built.
type BuildReport struct {
	// Fault is set where the model, the samples or what was asked of them is at fault, and says how: there are no variants then.
	Fault string `json:"fault,omitempty"`
	// Source is the source model.
	Source   Variant            `json:"source,omitzero"`
	Variants map[string]Variant `json:"variants,omitempty"`
}

// Variant is one model as it was measured.
type Variant struct {
	Parity     spec.Parity  `json:"parity"`
	Latency    spec.Latency `json:"latency"`
	Throughput float64      `json:"throughput"` // rows per second
	// Bytes of the model and the files that belong to it; 0 of a variant, whose folder has nothing else.
	Bytes int64 `json:"bytes,omitempty"`
	// Meta is of its artifact, beside its name.
	Meta map[string]string `json:"meta,omitempty"`
	// TensorRT is set of an engine.
	TensorRT *spec.EngineOutput `json:"tensorrt,omitempty"`
}
