package spec

// Evaluate runs the user's own scoring program and takes its metrics from $SLUICE_METRICS.
type Evaluate struct {
	Command
	// Metrics are the names that the step hands on; the program must report each, and what else it reports is passed over. One that is no
	// identifier, such as val/acc, is read as metrics["val/acc"].
	Metrics []string `json:"metrics,omitempty" dsl:"literal,metrics"`
}

// EvaluateOutput is what an evaluate step hands on, beside its declared outputs.
type EvaluateOutput struct {
	// Metrics holds the last value reported of each declared metric.
	Metrics map[string]float64 `json:"metrics"`
}
