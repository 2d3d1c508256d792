package embedded

import (
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/onnx/onnxtest"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/serving/servingtest"
)

// TestWarmUpWithTexts: a model that fails for made-up texts is warmed up with real ones, before it is ready.
func TestWarmUpWithTexts(t *testing.T) {
	s := servingtest.NewStore(t)
	server, err := Serve(t.Context(), s, servingtest.Name, target, gateway.Ports{}, t.TempDir(), t.TempDir(), "", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer servingtest.Stop(t, server)
	model, err := s.PutTree(t.Context(), artifact.Model, onnxtest.Folder(t, onnxtest.OneHot), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "train"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "train", "rows.jsonl"), []byte(`{"text":"ham"}`+"\n"+`{"text":"spam"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	rows, err := s.PutTree(t.Context(), artifact.Dataset, dir, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	to := gateway.NewTarget(s, servingtest.Name, server.URL(), server.ControlURL())
	_, _, err = to.Load(t.Context(), 0, routing.Release{Model: model, Run: "r", Step: "ship", WarmUp: routing.RowsOf(rows, "train")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	res, err := client.Get(server.MetricsURL())
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	metrics, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`nv_inference_request_success{model="` + servingtest.Name + `",version="1"} 7`, // five one by one, two at once
		`nv_inference_request_failure{model="` + servingtest.Name + `",version="1"} 0`,
	} {
		if !strings.Contains(string(metrics), want) {
			t.Errorf("there is no %s in\n%s", want, metrics)
		}
	}
}
