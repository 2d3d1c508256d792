package codec

import (
	"net/http"
	"slices"
)

// ForOrigins lets pages of the given origins ("https://temporal.example.com"), and programs other than browsers, use a Handler. A browser
// sends Origin with every POST, and a page cannot choose it, so pages of other sites cannot have payloads decoded.
func ForOrigins(next http.Handler, origins []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Add("Vary", "Origin")
		origin := r.Header.Get("Origin")
		if origin != "" && !slices.Contains(origins, origin) {
			http.Error(w, "pages of "+origin+" may not use this codec server: set their origin with --origin when starting it", http.StatusForbidden)
			return
		}
		if origin != "" {
			h.Set("Access-Control-Allow-Origin", origin)
			h.Set("Access-Control-Allow-Credentials", "true") // the UI can be set to send cookies, which a proxy in front may require
		}
		if r.Method == http.MethodOptions {
			h.Set("Access-Control-Allow-Methods", http.MethodPost)
			h.Set("Access-Control-Allow-Headers", "Authorization, Authorization-Extras, Content-Type, X-Namespace")
			w.WriteHeader(http.StatusNoContent)
			return
		}
		next.ServeHTTP(w, r)
	})
}
