package gateway

import (
	"errors"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/stats"
)

// platform is what the protocol calls models of ONNX Runtime.
const platform = "onnxruntime_onnx"

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
	Version string       `json:"version"`
	Weight  float64      `json:"weight"`
	State   ReleaseState `json:"state"`
	Model   string       `json:"model"` // digest
	Run     string       `json:"run"`
	// Waiting says what for, when the state is loading and that takes long.
	Waiting string `json:"waiting,omitempty"`
	// Error says why the state is failed.
	Error string `json:"error,omitempty"`
}

func (g *Gateway) routes() *http.ServeMux {
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(collector{g})
	model := "/v2/models/" + g.opts.Target
	control := "/sluice/v1/targets/" + g.opts.Target
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v2", g.server)
	mux.HandleFunc("GET /v2/health/live", func(w http.ResponseWriter, _ *http.Request) {
		oip.WriteJSON(w, http.StatusOK, map[string]bool{"live": true})
	})
	mux.HandleFunc("GET /v2/health/ready", func(w http.ResponseWriter, _ *http.Request) { writeReady(w, g.ready()) })
	for _, base := range []string{model, model + "/versions/{version}"} {
		mux.HandleFunc("GET "+base, g.model)
		mux.HandleFunc("GET "+base+"/ready", g.modelReady)
		mux.HandleFunc("POST "+base+"/infer", ofInference(bounded(g.infer)))
	}
	mux.HandleFunc("GET "+control, onLoopback(func(w http.ResponseWriter, _ *http.Request) { oip.WriteJSON(w, http.StatusOK, g.State()) }))
	mux.HandleFunc("GET "+control+"/stats", onLoopback(func(w http.ResponseWriter, _ *http.Request) { oip.WriteJSON(w, http.StatusOK, g.Stats()) }))
	mux.HandleFunc("POST "+control+"/reload", onLoopback(func(w http.ResponseWriter, _ *http.Request) {
		g.Poke()
		w.WriteHeader(http.StatusAccepted)
	}))
	mux.HandleFunc("GET /metrics", onLoopback(promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}).ServeHTTP))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		oip.WriteError(w, &oip.Error{Status: http.StatusNotFound, Message: "there is no " + r.Method + " " + r.URL.Path + "; the model is " + model})
	})
	return mux
}

// bounded refuses requests beyond the number that may be under way, before their bodies are read.
func bounded(next http.HandlerFunc) http.HandlerFunc {
	slots := make(chan struct{}, maxInFlight)
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
			next(w, r)
		default:
			w.Header().Set("Retry-After", "1")
			oip.WriteError(w, &oip.Error{Status: http.StatusServiceUnavailable, Message: "too many requests are under way"})
		}
	}
}

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

// Trouble says why the target is not served as its document says; nil when it is, or is about to be.
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
		snapshot.Revision = g.table.revision
	}
	g.mu.RUnlock()
	snapshot.Revisions = g.counters.byRevision()
	return snapshot
}

// ready reports whether the gateway serves what the document asks for. A target nothing was released to is ready.
func (g *Gateway) ready() bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	_, hasTraffic := g.doc.Serving()
	return g.followed && (!hasTraffic || g.table.complete())
}

func writeReady(w http.ResponseWriter, ready bool) {
	status := http.StatusOK
	if !ready {
		status = http.StatusServiceUnavailable
	}
	oip.WriteJSON(w, status, map[string]bool{"ready": ready})
}

func (g *Gateway) server(w http.ResponseWriter, _ *http.Request) {
	oip.WriteJSON(w, http.StatusOK, oip.ServerMetadata{Name: "sluice", Version: "2", Extensions: []string{}})
}

func (g *Gateway) modelReady(w http.ResponseWriter, r *http.Request) {
	a, err := g.described(r)
	if err == nil {
		a.inflight.Done()
	}
	writeReady(w, err == nil)
}

// model answers with the metadata of the version asked for, else of the release with the most traffic.
func (g *Gateway) model(w http.ResponseWriter, r *http.Request) {
	a, err := g.described(r)
	if err != nil {
		oip.WriteError(w, err)
		return
	}
	defer a.inflight.Done()
	meta := oip.ModelMetadata{Name: g.opts.Target, Platform: platform, Inputs: a.upstream.Inputs(), Outputs: a.upstream.Outputs()}
	for _, release := range g.State().Releases {
		if release.State == Ready {
			meta.Versions = append(meta.Versions, release.Version)
		}
	}
	oip.WriteJSON(w, http.StatusOK, meta)
}

// described holds the release a metadata request is about.
func (g *Gateway) described(r *http.Request) (*assignment, error) {
	version := r.PathValue("version")
	if version == "" {
		g.mu.RLock()
		serving, _ := g.doc.Serving()
		g.mu.RUnlock()
		version = serving.Version
	}
	a, err := g.assign(version)
	if err == nil && a.shadow != nil {
		a.shadow.inflight.Done()
	}
	return a, err
}
