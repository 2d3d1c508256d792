package spec

// Evaluate runs the user's own scoring program and takes its metrics from $SLUICE_METRICS.
type Evaluate struct {
	Command
	Placement
	// Metrics are the metrics that are outputs of the step; the program must report each of them, and other metrics are ignored. A name
	// that is not an identifier, such as val/acc, is read as metrics["val/acc"]; it has letters of ASCII, digits and _ / @ . : % + -.
	Metrics []string `json:"metrics,omitempty" dsl:"literal,metrics"`
}

// Complete drops what does not apply.
func (spec *Evaluate) Complete() { spec.clear() }

// Train is the training of one node that does what the step asks for; it has pools.
func (spec *Evaluate) Train() Train { return spec.train(spec.Command, spec.Metrics) }

// EvaluateOutput is what an evaluate step hands on, beside its declared outputs.
type EvaluateOutput struct {
	// Metrics holds the last value reported of each declared metric.
	Metrics map[string]float64 `json:"metrics"`
}
