package tritontest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/servingtest"
)

// Server is Sluice's own server of the Open Inference Protocol on a folder, with the models that it is told to load by the repository API. It
// answers as Triton does, by the source of src/http_server.cc (server) and src/model_repository_manager (core), releases of 2026.
type Server struct {
	URL string

	t    testing.TB
	dir  string
	at   string
	http *http.Server

	mu     sync.Mutex // of all below, and of what loads and unloads
	loaded map[string]*loaded
	states map[string]entry // of models that were asked for
	calls  []string
	other  bool // the control mode is another than explicit
	onLoad func(name string)
}

// Dir is its repository.
func (s *Server) Dir() string { return s.dir }

// Refuse gives the server another control mode than explicit.
func (s *Server) Refuse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.other = true
}

// OnLoad has a function called before a model is loaded.
func (s *Server) OnLoad(f func(name string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onLoad = f
}

// loaded is a model that answers.
type loaded struct {
	model  gateway.Upstream
	routes http.Handler
}

// entry is one of the index.
type entry struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	State   string `json:"state,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

// Start starts a server on a folder, which ends with the test.
func Start(t testing.TB, dir string) *Server {
	t.Helper()
	s := &Server{t: t, dir: dir}
	s.listen("127.0.0.1:0")
	t.Cleanup(s.Stop)
	return s
}

func (s *Server) listen(at string) {
	s.t.Helper()
	listener, err := net.Listen("tcp", at) //nolint:noctx // it does not wait
	if err != nil {
		s.t.Fatal(err)
	}
	s.at = listener.Addr().String()
	s.URL = "http://" + s.at
	s.mu.Lock()
	s.loaded, s.states = map[string]*loaded{}, map[string]entry{}
	s.mu.Unlock()
	server := &http.Server{Handler: s.routes()} //nolint:gosec // a test's
	s.http = server
	go func() { _ = server.Serve(listener) }()
}

// Stop ends the server, and with it all that is loaded.
func (s *Server) Stop() {
	_ = s.http.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, l := range s.loaded {
		delete(s.loaded, name)
		_ = l.model.Close()
	}
}

// Again starts the server where it was, with nothing loaded.
func (s *Server) Again() {
	s.t.Helper()
	s.listen(s.at)
}

// Loaded lists the models that answer.
func (s *Server) Loaded() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for name := range s.loaded {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Calls lists what was asked of the repository API, but for its index: "load x".
func (s *Server) Calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v2", func(w http.ResponseWriter, _ *http.Request) {
		oip.WriteJSON(w, http.StatusOK, oip.ServerMetadata{
			Name: "triton", Extensions: []string{"model_repository", "model_repository(unload_dependents)", oip.BinaryExtension},
		})
	})
	mux.HandleFunc("GET /v2/health/ready", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /v2/repository/index", s.index)
	mux.HandleFunc("POST /v2/repository/models/{model}/load", s.asked("load", s.load))
	mux.HandleFunc("POST /v2/repository/models/{model}/unload", s.asked("unload", s.unload))
	mux.HandleFunc("/v2/models/{model}/", s.model)
	mux.HandleFunc("/v2/models/{model}", s.model)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { refuse(w, http.StatusNotFound, "Not Found") })
	return mux
}

func refuse(w http.ResponseWriter, status int, format string, args ...any) {
	oip.WriteJSON(w, status, map[string]string{"error": fmt.Sprintf(format, args...)})
}

// model answers for a model that is loaded.
func (s *Server) model(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("model")
	s.mu.Lock()
	l := s.loaded[name]
	s.mu.Unlock()
	if l == nil {
		refuse(w, http.StatusBadRequest, "Request for unknown model: '%s' is not found", name)
		return
	}
	l.routes.ServeHTTP(w, r)
}

// index lists the folders of the repository, whatever they are.
func (s *Server) index(w http.ResponseWriter, r *http.Request) {
	var asked struct{ Ready bool }
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil && !errors.Is(err, io.EOF) {
		refuse(w, http.StatusBadRequest, "failed to parse the request JSON buffer: %v", err)
		return
	}
	folders, err := os.ReadDir(s.dir)
	if err != nil {
		refuse(w, http.StatusInternalServerError, "%v", err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []entry{}
	for _, f := range folders {
		e, known := s.states[f.Name()]
		if !known {
			e = entry{Name: f.Name()}
		}
		if f.IsDir() && (!asked.Ready || e.State == "READY") {
			list = append(list, e)
		}
	}
	oip.WriteJSON(w, http.StatusOK, list)
}

// asked is the handler of a call that changes what is loaded.
func (s *Server) asked(what string, do func(name string) (status int, text string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("model")
		s.mu.Lock()
		s.calls = append(s.calls, what+" "+name)
		refused, loading := s.other, s.onLoad
		s.mu.Unlock()
		if refused {
			refuse(w, http.StatusServiceUnavailable, "explicit model load / unload is not allowed if polling is enabled")
			return
		}
		if what == "load" && loading != nil {
			loading(name)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if status, text := do(name); status != http.StatusOK {
			refuse(w, status, "%s", text)
		}
	}
}

// load loads a model. One that is loaded stays as it is: its files do not change here.
func (s *Server) load(name string) (status int, text string) {
	if s.loaded[name] != nil {
		return http.StatusOK, ""
	}
	if _, err := os.Stat(filepath.Join(s.dir, name)); err != nil {
		return http.StatusInternalServerError, fmt.Sprintf("failed to load '%s', failed to poll from model repository", name)
	}
	model, err := Load(s.dir, name)
	if err != nil {
		s.states[name] = entry{Name: name, Version: "1", State: "UNAVAILABLE", Reason: err.Error()}
		return http.StatusBadRequest, fmt.Sprintf("load failed for model '%s': %v\n", name, err)
	}
	s.loaded[name] = &loaded{model: model, routes: servingtest.Routes(name, model)}
	s.states[name] = entry{Name: name, Version: "1", State: "READY"}
	return http.StatusOK, ""
}

// unload returns when the inferences under way have ended, and succeeds for what is not loaded.
func (s *Server) unload(name string) (status int, text string) {
	l := s.loaded[name]
	if l == nil {
		return http.StatusOK, ""
	}
	delete(s.loaded, name)
	s.states[name] = entry{Name: name, Version: "1", State: "UNAVAILABLE", Reason: "unloaded"}
	if err := l.model.Close(); err != nil {
		return http.StatusInternalServerError, err.Error()
	}
	return http.StatusOK, ""
}
