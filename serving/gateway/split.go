package gateway

import (
	"errors"
	"fmt"

	"github.com/sluiceml/sluice/serving/routing"
)

// ErrUnavailable means that the target does not respond now, but may later. The requested change may or may not have been made; trying
// again is safe.
var ErrUnavailable = errors.New("the target does not respond")

// LoadError means that a release could not be loaded, however often that is tried.
type LoadError struct {
	Target  string
	Version string
	Reason  string
}

// Error implements error.
func (e *LoadError) Error() string {
	return fmt.Sprintf("release %s cannot be served at target %s: %s", e.Version, e.Target, e.Reason)
}

// Split is a division of the traffic.
type Split struct {
	// Weights are the shares by version; they add up to 1. Releases that are not named are unloaded; a weight of 0 keeps one loaded.
	Weights map[string]float64 `json:"weights"`
	// Candidate and Stable are those of a rollout, as in routing.Document; both are empty when there is none any more.
	Candidate string `json:"candidate,omitempty"`
	Stable    string `json:"stable,omitempty"`
	// Shadow, when set, mirrors a share of the requests to a version, which is kept loaded.
	Shadow *routing.Shadow `json:"shadow,omitempty"`
	// Sticky, when set, gives the requests of one key the same release while there is a candidate; what is Held is worked out.
	Sticky *routing.Sticky `json:"sticky,omitempty"`
	// By and Reason are those of the revision that it makes.
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}
