package process

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/serving/servingtest"
)

// doubling is a model of MLServer that is no ONNX model.
var doubling = map[string]string{
	"model-settings.json": `{"name": "` + servingtest.Name + `", "implementation": "doubling.Doubling"}`,
	"settings.json":       `{"host": "127.0.0.1", "grpc_port": 0, "metrics_endpoint": null, "parallel_workers": 0}`,
	"doubling.py": `
from mlserver import MLModel
from mlserver.codecs import NumpyCodec, NumpyRequestCodec


class Doubling(MLModel):
    async def load(self):
        return True

    async def predict(self, payload):
        return NumpyRequestCodec.encode_response(model_name=self.name, payload=2 * NumpyCodec.decode_input(payload.inputs[0]))
`,
}

// TestMLServer serves two releases of a model by MLServer, of which $SLUICE_TEST_MLSERVER is the program: `make bench NAME=serve` installs it
// as .cache/bench/mlserver/venv/bin/mlserver. It starts too slowly for CI.
func TestMLServer(t *testing.T) {
	program := os.Getenv("SLUICE_TEST_MLSERVER")
	if program == "" {
		t.Skip("SLUICE_TEST_MLSERVER is not set")
	}
	dir := t.TempDir()
	for name, text := range doubling {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := servingtest.NewStore(t)
	model, err := s.PutTree(t.Context(), artifact.Model, dir, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	at := target(program, "start", "${model.path}")
	at.Env["MLSERVER_HTTP_PORT"], at.Env["PYTHONPATH"], at.Env["TMPDIR"] = "${port}", "${model.path}", t.TempDir()
	server := serve(t, s, at, t.TempDir(), gateway.Ports{})
	defer servingtest.Stop(t, server)
	to := gateway.NewTarget(s, servingtest.Name, server.URL(), server.ControlURL())
	weights := map[string]float64{}
	var doc routing.Document
	for _, run := range []string{"first", "second"} {
		var release routing.Release
		if doc, release, err = to.Load(t.Context(), doc.Revision, routing.Release{Model: model, Run: run, Step: "ship"}, nil); err != nil {
			t.Fatal(err)
		}
		weights[release.Version] = 0.5
	}
	if _, err := to.SetTraffic(t.Context(), doc.Revision, gateway.Split{Weights: weights}); err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	answered := map[string]bool{}
	servingtest.Until(t, "answers of both releases", func() bool {
		const body = `{"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2.5]}]}`
		resp, err := client.Post(server.URL()+"/v2/models/"+servingtest.Name+"/infer", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		var answer oip.InferResponse
		if err == nil {
			err = json.Unmarshal(raw, &answer)
		}
		if err != nil || len(answer.Outputs) != 1 || answer.Outputs[0].Data.([]float32)[1] != 5 {
			t.Fatalf("%s: %s, %v", resp.Status, raw, err)
		}
		answered[resp.Header.Get(gateway.ReleaseHeader)] = true
		return len(answered) == len(weights)
	})
}
