package gateway

import (
	"net/http"
	"path"

	"github.com/sluiceml/sluice/serving/oip"
)

// platform is what the protocol calls models of ONNX Runtime.
const platform = "onnxruntime_onnx"

// The gateway's own health, whatever the protocol.
const (
	livePath  = "/v2/health/live"
	readyPath = "/v2/health/ready"
)

// routes are those of the model, for whoever may ask it.
func (g *Gateway) routes() http.Handler {
	model := "/v2/models/" + g.opts.Target
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v2", g.server)
	mux.HandleFunc("GET "+livePath, func(w http.ResponseWriter, _ *http.Request) { writeLive(w) })
	mux.HandleFunc("GET "+readyPath, func(w http.ResponseWriter, _ *http.Request) { writeReady(w, g.ready()) })
	for _, base := range []string{model, model + "/versions/{version}"} {
		mux.HandleFunc("GET "+base, g.model)
		mux.HandleFunc("GET "+base+"/ready", g.modelReady)
		mux.HandleFunc("POST "+base+"/infer", ofInference(g.infer))
	}
	g.triton(mux)
	g.repository(mux)
	mux.HandleFunc("/", g.nothing)
	return g.exactly(mux)
}

// exactly refuses paths that mux would clean and redirect: one with `..` in place of a model is a mistake.
func (g *Gateway) exactly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path.Clean(r.URL.Path) != r.URL.Path {
			g.nothing(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (g *Gateway) nothing(w http.ResponseWriter, r *http.Request) {
	oip.WriteError(w, &oip.Error{
		Status: http.StatusNotFound, Message: "there is no " + r.Method + " " + r.URL.Path + "; the model is /v2/models/" + g.opts.Target,
	})
}

// ready reports whether the gateway serves what the document asks for. A target nothing was released to is ready.
func (g *Gateway) ready() bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	_, hasTraffic := g.doc.Serving()
	return g.followed && !g.draining && (!hasTraffic || g.table.complete())
}

func writeLive(w http.ResponseWriter) { oip.WriteJSON(w, http.StatusOK, map[string]bool{"live": true}) }

func writeReady(w http.ResponseWriter, ready bool) {
	status := http.StatusOK
	if !ready {
		status = http.StatusServiceUnavailable
	}
	oip.WriteJSON(w, status, map[string]bool{"ready": ready})
}

// serverMetadata is the answer to GET v2.
var serverMetadata = oip.ServerMetadata{Name: "sluice", Version: "2", Extensions: []string{
	oip.BinaryExtension, "model_repository", "model_configuration", "statistics",
}}

func (g *Gateway) server(w http.ResponseWriter, _ *http.Request) {
	oip.WriteJSON(w, http.StatusOK, serverMetadata)
}

func (g *Gateway) modelReady(w http.ResponseWriter, r *http.Request) {
	writeReady(w, g.modelIsReady(r.PathValue("version")))
}

func (g *Gateway) modelIsReady(version string) bool {
	a, err := g.hold(version)
	if err == nil {
		a.inflight.Done()
	}
	return err == nil
}

func (g *Gateway) model(w http.ResponseWriter, r *http.Request) {
	meta, err := g.metadata(r.PathValue("version"))
	if err != nil {
		oip.WriteError(w, err)
		return
	}
	oip.WriteJSON(w, http.StatusOK, meta)
}

// metadata describes the version asked for, else the release with the most traffic.
func (g *Gateway) metadata(version string) (*oip.ModelMetadata, error) {
	a, err := g.hold(version)
	if err != nil {
		return nil, err
	}
	defer a.inflight.Done()
	meta := &oip.ModelMetadata{Name: g.opts.Target, Platform: platform, Inputs: a.upstream.Inputs(), Outputs: a.upstream.Outputs()}
	for _, release := range g.State().Releases {
		if release.State == Ready {
			meta.Versions = append(meta.Versions, release.Version)
		}
	}
	return meta, nil
}

// hold keeps the release that metadata are asked of: without a version the one with the most traffic, as the table has it while the document's
// is still being loaded.
func (g *Gateway) hold(version string) (*assignment, error) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	switch {
	case version != "":
	case g.table.complete():
		version = g.table.heaviest().Version
	default:
		serving, _ := g.doc.Serving()
		version = serving.Version
	}
	a, err := g.assigned(version, "")
	if err == nil {
		a.dropShadow()
	}
	return a, err
}
