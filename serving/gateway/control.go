package gateway

import (
	"errors"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/serving/stats"
)

// State says how far the gateway is with the routing document.
type State struct {
	Target string `json:"target"`
	Epoch  string `json:"epoch"`
	// Revision is the newest revision of the document that was read, Serving the one that is served.
	Revision int64 `json:"revision"`
	Serving  int64 `json:"serving"`
	// Releases of the newest revision, in its order.
	Releases []ReleaseStatus `json:"releases"`
	// Error says why the document cannot be read.
	Error string `json:"error,omitempty"`
}

// ReleaseStatus is one release's state.
type ReleaseStatus struct {
	Version string            `json:"version"`
	Weight  float64           `json:"weight"`
	State   routing.LoadState `json:"state"`
	Model   string            `json:"model"` // digest
	Run     string            `json:"run"`
	// Waiting says what a release waits for, if it is loading and that takes long.
	Waiting string `json:"waiting,omitempty"`
	// Error says why the state is failed.
	Error string `json:"error,omitempty"`
}

// Metrics returns the handler of the metrics, for Prometheus.
func (g *Gateway) Metrics() http.Handler {
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(collector{g})
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	return guarded(mux)
}

// Control returns the handler of everything that is not for the model's clients: the gateway's state and counts, for a Target, and the
// repository API. Serve it on loopback, on another port than the model.
func (g *Gateway) Control() http.Handler {
	base := controlPath(g.opts.Target)
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+base, func(w http.ResponseWriter, _ *http.Request) { oip.WriteJSON(w, http.StatusOK, g.State()) })
	mux.HandleFunc("GET "+base+"/stats", func(w http.ResponseWriter, _ *http.Request) { oip.WriteJSON(w, http.StatusOK, g.Stats()) })
	mux.HandleFunc("POST "+base+"/reload", func(w http.ResponseWriter, _ *http.Request) {
		g.Poke()
		w.WriteHeader(http.StatusAccepted)
	})
	g.repository(mux)
	return guarded(onLoopback(mux))
}

// controlPath is below which a target's state is asked for.
func controlPath(target string) string { return "/sluice/v1/targets/" + target }

// State returns how far the gateway is with the routing document.
func (g *Gateway) State() State {
	g.mu.RLock()
	defer g.mu.RUnlock()
	s := State{Target: g.opts.Target, Epoch: g.epoch, Revision: g.doc.Revision, Releases: []ReleaseStatus{}}
	if g.table != nil {
		s.Serving = g.table.revision
	}
	if g.problem != nil {
		s.Error = g.problem.Error()
	}
	for _, wanted := range g.doc.Releases {
		status := ReleaseStatus{Version: wanted.Version, Weight: wanted.Weight, Model: wanted.Model.Digest, Run: wanted.Run, State: Loading}
		if r := g.releases[wanted.Version]; r != nil {
			status.State, status.Waiting = r.state, r.waiting
			if r.err != nil {
				status.Error = r.err.Error()
			}
		}
		s.Releases = append(s.Releases, status)
	}
	return s
}

// Trouble says why the target is not served as its document says; it is nil if it is, or is about to be.
func (g *Gateway) Trouble() error {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.trouble()
}

// trouble is Trouble; the caller holds the lock.
func (g *Gateway) trouble() error {
	errs := []error{g.problem}
	for _, wanted := range g.doc.Releases {
		if r := g.releases[wanted.Version]; r != nil && r.state == Failed {
			errs = append(errs, r.err)
		}
	}
	return errors.Join(errs...)
}

// Stats returns what was counted.
func (g *Gateway) Stats() stats.Snapshot {
	g.mu.RLock()
	snapshot := stats.Snapshot{Target: g.opts.Target, Epoch: g.epoch}
	if g.table != nil {
		snapshot.Revision, snapshot.Active = g.table.revision, g.table.active()
	}
	g.mu.RUnlock()
	snapshot.Revisions = g.counters.byRevision()
	return snapshot
}
