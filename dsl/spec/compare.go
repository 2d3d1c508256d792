package spec

// The rules of Compare. Without a rule, the output decides: see Compare.Rule.
const (
	CompareExact     = "exact"
	CompareTolerance = "tolerance"
	CompareTop1      = "top1"
	CompareThreshold = "threshold"
)

// Compare says how two answers of models are compared, and an answer with its label. It is the same in a compilation, which compares variants
// with their source, and in a rollout, which compares releases.
type Compare struct {
	// Output is the name of the output that contains the answer. Default: the model's first output.
	Output string `json:"output,omitempty"`
	// Rule: exact (the same values), tolerance (numbers that differ by at most `atol` + `rtol` times the label or the answer of the source model
	// or the serving release), top1 (the same index of the largest number) or threshold (one number on the same side of `threshold`). Default: the
	// text of a text output, top1 for several numbers per row, threshold for a float from 0 to 1, exact for any other number.
	Rule string `json:"rule,omitempty" dsl:"enum=exact|tolerance|top1|threshold"`
	// ATol is the absolute difference that `rule: tolerance` allows.
	ATol float64 `json:"atol,omitempty" dsl:"min=0"`
	// RTol is the relative difference that `rule: tolerance` allows: 0.1 is 10%.
	RTol float64 `json:"rtol,omitempty" dsl:"min=0"`
	// Threshold is the smallest number that `rule: threshold` takes for class 1. Default 0.5.
	Threshold *float64 `json:"threshold,omitempty"`
}
