// Package serving says what a serving target can do; its subpackages do it. The gateway splits and counts traffic, onnx runs
// models, routing keeps the document that says who gets how much, stats compares releases, rollout judges stages, and one package
// per driver (embedded) implements Target.
package serving

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/serving/stats"
)

// ErrUnavailable says that the target does not answer now, but may again. What was asked may or may not have been done; asking
// again is safe.
var ErrUnavailable = errors.New("the target does not answer")

// LoadError says that a release cannot be served, however often it is tried.
type LoadError struct {
	Target  string
	Version string
	Reason  string
}

// Error implements error.
func (e *LoadError) Error() string {
	return fmt.Sprintf("release %s cannot be served at target %s: %s", e.Version, e.Target, e.Reason)
}

// Split is how traffic is to be divided.
type Split struct {
	// Weights are the shares by version; they add up to 1. Releases that are not named are unloaded; a weight of 0 keeps one loaded.
	Weights map[string]float64 `json:"weights"`
	// Shadow, when set, mirrors a share of the requests to a version, which is kept loaded.
	Shadow *routing.Shadow `json:"shadow,omitempty"`
}

// Target is where models are served. Every change names the routing revision it is made for and fails with routing.ErrConflict
// when that has passed, so a change that arrives late changes nothing; but a change that was made already is not made again, and
// succeeds. All methods may be called concurrently and by many processes.
//
// Methods that wait for the serving side end with ctx, or with ErrUnavailable when it does not answer for some seconds.
type Target interface {
	// Current returns the routing document; revision 0 when nothing was ever released.
	Current(ctx context.Context) (routing.Document, error)
	// Load adds a release without traffic, under the next version, and returns when it is ready to get some: a LoadError says that it
	// never will be; what serves is not disturbed. The same run, step and model are the same release, which is returned as it is.
	// r's version and weight are ignored. While it takes long, waiting is told for what; it may be nil.
	Load(ctx context.Context, expected int64, r routing.Release, waiting func(what string)) (routing.Document, routing.Release, error)
	// SetTraffic splits the traffic anew and returns once it flows so.
	SetTraffic(ctx context.Context, expected int64, split Split) (routing.Document, error)
	// Stats returns what the serving side has counted.
	Stats(ctx context.Context) (stats.Snapshot, error)
	// URL is where the target speaks the Open Inference Protocol.
	URL() string
}
