package embedded

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/onnx/onnxtest"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/serving/servingtest"
)

// TestModelThatCrashes: a model that ends the process that loads it ends no gateway, neither the first time nor after a restart, and the
// release that serves answers.
func TestModelThatCrashes(t *testing.T) {
	s, dir := servingtest.NewStore(t), t.TempDir()
	start := func() (*gateway.Server, *gateway.Target) {
		server, err := Serve(t.Context(), s, servingtest.Name, target, gateway.Ports{}, filepath.Join(dir, "models"), filepath.Join(dir, "trials"), "", slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return server, gateway.NewTarget(s, servingtest.Name, server.URL(), server.ControlURL())
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	serves := func(url string) bool {
		got, err := probability(client, url, "spam")
		return err == nil && got == 0.9
	}
	server, to := start()
	release(t, s, to, onnxtest.Text)
	ref, err := s.PutTree(t.Context(), artifact.Model, onnxtest.Folder(t, onnxtest.Crash), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := to.Current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	crashing := routing.Release{Model: ref, Run: "r", Step: "ship"}
	_, _, err = to.Load(t.Context(), doc.Revision, crashing, nil)
	const want = "the model crashes ONNX Runtime, and is not loaded on this machine again: SIGSEGV: segmentation violation"
	if failed, ok := errors.AsType[*gateway.LoadError](err); !ok || !strings.Contains(failed.Reason, want) {
		t.Fatalf("%v, want %q", err, want)
	}
	if !serves(server.URL()) {
		t.Error("the release that serves does not answer")
	}
	servingtest.Stop(t, server)

	trialLimit = 0 // whatever is tried now fails otherwise
	defer func() { trialLimit = 10 * time.Minute }()
	server, to = start() // the document still names the release, as after a crash
	defer func() { servingtest.Stop(t, server) }()
	servingtest.Until(t, "the release that serves answers after a restart", func() bool { return serves(server.URL()) })
	if _, _, err = to.Load(t.Context(), doc.Revision, crashing, nil); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("after a restart: %v, want %q", err, want)
	}
}

// TestScalars: outputs without dimensions are served, and requests that are not UTF-8 are refused.
func TestScalars(t *testing.T) {
	s := servingtest.NewStore(t)
	server := serve(t, s, gateway.Ports{})
	defer servingtest.Stop(t, server)
	release(t, s, gateway.NewTarget(s, servingtest.Name, server.URL(), server.ControlURL()), onnxtest.Scalars)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for body, want := range map[string]string{
		`{"inputs": [{"name": "x", "shape": [2], "datatype": "FP32", "data": [1, 2]}]}`:                      `{"name":"sum","shape":[],"datatype":"FP32","data":[3]}`,
		`{"id": "` + "\xff" + `", "inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [1]}]}`: "UTF-8",
	} {
		res, err := client.Post(server.URL()+"/v2/models/"+servingtest.Name+"/infer", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s %s, %v; want %s", res.Status, got, err, want)
		}
	}
}

// TestModelThatHangs: a model whose warm-up does not end is not loaded.
func TestModelThatHangs(t *testing.T) {
	trialLimit = 2 * time.Second
	defer func() { trialLimit = 10 * time.Minute }()
	s, dir := servingtest.NewStore(t), t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "train"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "train", "rows.jsonl"), []byte(`{"n":1000000000000}`), 0o600); err != nil {
		t.Fatal(err)
	}
	data, err := s.PutTree(t.Context(), artifact.Dataset, dir, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	model, err := s.PutTree(t.Context(), artifact.Model, onnxtest.Folder(t, onnxtest.Loop), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	server := serve(t, s, gateway.Ports{})
	defer servingtest.Stop(t, server)
	to := gateway.NewTarget(s, servingtest.Name, server.URL(), server.ControlURL())
	_, _, err = to.Load(t.Context(), 0, routing.Release{Model: model, Run: "r", Step: "ship", WarmUp: routing.RowsOf(data, "train")}, nil)
	if want := "the model was not loaded and warmed up within 2s"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}
