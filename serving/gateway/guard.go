package gateway

import (
	"mime"
	"net"
	"net/http"
	"slices"

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
