package ec2

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// metadataService plays the instance metadata service, version 2, of an instance that knows data, by what follows latest/meta-data/:
// without the token of a session it answers 401. It returns the address that stands for http://169.254.169.254.
func metadataService(t *testing.T, data map[string]string) string {
	t.Helper()
	const session = "session-0"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, isData := strings.CutPrefix(r.URL.Path, "/latest/meta-data/")
		value, known := data[path]
		switch {
		case r.Method == http.MethodPut && r.URL.Path == "/latest/api/token" && r.Header.Get("X-aws-ec2-metadata-token-ttl-seconds") != "":
			_, _ = io.WriteString(w, session)
		case r.Header.Get("X-aws-ec2-metadata-token") != session:
			w.WriteHeader(http.StatusUnauthorized)
		case isData && known:
			_, _ = io.WriteString(w, value)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}
