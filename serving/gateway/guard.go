package gateway

import (
	"mime"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/serving/door"
	"github.com/sluiceml/sluice/serving/oip"
)

// guarded refuses what web pages can send from the browser of somebody who can reach the gateway, which listens on loopback and trusts
// whoever is there. No page of the gateway's own asks it for anything, so every Origin is another's.
func guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if origin := r.Header.Get("Origin"); origin != "" {
			oip.WriteError(w, &oip.Error{Status: http.StatusForbidden, Message: "web pages may not use the gateway; this one is from " + origin})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// admitted lets callers pass who may ask for what their request needs, before anything else of it is read. The others are told why not.
func (g *Gateway) admitted(next http.Handler, verbOf func(*http.Request) (verb door.Verb, needed bool)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if verb, needed := verbOf(r); needed {
			caller, err := g.opts.Door.Admit(r, verb, g.opts.LabelKey)
			g.note(r.Context()).caller(caller)
			if err != nil {
				g.refuse(w, r, err)
				return
			}
			r = r.WithContext(door.WithCaller(r.Context(), caller))
		}
		next.ServeHTTP(w, r)
	})
}

// refuse answers a request with an error, in the form that its protocol has.
func (g *Gateway) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if isGRPC(r) {
		refuseGRPC(w, err)
		return
	}
	if oip.ErrorStatus(err) == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", g.opts.Door.Challenge(r))
	}
	oip.WriteError(w, err)
}

// modelVerb is what a caller needs at the model's port: load balancers ask for health without a key.
func modelVerb(r *http.Request) (verb door.Verb, needed bool) {
	switch path := r.URL.Path; {
	case path == livePath, path == readyPath, isGRPC(r) && (strings.HasSuffix(path, "/ServerLive") || strings.HasSuffix(path, "/ServerReady")):
		return "", false
	case strings.HasPrefix(path, "/v2/repository"), isGRPC(r) && strings.Contains(path, "/Repository"):
		return door.Admin, true
	}
	return door.Infer, true
}

// forwardVerb is modelVerb where requests are passed on.
func forwardVerb(r *http.Request) (verb door.Verb, needed bool) {
	return door.Infer, r.URL.Path != livePath && r.URL.Path != readyPath
}

// onLoopback refuses requests under another name than the loopback's: a page whose name was made to mean this machine, or a proxy that
// publishes what is not for it.
func onLoopback(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			oip.WriteError(w, &oip.Error{Status: http.StatusForbidden, Message: r.URL.Path + " is only served at 127.0.0.1, not at " + host})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// readOnLoopback is onLoopback for reads: a browser names no Origin where a page reads from its own name, which may have been made to mean this
// machine. Load balancers ask for health by any name.
func readOnLoopback(next http.Handler) http.Handler {
	local := onLoopback(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		isRead := r.Method == http.MethodGet || r.Method == http.MethodHead
		if isRead && r.URL.Path != livePath && r.URL.Path != readyPath {
			local.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ofInference takes the media types of inference requests; some clients, such as NVIDIA's, name none.
func ofInference(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if given := r.Header.Get("Content-Type"); given != "" && !slices.Contains(inferenceTypes, given) {
			media, _, err := mime.ParseMediaType(given)
			if err != nil || !slices.Contains(inferenceTypes, media) {
				oip.WriteError(w, &oip.Error{Status: http.StatusUnsupportedMediaType, Message: "send the request with the header Content-Type: application/json"})
				return
			}
		}
		next(w, r)
	}
}

var inferenceTypes = []string{"application/json", "application/octet-stream"}
