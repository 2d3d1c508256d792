// Package imdstest plays the instance metadata service of one EC2 instance, version 2: without the token of a session it answers 401.
package imdstest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// Server is the service of one instance.
type Server struct {
	// URL stands for http://169.254.169.254.
	URL string

	web  *httptest.Server
	mu   sync.Mutex
	data map[string]string // by what follows latest/meta-data/
	open int               // the session whose token is good
}

// Start starts a service that knows data, by what follows latest/meta-data/, for as long as the test runs.
func Start(t *testing.T, data map[string]string) *Server {
	t.Helper()
	s := &Server{data: map[string]string{}}
	for path, value := range data {
		s.data[path] = value
	}
	s.web = httptest.NewServer(s)
	s.URL = s.web.URL
	t.Cleanup(s.web.Close)
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path, isData := strings.CutPrefix(r.URL.Path, "/latest/meta-data/")
	value, known := s.data[path]
	switch {
	case r.Method == http.MethodPut && r.URL.Path == "/latest/api/token" && r.Header.Get("X-aws-ec2-metadata-token-ttl-seconds") != "":
		_, _ = io.WriteString(w, s.token())
	case r.Header.Get("X-aws-ec2-metadata-token") != s.token():
		w.WriteHeader(http.StatusUnauthorized)
	case isData && known:
		_, _ = io.WriteString(w, value)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (s *Server) token() string { return fmt.Sprintf("session-%d", s.open) }

// Interrupt gives the instance its notice.
func (s *Server) Interrupt(until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.data["spot/instance-action"] = fmt.Sprintf(`{"action": "terminate", "time": %q}`, until.UTC().Format(time.RFC3339))
}

// Expire ends all sessions.
func (s *Server) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open++
}

// Close takes the service away.
func (s *Server) Close() { s.web.Close() }
