package gateway

import (
	"net/http"

	"github.com/sluiceml/sluice/serving/oip"
)

// platform is what the protocol calls models of ONNX Runtime.
const platform = "onnxruntime_onnx"

// routes are those of the model, for whoever may ask it.
func (g *Gateway) routes() *http.ServeMux {
	model := "/v2/models/" + g.opts.Target
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v2", g.server)
	mux.HandleFunc("GET /v2/health/live", func(w http.ResponseWriter, _ *http.Request) {
		oip.WriteJSON(w, http.StatusOK, map[string]bool{"live": true})
	})
	mux.HandleFunc("GET /v2/health/ready", func(w http.ResponseWriter, _ *http.Request) { writeReady(w, g.ready()) })
	for _, base := range []string{model, model + "/versions/{version}"} {
		mux.HandleFunc("GET "+base, g.model)
		mux.HandleFunc("GET "+base+"/ready", g.modelReady)
		mux.HandleFunc("POST "+base+"/infer", ofInference(g.infer))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		oip.WriteError(w, &oip.Error{Status: http.StatusNotFound, Message: "there is no " + r.Method + " " + r.URL.Path + "; the model is " + model})
	})
	return mux
}

// ready reports whether the gateway serves what the document asks for. A target nothing was released to is ready.
func (g *Gateway) ready() bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	_, hasTraffic := g.doc.Serving()
	return g.followed && !g.draining && (!hasTraffic || g.table.complete())
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
