package transform

import (
	"encoding/json"
	"fmt"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/human"
)

// Threshold bounds the share of its rows that a transform may reject. The workers of a process check it together while rows are processed;
// the counts of all processes are checked at the end.
type Threshold struct {
	share float64
}

// CompileThreshold returns the threshold in a transform's error_handling, or nil if there is none.
func CompileThreshold(t spec.Transform) (*Threshold, error) {
	var c struct {
		ErrorHandling *transform.ErrorHandling `json:"error_handling"`
	}
	if len(t.Config) > 0 {
		if err := json.Unmarshal(t.Config, &c); err != nil {
			return nil, fmt.Errorf("config: %w", err)
		}
	}
	if c.ErrorHandling == nil || c.ErrorHandling.Threshold == nil {
		return nil, nil
	}
	return &Threshold{share: float64(*c.ErrorHandling.Threshold)}, nil
}

// Check returns an error if too many rows were rejected.
func (h *Threshold) Check(name string, seen, rejected int64) error {
	if float64(rejected) <= h.share*float64(seen) {
		return nil
	}
	return fault.Errorf(fault.User, "transform %s rejected %s of %s rows, which is more than the %s its error_handling allows",
		name, human.Count(rejected), human.Count(seen), spec.Share(h.share))
}
