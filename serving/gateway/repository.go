package gateway

import (
	"context"
	"encoding/json"
	"io"
	"net/http"

	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/oip/inference"
)

// indexed is an entry of the answer to POST v2/repository/index, which is NVIDIA Triton's, as are the names of states and the calls of gRPC.
type indexed struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	State   string `json:"state"`
	Reason  string `json:"reason"`
}

const maxIndexRequest = 1 << 10 // bytes

// repository adds the routes of Triton's repository API, for those who administer.
func (g *Gateway) repository(mux *http.ServeMux) {
	mux.HandleFunc("POST /v2/repository/index", g.index)
	mux.HandleFunc("POST /v2/repository/models/{model}/load", g.setByRollouts)
	mux.HandleFunc("POST /v2/repository/models/{model}/unload", g.setByRollouts)
}

// index lists the releases that the gateway has, or is making ready.
func (g *Gateway) index(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Ready bool `json:"ready"` // list only those that are
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxIndexRequest))
	if err == nil && len(body) > 0 {
		err = json.Unmarshal(body, &asked)
	}
	if err != nil {
		oip.WriteError(w, oip.Invalid("the body must be empty or {\"ready\": true}: %v", err))
		return
	}
	oip.WriteJSON(w, http.StatusOK, g.indexOf(asked.Ready))
}

// indexOf lists the releases, those only that are ready if so wanted.
func (g *Gateway) indexOf(ready bool) []indexed {
	list := []indexed{}
	for _, release := range g.State().Releases {
		entry := indexed{Name: g.opts.Target, Version: release.Version}
		switch release.State {
		case Ready:
			entry.State = "READY"
		case Failed:
			entry.State, entry.Reason = "UNAVAILABLE", release.Error
		case Loading:
			entry.State = "LOADING"
			if release.Waiting != "" {
				entry.Reason = "waits for " + release.Waiting
			}
		}
		if !ready || release.State == Ready {
			list = append(list, entry)
		}
	}
	return list
}

// setByRollouts refuses to load and unload.
func (g *Gateway) setByRollouts(w http.ResponseWriter, _ *http.Request) {
	oip.WriteError(w, g.byRollouts())
}

func (g *Gateway) byRollouts() error {
	return &oip.Error{Status: http.StatusForbidden, Message: "the releases of " + g.opts.Target + " are loaded and unloaded by rollouts, " +
		"not by clients: release a model with a `rollout` step of a pipeline"}
}

// RepositoryIndex implements inference.GRPCInferenceServiceServer.
func (s service) RepositoryIndex(_ context.Context, m *inference.RepositoryIndexRequest) (*inference.RepositoryIndexResponse, error) {
	res := &inference.RepositoryIndexResponse{}
	for _, entry := range s.g.indexOf(m.GetReady()) {
		res.Models = append(res.Models, &inference.RepositoryIndexResponse_ModelIndex{
			Name: entry.Name, Version: entry.Version, State: entry.State, Reason: entry.Reason,
		})
	}
	return res, nil
}

// RepositoryModelLoad implements inference.GRPCInferenceServiceServer.
func (s service) RepositoryModelLoad(ctx context.Context, _ *inference.RepositoryModelLoadRequest) (*inference.RepositoryModelLoadResponse, error) {
	return nil, refused(ctx, s.g.byRollouts())
}

// RepositoryModelUnload implements inference.GRPCInferenceServiceServer.
func (s service) RepositoryModelUnload(ctx context.Context, _ *inference.RepositoryModelUnloadRequest) (*inference.RepositoryModelUnloadResponse, error) {
	return nil, refused(ctx, s.g.byRollouts())
}
