package agent

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/client"

	"github.com/sluiceml/sluice/internal/telemetry"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/protocol"
)

// signals is a client that takes signals and does nothing else.
type signals struct {
	client.Client
	taken chan signalTaken
}

type signalTaken struct {
	Workflow, Name string
	Arg            any
}

func (s signals) SignalWorkflow(_ context.Context, workflow, _, name string, arg any) error {
	s.taken <- signalTaken{workflow, name, arg}
	return nil
}

// instance plays the metadata service of an instance, version 2: without the token of the session that is open it answers 401.
type instance struct {
	mu      sync.Mutex
	action  string // what is told of the interruption
	advice  string // what is recommended
	session int
	asked   chan struct{} // takes one when there was no action to tell
}

func (i *instance) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	token := fmt.Sprintf("session-%d", i.session)
	switch {
	case r.Method == http.MethodPut && r.URL.Path == "/latest/api/token" && r.Header.Get("X-aws-ec2-metadata-token-ttl-seconds") != "":
		w.Header().Set("X-aws-ec2-metadata-token-ttl-seconds", "300")
		_, _ = io.WriteString(w, token)
	case r.Header.Get("X-aws-ec2-metadata-token") != token:
		w.WriteHeader(http.StatusUnauthorized)
	case r.URL.Path == "/latest/meta-data/spot/instance-action" && i.action != "":
		_, _ = io.WriteString(w, i.action)
	case r.URL.Path == "/latest/meta-data/events/recommendations/rebalance" && i.advice != "":
		_, _ = io.WriteString(w, i.advice)
	default:
		w.WriteHeader(http.StatusNotFound)
		select {
		case i.asked <- struct{}{}:
		default:
		}
	}
}

// interrupt gives the instance its notice, in a new session.
func (i *instance) interrupt(until time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.session++
	i.action = fmt.Sprintf(`{"action": "terminate", "time": %q}`, until.UTC().Format(time.RFC3339))
}

// What EC2's metadata service tells reaches the train workflow, though it has forgotten the session.
func TestNoticeOfTheMetadataService(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	service := &instance{asked: make(chan struct{}, 1)}
	server := httptest.NewServer(service)
	defer server.Close()
	taken := make(chan signalTaken, 1)
	n := &node{
		config: protocol.AgentConfig{Dir: t.TempDir()}, log: slog.New(slog.DiscardHandler), client: signals{taken: taken},
		prepared: &prepared{key: training.Key{Run: "r1", Step: "fit", Generation: 3}, index: 1, workflow: "train/r1/fit"},
	}
	var tasks sync.WaitGroup
	defer tasks.Wait()
	tasks.Go(func() { n.hearSpot(ctx, server.URL, time.Millisecond) })
	tasks.Go(func() { n.hearNotice(ctx) })
	select {
	case <-service.asked:
	case <-ctx.Done():
		t.Fatal("the service was not asked")
	}
	until := time.Now().Add(2 * time.Minute).UTC().Truncate(time.Second)
	service.interrupt(until)
	for generation := 3; generation <= 4; generation++ { // the next one on this node has to know, too
		want := signalTaken{"train/r1/fit", protocol.NoticeSignal, protocol.Notice{Generation: generation, Node: 1, Until: until}}
		select {
		case got := <-taken:
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the workflow was told (-want +got):\n%s", diff)
			}
		case <-ctx.Done():
			t.Fatal("the workflow was told nothing")
		}
		n.mu.Lock()
		n.prepared = &prepared{key: training.Key{Run: "r1", Step: "fit", Generation: generation + 1}, index: 1, workflow: "train/r1/fit"}
		n.mu.Unlock()
	}
	cancel()
	tasks.Wait()
	if extra := len(taken); extra > 0 {
		t.Errorf("a generation was told again, or one that was not prepared, %d times", extra)
	}
}

// A recommendation is told to people, and does not end what runs, nor keep the notice that comes later from being heard.
func TestRebalance(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	service := &instance{asked: make(chan struct{}, 1), advice: `{"noticeTime": "2026-10-05T08:22:00Z"}`}
	server := httptest.NewServer(service)
	defer server.Close()
	taken := make(chan signalTaken, 1)
	var logged strings.Builder
	n := &node{
		config: protocol.AgentConfig{Dir: t.TempDir()}, log: slog.New(slog.NewTextHandler(&logged, nil)), client: signals{taken: taken},
		prepared: &prepared{key: training.Key{Run: "r1", Step: "fit", Generation: 3}, workflow: "train/r1/fit"},
	}
	for range 2 {
		if err := n.hearRebalance(ctx, metadataService(server.URL)); err != nil {
			t.Fatal(err)
		}
	}
	want := time.Date(2026, 10, 5, 8, 22, 0, 0, time.UTC)
	if n.rebalance != want || strings.Count(logged.String(), "recommends to rebalance") != 1 {
		t.Errorf("the node knows %v, and has logged %q, want %v and one line", n.rebalance, logged.String(), want)
	}
	if samples := n.samples(); !slices.ContainsFunc(samples, func(s telemetry.Sample) bool {
		return s.Metric.Name == telemetry.NodeRebalance.Name && s.Value == float64(want.Unix())
	}) {
		t.Errorf("the node's metrics are %+v", samples)
	}
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer cancel()
	tasks.Go(func() { n.hearSpot(ctx, server.URL, time.Millisecond) })
	tasks.Go(func() { n.hearNotice(ctx) })
	<-service.asked // for the notice, of which there is none
	select {
	case got := <-taken:
		t.Errorf("the workflow was told %+v of a recommendation", got)
	default:
	}
	service.interrupt(time.Now().Add(2 * time.Minute))
	select {
	case <-taken:
	case <-ctx.Done():
		t.Error("the workflow was not told of the notice")
	}
}

// A node may take minutes to be prepared: that its notice cannot be passed on yet is logged once, and again only when the reason changes.
func TestNoticeBeforePrepared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged strings.Builder
		n := &node{config: protocol.AgentConfig{Dir: t.TempDir()}, log: slog.New(slog.NewTextHandler(&logged, nil))}
		file := filepath.Join(n.config.Dir, protocol.NoticeFile)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go n.hearNotice(ctx)
		synctest.Wait() // until it has seen that there is no notice
		for _, content := range []string{`{"until": "2026-10-05T08:22:00Z"}`, `{"until"`} {
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		lines := strings.Split(strings.TrimSpace(logged.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], "the node has not been prepared") || !strings.Contains(lines[1], "could not be read") {
			t.Errorf("it has logged %d lines in two minutes, want two, one for each reason; the first is %s", len(lines), lines[0])
		}
	})
}

func TestInterruptionThatCannotBeRead(t *testing.T) {
	server := httptest.NewServer(&instance{action: "<html>"})
	defer server.Close()
	if notice, err := interruption(t.Context(), metadataService(server.URL)); notice != nil || err == nil {
		t.Errorf("got %v, %v, want an error", notice, err)
	}
}

func TestNoMetadataService(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	if notice, err := interruption(t.Context(), metadataService(server.URL)); notice != nil || err == nil {
		t.Errorf("got %v, %v, want an error", notice, err)
	}
}
