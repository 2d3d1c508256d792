package embedded

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/onnx/onnxtest"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/serving/servingtest"
)

// TestProviders: of a list the first that this machine has computes the releases, which metrics and log say; without one in it, a release is not
// loaded.
func TestProviders(t *testing.T) {
	if _, err := os.Stat("/proc/driver/nvidia/version"); err == nil {
		t.Skip("this machine has the driver of a GPU")
	}
	s := servingtest.NewStore(t)
	var said bytes.Buffer
	start := func(providers ...string) (*gateway.Server, *gateway.Target) {
		of := target
		of.Provider = providers
		server, err := Serve(t.Context(), s, servingtest.Name, of, gateway.Ports{}, t.TempDir(), t.TempDir(), "", slog.New(slog.NewTextHandler(&said, nil)))
		if err != nil {
			t.Fatal(err)
		}
		return server, gateway.NewTarget(s, servingtest.Name, server.URL(), server.ControlURL())
	}
	server, to := start("tensorrt_rtx", "cpu")
	release(t, s, to, onnxtest.Text)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if got, err := probability(client, server.URL(), "spam"); err != nil || got != 0.9 {
		t.Errorf("spam is spam by %v, %v", got, err)
	}
	res, err := client.Get(server.MetricsURL())
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if want := `sluice_provider{provider="cpu",target="` + servingtest.Name + `",version="1"} 1`; err != nil || !strings.Contains(string(metrics), want) {
		t.Errorf("%v, no %s in\n%s", err, want, metrics)
	}
	servingtest.Stop(t, server)
	for _, want := range []string{"level=WARN", "computed by another execution provider", "provider=cpu", "cannot use the execution provider tensorrt_rtx"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("no %q in the log\n%s", want, said.String())
		}
	}

	server, to = start("tensorrt_rtx")
	defer servingtest.Stop(t, server)
	ref, err := s.PutTree(t.Context(), artifact.Model, onnxtest.Folder(t, onnxtest.TextClose), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := to.Current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = to.Load(t.Context(), doc.Revision, routing.Release{Model: ref, Run: "r", Step: "ship"}, nil)
	const want = "cannot use the execution provider tensorrt_rtx"
	if failed, ok := errors.AsType[*gateway.LoadError](err); !ok || !strings.Contains(failed.Reason, want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// TestCheck: a target is refused whose releases this machine could not compute.
func TestCheck(t *testing.T) {
	if _, err := os.Stat("/proc/driver/nvidia/version"); err == nil {
		t.Skip("this machine has the driver of a GPU")
	}
	for providers, wrong := range map[string]bool{"": false, "cpu": false, "cuda cpu": false, "cuda": true, "cuda tensorrt_rtx": true} {
		if err := Check(spec.EmbeddedTarget{Provider: strings.Fields(providers)}); (fault.TypeOf(err) == fault.Invalid) != wrong || !wrong && err != nil {
			t.Errorf("%q: %v", providers, err)
		}
	}
}

// TestTargetOfBefore: a target in a state folder of before, which had one provider, is the same as one that is read today.
func TestTargetOfBefore(t *testing.T) {
	var before spec.ServedTarget
	if err := json.Unmarshal([]byte(`{"embedded":{"port":8080,"threads":1,"provider":"cpu","batching":{}}}`), &before); err != nil {
		t.Fatal(err)
	}
	now := spec.ServedTarget{Target: spec.Target{Embedded: &spec.EmbeddedTarget{Port: 8080, Threads: 1, Provider: spec.Providers{"cpu"}}}}
	if !before.Is(now) {
		t.Errorf("%+v is not %+v", before.Embedded, now.Embedded)
	}
	now.Embedded.Provider = spec.Providers{"tensorrt_rtx", "cpu"}
	raw, err := json.Marshal(now)
	if err != nil {
		t.Fatal(err)
	}
	var again spec.ServedTarget
	if err := json.Unmarshal(raw, &again); err != nil || !again.Is(now) || before.Is(now) {
		t.Errorf("%s is read as %+v, %v", raw, again.Embedded, err)
	}
	one, list := trials{target: *before.Embedded}, trials{target: *now.Embedded}
	if one.key(routing.Release{}, "") == list.key(routing.Release{}, "") {
		t.Error("a trial with one provider stands for one with others")
	}
}
