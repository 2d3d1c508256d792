package embedded

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/onnx/onnxtest"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/serving/servingtest"
	"github.com/sluiceml/sluice/serving/triton/layout"
	"github.com/sluiceml/sluice/store"
)

func TestMain(m *testing.M) {
	if storeURL := os.Getenv(replicaVariable); storeURL != "" {
		os.Exit(replicaMain(storeURL))
	}
	goleak.VerifyTestMain(m)
}

func TestConformance(t *testing.T) {
	servingtest.Run(t, func(t *testing.T, s *store.Store) servingtest.Harness {
		return servingtest.Open(t, s, func(ports gateway.Ports) *gateway.Server { return serve(t, s, ports) })
	})
}

// TestEngineIsRefused: a release that only a GPU can serve does not look like one that has lost its model.
func TestEngineIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, layout.EngineFile), []byte("engine"), 0o600); err != nil {
		t.Fatal(err)
	}
	const want = "the model is a TensorRT engine, which only a server with a GPU can load"
	if _, err := load(t.Context(), target, "", dir, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// target is one as an environment without further keys has it.
var target = *spec.DefaultEnvironment().Targets["local"].Embedded

// TestBatches: clients that ask at the same time get what each would get alone, from fewer inferences, which the gateway counts.
func TestBatches(t *testing.T) {
	batched := target
	batched.Instances = 1
	s := servingtest.NewStore(t)
	server, err := Serve(t.Context(), s, servingtest.Name, batched, gateway.Ports{}, t.TempDir(), t.TempDir(), "", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { servingtest.Stop(t, server) })
	release(t, s, gateway.NewTarget(s, servingtest.Name, server.URL(), server.ControlURL()), onnxtest.Text)

	const clients, requests = 16, 40
	var group sync.WaitGroup
	for i := range clients {
		word, want := "spam", float32(0.9)
		if i%2 == 0 {
			word, want = "ham", 0.1
		}
		group.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for range requests {
				if got, err := probability(client, server.URL(), word); err != nil || got != want {
					t.Errorf("%s: %v, %v, want %v", word, got, err, want)
				}
			}
		})
	}
	group.Wait()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	res, err := client.Get(server.MetricsURL())
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	metrics := map[string]float64{}
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		series, value, _ := strings.Cut(lines.Text(), " ")
		name, _, _ := strings.Cut(series, "{")
		metrics[name], _ = strconv.ParseFloat(value, 64)
	}
	rows, inferences := metrics["nv_inference_count"], metrics["nv_inference_exec_count"]
	if rows < clients*requests || inferences >= rows || metrics["nv_inference_request_failure"] != 0 {
		t.Errorf("%v rows in %v inferences: %v", rows, inferences, metrics)
	}
}

// release gives a model all the traffic.
func release(t testing.TB, s *store.Store, to *gateway.Target, model string) {
	t.Helper()
	releaseFolder(t, s, to, onnxtest.Folder(t, model), model)
}

// releaseFolder gives the model in a folder all the traffic.
func releaseFolder(t testing.TB, s *store.Store, to *gateway.Target, dir, run string) {
	t.Helper()
	ref, err := s.PutTree(t.Context(), artifact.Model, dir, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	doc, loaded, err := to.Load(t.Context(), 0, routing.Release{Model: ref, Run: run, Step: "ship"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := to.SetTraffic(t.Context(), doc.Revision, gateway.Split{Weights: map[string]float64{loaded.Version: 1}}); err != nil {
		t.Fatal(err)
	}
}

// probability asks the served model Text for that of class 1.
func probability(client *http.Client, url, word string) (float32, error) {
	body := fmt.Sprintf(`{"inputs": [{"name": "text", "shape": [1], "datatype": "BYTES", "data": [%q]}]}`, word)
	res, err := client.Post(url+"/v2/models/"+servingtest.Name+"/infer", "application/json", strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	var answer oip.InferResponse
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return 0, err
	}
	if res.StatusCode != http.StatusOK || len(answer.Outputs) != 1 {
		return 0, fmt.Errorf("%s: %v", res.Status, answer)
	}
	return answer.Outputs[0].Data.([]float32)[1], nil
}

func serve(t testing.TB, s *store.Store, ports gateway.Ports) *gateway.Server {
	t.Helper()
	server, err := Serve(t.Context(), s, servingtest.Name, target, ports, t.TempDir(), t.TempDir(), "", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// TestDefaultOfBatching: a variant whose answers depend on other rows is batched only where the target asks for it.
func TestDefaultOfBatching(t *testing.T) {
	for _, tc := range []struct {
		batched  string
		maxBatch int
		want     int
	}{
		{"", 0, spec.DefaultMaxBatch}, // the probe finds nothing
		{"1", 0, spec.DefaultMaxBatch},
		{"0.99", 0, 1},
		{"0", 0, 1},
		{"0.99", 8, 8},
		{"1", 1, 1},
	} {
		of := target
		of.Batching.MaxBatch = tc.maxBatch
		loaded, err := load(t.Context(), of, tc.batched, onnxtest.Folder(t, onnxtest.MLP), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		batcher := loaded.(upstream)
		if got := batcher.Stats().Limit; got != tc.want {
			t.Errorf("parity.batched %q, max_batch %d: up to %d rows at once, want %d", tc.batched, tc.maxBatch, got, tc.want)
		}
		if err := batcher.Close(); err != nil {
			t.Error(err)
		}
	}
}
