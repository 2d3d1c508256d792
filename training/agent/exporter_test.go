package agent

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/gpu"
	"github.com/sluiceml/sluice/training/protocol"
)

// An agent answers Prometheus with what it knows of its node; another on the same port goes on without, and says so.
func TestExport(t *testing.T) {
	var said strings.Builder
	log := slog.New(slog.NewTextHandler(&said, nil))
	n := &node{config: protocol.AgentConfig{MetricsListen: "127.0.0.1:0"}, log: log}
	end := n.export(t.Context())
	defer end()
	_, address, _ := strings.Cut(said.String(), "at=")
	address = strings.TrimSpace(address)
	wantLines(t, page(t, address), "sluice_node_ranks 0", `sluice_node_commits_total{outcome="failed"} 0`)

	half := 0.5
	n.ranks = &ranks{
		key: training.Key{Generation: 1}, node: n, p: &prepared{}, launch: launch{ranks: 4}, done: make(chan struct{}),
		metrics: &follower{now: metricsState{Step: 40, Rate: 2}, stepAt: time.Now()},
		gpus:    &gpuWatch{readings: []gpu.Reading{{UUID: "GPU-a", Index: 1, Utilization: &half}}},
	}
	n.ranks.commits = &committer{ranks: n.ranks}
	n.ranks.commits.reached.Store(30)
	n.ranks.commits.count("committed", 1000, time.Now())
	n.noteSources(1, store.Sources{Linked: -1, Cached: -20, Fetched: -300})
	until := time.Unix(1_900_000_000, 0)
	if _, err := n.passOn(t.Context(), protocol.NodeNotice{Until: until}, 0); err == nil {
		t.Error("a notice is passed on of a node that has not been prepared")
	}
	wantLines(t, page(t, address),
		"sluice_node_ranks 4", "sluice_node_step 40", "sluice_node_steps_per_second 2", "sluice_node_committed_step 30",
		`sluice_node_commits_total{outcome="committed"} 1`, "sluice_node_commit_bytes_total 1000",
		`sluice_node_input_bytes_total{source="generation"} 1`, `sluice_node_input_bytes_total{source="cache"} 20`, `sluice_node_input_bytes_total{source="store"} 300`,
		"sluice_node_notice_timestamp_seconds 1.9e+09",
		`sluice_node_gpu_utilization_ratio{gpu="1",uuid="GPU-a"} 0.5`,
	)
	n.ranks.ended = protocol.RanksEnded{}
	close(n.ranks.done)
	if text := page(t, address); strings.Contains(text, "sluice_node_step ") || strings.Contains(text, "sluice_node_gpu") {
		t.Errorf("of ranks that have ended there is\n%s", text)
	}

	said.Reset()
	other := &node{config: protocol.AgentConfig{MetricsListen: address}, log: log}
	other.export(t.Context())()
	if !strings.Contains(said.String(), "no metrics of this node") {
		t.Errorf("the second on %s says %q", address, said.String())
	}
	said.Reset()
	(&node{log: log}).export(t.Context())()
	if said.Len() > 0 {
		t.Errorf("one that is told no address says %q", said.String())
	}
}

// page is what Prometheus reads.
func page(t *testing.T, address string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func wantLines(t *testing.T, page string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(page, "\n"+line+"\n") {
			t.Errorf("there is no %s in\n%s", line, page)
		}
	}
}
