package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/serving/door/doortest"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/trust"
)

// gateways are those of a state folder, closed with the test.
func gateways(t *testing.T, state string) *Gateways {
	t.Helper()
	g := NewGateways(openStore(t), state, slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// lives reports whether a gateway answers at url.
func lives(t *testing.T, url string) bool {
	t.Helper()
	return status(t, url+"/v2/health/live") == http.StatusOK
}

// status is what a GET is answered with, 0 when nobody answers.
func status(t *testing.T, url string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	return res.StatusCode
}

func embeddedAt(port int) spec.ServedTarget {
	return spec.ServedTarget{Target: spec.Target{Embedded: &spec.EmbeddedTarget{Port: port}}}
}

func serveTarget(t *testing.T, g *Gateways, target string, port int) string {
	t.Helper()
	at, err := g.Serve(t.Context(), target, embeddedAt(port))
	if err != nil {
		t.Fatal(err)
	}
	return at.URL
}

// urls is where the models of targets are.
func urls(g *Gateways) map[string]string {
	all := map[string]string{}
	for target, at := range g.Addresses() {
		all[target] = at.URL
	}
	return all
}

func TestGateways(t *testing.T) {
	state := t.TempDir()
	words, spam := freePort(t), freePort(t)
	g := gateways(t, state)
	at := func(port int) string { return fmt.Sprintf("http://127.0.0.1:%d", port) }
	for range 2 { // a target that is served already stays where it is
		if got := serveTarget(t, g, "words", words); got != at(words) || !lives(t, got) {
			t.Fatalf("words is at %s (lives: %v), want %s", got, lives(t, got), at(words))
		}
	}
	serveTarget(t, g, "spam", spam)
	want := map[string]string{"words": at(words), "spam": at(spam)}
	if diff := cmp.Diff(want, urls(g)); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if lives(t, at(words)) || len(g.Addresses()) != 0 {
		t.Error("a closed gateway answers")
	}

	restored := gateways(t, state)
	if err := restored.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, urls(restored)); diff != "" || !lives(t, at(words)) || !lives(t, at(spam)) {
		t.Errorf("restored (-want +got):\n%s", diff)
	}
}

// metricsOf are those of the target words.
func metricsOf(t *testing.T, g *Gateways) string {
	t.Helper()
	at := g.Addresses()["words"]
	if status(t, at.URL+"/metrics") != http.StatusNotFound || status(t, at.Metrics) != http.StatusOK {
		t.Errorf("words is at %v; want metrics there and not at the model's port", at)
	}
	return at.Metrics
}

// TestMetricsPort: metrics have a port of their own, which the environment may choose, and which is the same after a restart then. One
// that is taken is refused, and leaves the target as it is served.
func TestMetricsPort(t *testing.T) {
	state := t.TempDir()
	g := gateways(t, state)
	sp := spec.EmbeddedTarget{Port: freePort(t), MetricsPort: freePort(t)}
	if _, err := g.Serve(t.Context(), "words", spec.ServedTarget{Target: spec.Target{Embedded: &sp}}); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("http://127.0.0.1:%d/metrics", sp.MetricsPort)
	if got := metricsOf(t, g); got != want {
		t.Errorf("metrics are at %s, want %s", got, want)
	}
	other := sp
	other.MetricsPort = freePort(t)
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", fmt.Sprintf("127.0.0.1:%d", other.MetricsPort))
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, err = g.Serve(t.Context(), "words", spec.ServedTarget{Target: spec.Target{Embedded: &other}})
	if !errors.Is(err, gateway.ErrPortInUse) || !strings.Contains(err.Error(), "another `metrics_port`") {
		t.Errorf("got %v, want the metrics_port in use", err)
	}
	if got := metricsOf(t, g); got != want {
		t.Errorf("metrics are at %s, want %s", got, want)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	restored := gateways(t, state)
	if err := restored.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := metricsOf(t, restored); got != want {
		t.Errorf("after a restart metrics are at %s, want %s", got, want)
	}
	if at := restored.Addresses()["words"].URL; !lives(t, at) {
		t.Errorf("the model is not at %s", at)
	}
}

// TestMetricsOnAnyPort: an environment that says nothing of metrics gets a free port for
// those of each target.
func TestMetricsOnAnyPort(t *testing.T) {
	state := t.TempDir()
	remembered := fmt.Sprintf(`{"words":{"embedded":{"port":%d}},"spam":{"embedded":{"port":%d}}}`, freePort(t), freePort(t))
	if err := os.WriteFile(filepath.Join(state, "targets.json"), []byte(remembered), 0o600); err != nil {
		t.Fatal(err)
	}
	g := gateways(t, state)
	if err := g.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	if words, spam := metricsOf(t, g), g.Addresses()["spam"].Metrics; words == spam || status(t, spam) != http.StatusOK {
		t.Errorf("metrics of both targets are at %s", spam)
	}
}

// TestGatewayMoves: the port that the environment names now is the target's.
func TestGatewayMoves(t *testing.T) {
	g := gateways(t, t.TempDir())
	before, after := freePort(t), freePort(t)
	old := serveTarget(t, g, "words", before)
	moved := serveTarget(t, g, "words", after)
	if old == moved || !lives(t, moved) || lives(t, old) {
		t.Errorf("moved from %s (lives: %v) to %s (lives: %v)", old, lives(t, old), moved, lives(t, moved))
	}
	if diff := cmp.Diff(map[string]string{"words": moved}, urls(g)); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
}

// TestGatewayOfACluster: a target on KServe is served without asking the cluster, a change of its keys is taken up on the port that it
// has, and a restart knows them.
func TestGatewayOfACluster(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config")
	const nowhere = `{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}],
users: [{name: c, user: {token: t}}], contexts: [{name: c, context: {cluster: c, user: c, namespace: serving}}]}`
	if err := os.WriteFile(config, []byte(nowhere), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", config)
	state := t.TempDir()
	g := gateways(t, state)
	sp := spec.KServeTarget{Port: freePort(t), Models: "s3://models", Server: "triton"}
	if _, err := g.Serve(t.Context(), "shop", spec.ServedTarget{Target: spec.Target{KServe: &sp}}); err != nil {
		t.Fatal(err)
	}
	before, changed := g.served["shop"], sp
	changed.Server = "openvino"
	at, err := g.Serve(t.Context(), "shop", spec.ServedTarget{Target: spec.Target{KServe: &changed}})
	if err != nil || g.served["shop"] == before || !lives(t, at.URL) {
		t.Errorf("a changed target is served at %v (anew: %v): %v", at, g.served["shop"] != before, err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	again := gateways(t, state)
	if err := again.Restore(t.Context()); err != nil || !lives(t, at.URL) {
		t.Errorf("restored %v: %v", again.Addresses(), err)
	}
	if diff := cmp.Diff(spec.ServedTarget{Target: spec.Target{KServe: &changed}}, again.specs["shop"]); diff != "" {
		t.Errorf("restored (-want +got):\n%s", diff)
	}
	changed.Context = "gone"
	if _, err := again.Serve(t.Context(), "other", spec.ServedTarget{Target: spec.Target{KServe: &changed}}); err == nil || !strings.Contains(err.Error(), `"gone"`) {
		t.Errorf("got %v, want an error that names the context", err)
	}
}

// TestGatewayPortInUse: who asks for a target whose port is taken is told; a start that only restores it goes on, and serves it again
// when the port is free.
func TestGatewayPortInUse(t *testing.T) {
	state := t.TempDir()
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	port, free := other.Addr().(*net.TCPAddr).Port, freePort(t)

	g := gateways(t, state)
	serveTarget(t, g, "spam", free)
	_, err = g.Serve(t.Context(), "spam", embeddedAt(port))
	if !errors.Is(err, gateway.ErrPortInUse) || !strings.Contains(err.Error(), "spam") || !strings.Contains(err.Error(), fmt.Sprint(port)) {
		t.Errorf("got %v, want an error that names the target and the port", err)
	}
	if urls := urls(g); !lives(t, urls["spam"]) {
		t.Errorf("what was served is lost: %v", urls)
	}
	g.specs["words"] = embeddedAt(port) // as if it had been served here
	if err := g.save(); err != nil {
		t.Fatal(err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}

	second := gateways(t, state)
	if err := second.Restore(t.Context()); !errors.Is(err, gateway.ErrPortInUse) || !strings.Contains(err.Error(), "words") {
		t.Fatalf("got %v, want the port of words in use", err)
	}
	if urls := urls(second); len(urls) != 1 || !lives(t, urls["spam"]) {
		t.Errorf("restored %v, want spam alone", urls)
	}
	serveTarget(t, second, "spam", freePort(t)) // writes the file anew
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	other.Close()

	third := gateways(t, state)
	if err := third.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	if urls := urls(third); len(urls) != 2 || !lives(t, urls["words"]) {
		t.Errorf("restored %v, want words too", urls)
	}
}

// TestRolloutPortInUse: a taken port is nobody's passing trouble. The step fails at the first attempt and says which port.
func TestRolloutPortInUse(t *testing.T) {
	s := session(t)
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address, gate := other.Addr().String(), filepath.Join(t.TempDir(), "go")
	pipeline := project(t, `name: taken
params: {gate: {type: string}}
steps:
  make:
    run:
      script: 'until test -e "$GATE"; do sleep 0.05; done; cp model.onnx "$SLUICE_OUTPUT_DIR/model.onnx"'
      outputs: {model: {type: model, path: model.onnx}}
    env: {GATE: "${params.gate}"}
  ship:
    rollout: {target: shop, model: "${steps.make.model}", stages: [{weight: 100%}], ungated: true}
    retry: {attempts: 3}
`, map[string]string{
		"model.onnx":       "never loaded",
		"environment.yaml": fmt.Sprintf("sluice: environment/v1\nname: test\ntargets: {shop: {embedded: {port: %d}}}\n", other.Addr().(*net.TCPAddr).Port),
	})
	request := control.SubmitRequest{
		PipelineFile: pipeline, EnvFile: filepath.Join(filepath.Dir(pipeline), "environment.yaml"), Params: map[string]string{"gate": gate},
	}
	if _, err := s.Submit(t.Context(), request); fault.TypeOf(err) != fault.Invalid || !strings.Contains(err.Error(), "the target `shop` cannot listen on port") {
		t.Errorf("submitted while the port is taken: %v", err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	run := submit(t, s, request).Run
	if other, err = net.Listen("tcp", address); err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	out, record := wait(t, s, run)
	if out.Status != spec.StatusFailed || out.ErrorType != fault.Invalid {
		t.Errorf("the run ended as %+v, want invalid", out)
	}
	step := record.Steps[1]
	says := []string{"target shop", other.Addr().String(), "in use by another process", "another `port` for the target in the environment"}
	for _, want := range says {
		if !strings.Contains(step.Error, want) {
			t.Errorf("the step says %q, want %q in it", step.Error, want)
		}
	}
	if len(step.Attempts) != 1 {
		t.Errorf("%d attempts: %+v", len(step.Attempts), step.Attempts)
	}
}

// TestRolloutWithoutFiles: what somebody must create is nobody's passing trouble either. The step fails at the first attempt and says what to do.
func TestRolloutWithoutFiles(t *testing.T) {
	s := session(t)
	pipeline := project(t, `name: logged
steps:
  make: {run: {script: 'cp model.onnx "$SLUICE_OUTPUT_DIR/model.onnx"', outputs: {model: {type: model, path: model.onnx}}}}
  ship:
    rollout: {target: shop, model: "${steps.make.model}", stages: [{weight: 100%}], ungated: true}
    retry: {attempts: 3}
`, map[string]string{
		"model.onnx": "never loaded",
		"environment.yaml": fmt.Sprintf("sluice: environment/v1\nname: test\ntargets: {shop: {embedded: {port: %d}, gateway: {access_log: %s}}}\n",
			freePort(t), filepath.Join(t.TempDir(), "logs", "access.log")),
	})
	run := submit(t, s, control.SubmitRequest{PipelineFile: pipeline, EnvFile: filepath.Join(filepath.Dir(pipeline), "environment.yaml")}).Run
	out, record := wait(t, s, run)
	step := record.Steps[1]
	if out.Status != spec.StatusFailed || out.ErrorType != fault.Invalid || len(step.Attempts) != 1 {
		t.Errorf("the run ended as %+v after %d attempts, want invalid after one", out, len(step.Attempts))
	}
	for _, want := range []string{"target shop: access_log: open ", "no such file or directory\nhelp: create the folder"} {
		if !strings.Contains(step.Error, want) {
			t.Errorf("the step says %q, want %q in it", step.Error, want)
		}
	}
}

func TestRestoreOfAnEmptyFolder(t *testing.T) {
	g := gateways(t, t.TempDir())
	if err := g.Restore(t.Context()); err != nil || len(g.Addresses()) != 0 {
		t.Errorf("restored %v, %v", g.Addresses(), err)
	}
}

// TestGatewaysOfSeveralProcesses: a `sluice serve` of one target, or a rollout that comes first, does not make the folder forget the others.
func TestGatewaysOfSeveralProcesses(t *testing.T) {
	dir := t.TempDir()
	holder, one := gateways(t, dir), gateways(t, dir)
	want := map[string]string{"spam": serveTarget(t, holder, "spam", freePort(t)), "words": serveTarget(t, holder, "words", freePort(t))}
	if err := holder.Close(); err != nil {
		t.Fatal(err)
	}
	want["words"] = serveTarget(t, one, "words", freePort(t))
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	again := gateways(t, dir)
	if err := again.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, urls(again)); diff != "" {
		t.Errorf("served after a restart (-want +got):\n%s", diff)
	}
}

func TestGatewaysCannotRemember(t *testing.T) {
	g := gateways(t, filepath.Join(t.TempDir(), "gone"))
	if err := g.save(); err == nil || !strings.Contains(err.Error(), "targets.json") {
		t.Errorf("got %v, want an error that names %s", err, "targets.json")
	}
}

// The access log is a file, or the standard output of a process that serves and does nothing else.
func TestGatewayWithAnAccessLog(t *testing.T) {
	file := filepath.Join(t.TempDir(), "access.log")
	for _, tc := range []struct {
		name, log string
		alone     bool
		file, out int // lines
	}{
		{"a file", file, false, 1, 0},
		{"a file of `sluice serve`", file, true, 2, 0},
		{"standard output", "-", true, 2, 1},
		{"the standard output of a worker", "-", false, 2, 0},
	} {
		state, out := t.TempDir(), &bytes.Buffer{}
		g := NewGateways(openStore(t), state, slog.New(slog.DiscardHandler))
		if tc.alone {
			g = NewGatewaysAlone(openStore(t), state, slog.New(slog.DiscardHandler), out)
		}
		served := spec.Target{Embedded: &spec.EmbeddedTarget{Port: freePort(t)}, Gateway: spec.TargetGateway{AccessLog: tc.log}}
		at, err := g.Serve(t.Context(), "shop", spec.ServedTarget{Target: served})
		if err != nil {
			t.Fatal(err)
		}
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		res, err := client.Get(at.URL + "/v2")
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
		written, err := os.ReadFile(file)
		if err != nil || strings.Count(string(written), "\n") != tc.file || strings.Count(out.String(), `"path":"/v2"`) != tc.out {
			t.Errorf("%s: the file has %q, %v, and the output %q", tc.name, written, err, out)
		}
	}
	g := gateways(t, t.TempDir())
	served := spec.Target{Embedded: &spec.EmbeddedTarget{Port: freePort(t)}, Gateway: spec.TargetGateway{AccessLog: filepath.Join(file, "log")}}
	if _, err := g.Serve(t.Context(), "shop", spec.ServedTarget{Target: served}); fault.TypeOf(err) != fault.Invalid || !strings.Contains(err.Error(), "target shop: access_log: open ") {
		t.Errorf("a log that cannot be: %v", err)
	}
}

// A target that was served before is served again without its access log, as long as that cannot be opened.
func TestGatewayWithoutItsAccessLog(t *testing.T) {
	state, dir := t.TempDir(), filepath.Join(t.TempDir(), "logs")
	path := filepath.Join(dir, "access.log")
	mkdir := func() {
		t.Helper()
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	mkdir()
	served := spec.Target{Embedded: &spec.EmbeddedTarget{Port: freePort(t)}, Gateway: spec.TargetGateway{AccessLog: path}}
	g := gateways(t, state)
	if _, err := g.Serve(t.Context(), "shop", spec.ServedTarget{Target: served}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(g.Close(), os.RemoveAll(dir)); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	restored := NewGateways(openStore(t), state, slog.New(slog.NewTextHandler(&said, nil)))
	if err := restored.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	at := restored.Addresses()["shop"].URL
	if got := status(t, at+"/v2"); got != http.StatusOK {
		t.Errorf("without the log it answers %d", got)
	}
	mkdir()
	if got := status(t, at+"/v2"); got != http.StatusOK {
		t.Errorf("with the log it answers %d", got)
	}
	if err := restored.Close(); err != nil {
		t.Fatal(err)
	}
	if written, err := os.ReadFile(path); err != nil || !strings.Contains(string(written), `"path":"/v2"`) {
		t.Errorf("the log has %q, %v", written, err)
	}
	if !strings.Contains(said.String(), "level=WARN") || !strings.Contains(said.String(), path) {
		t.Errorf("the process's log has %q, want a warning", said.String())
	}
}

// A target with a front door is served as its environment says, and again after a restart, which has no environment. A worker's other
// gateways listen where --serve-listen says.
func TestGatewayWithADoor(t *testing.T) {
	const key = "the-key-of-the-web-shop"
	file := filepath.Join(t.TempDir(), "web")
	if err := os.WriteFile(file, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ca := doortest.NewCA(t)
	files := ca.Files(t, "shop.test")
	env := &spec.Environment{
		Secrets: map[string]spec.SecretSource{"web": {File: file}, "other": {Env: "OTHER"}},
		Targets: map[string]spec.Target{"shop": {
			Embedded: &spec.EmbeddedTarget{Port: freePort(t)},
			Gateway:  spec.TargetGateway{Listen: "0.0.0.0", TLS: &files, AdminPort: freePort(t), Keys: []spec.GatewayKey{{Secret: "web", Allow: []string{"infer"}}}},
		}},
	}
	asked := func(at, key string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at+"/v2", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: trust.File(files.Certificate)}}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return res.StatusCode
	}
	state := t.TempDir()
	g := gateways(t, state)
	at, err := g.Serve(t.Context(), "shop", env.Serve("shop"))
	if err != nil {
		t.Fatal(err)
	}
	own, err := gateway.EnsureLabelKey(state)
	if err != nil {
		t.Fatal(err)
	}
	check := func() {
		t.Helper()
		if got := [3]int{asked(at.URL, key), asked(at.URL, own), asked(at.URL, "x")}; got != [3]int{200, 200, 401} || !strings.HasPrefix(at.URL, "https://127.0.0.1:") {
			t.Errorf("%s answers %v", at.URL, got)
		}
	}
	check()
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	remembered, err := os.ReadFile(filepath.Join(state, "targets.json"))
	if err != nil || strings.Contains(string(remembered), key) || strings.Contains(string(remembered), "OTHER") || !strings.Contains(string(remembered), file) {
		t.Errorf("the state folder has %s, %v", remembered, err)
	}
	g = gateways(t, state)
	if err := g.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	check()
	bad := env.Serve("shop")
	bad.Secrets = map[string]spec.SecretSource{"web": {File: file + "2"}}
	bad.Embedded = &spec.EmbeddedTarget{Port: freePort(t)}
	if _, err := g.Serve(t.Context(), "shop", bad); err == nil || !strings.Contains(err.Error(), file+"2 does not exist") {
		t.Errorf("a key that is not there: %v", err)
	}
	check()
	g.host = "0.0.0.0"
	if _, err := g.Serve(t.Context(), "open", embeddedAt(freePort(t))); err != nil {
		t.Errorf("with --serve-listen: %v", err)
	}
	closed := embeddedAt(freePort(t))
	closed.Gateway.Listen = "0.0.0.0"
	if _, err := g.Serve(t.Context(), "closed", closed); err == nil || !strings.Contains(err.Error(), "open: true") {
		t.Errorf("a target that everybody could use: %v", err)
	}
}
