package spec

// Evaluate runs the user's own scoring program and takes its metrics from $SLUICE_METRICS.
type Evaluate struct {
	Command
	// Metrics are the names the program reports; any other name is an error.
	Metrics []string `json:"metrics,omitempty" dsl:"literal,names"`
}

// EvaluateOutput is what an evaluate step hands on, beside its declared outputs.
type EvaluateOutput struct {
	// Metrics holds the last value reported of each declared metric.
	Metrics map[string]float64 `json:"metrics"`
}
