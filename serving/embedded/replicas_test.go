package embedded

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/internal/testing/proctest"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/onnx/onnxtest"
	"github.com/sluiceml/sluice/serving/rollout"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/serving/servingtest"
	"github.com/sluiceml/sluice/store"
)

// replicaVariable makes the test program a gateway of the store that it names.
const replicaVariable = "SLUICE_TEST_REPLICA"

// replicaMain serves until its input ends, and says where.
func replicaMain(storeURL string) int {
	err := func() error {
		s, err := store.Open(context.Background(), storeURL)
		if err != nil {
			return err
		}
		dir, err := os.MkdirTemp("", "replica-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		server, err := Serve(context.Background(), s, servingtest.Name, spec.EmbeddedTarget{}, gateway.Ports{}, filepath.Join(dir, "models"), filepath.Join(dir, "trials"), "", slog.New(slog.NewTextHandler(os.Stderr, nil)))
		if err != nil {
			return err
		}
		fmt.Println(server.URL())
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		return server.Close(context.Background())
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// client asks one replica all the time and remembers who answered.
type client struct {
	url     string
	mu      sync.Mutex
	answers map[string]int
	last    map[string]time.Time
	failed  int
}

func (c *client) ask(ctx context.Context, web *http.Client) {
	const body = `{"inputs":[{"name":"text","datatype":"BYTES","shape":[1],"data":["spam"]}]}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/v2/models/"+servingtest.Name+"/infer", bytes.NewBufferString(body))
	if err != nil {
		return
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := web.Do(req)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.failed++
		return
	}
	_ = resp.Body.Close()
	by := resp.Header.Get(gateway.ReleaseHeader)
	c.answers[by]++
	c.last[by] = time.Now()
}

func (c *client) run(ctx context.Context) {
	web := &http.Client{Transport: &http.Transport{}, Timeout: 2 * time.Second}
	defer web.CloseIdleConnections()
	for range poll.Every(ctx, 5*time.Millisecond) {
		c.ask(ctx, web)
	}
}

// seen returns how many answers a version gave, and when it gave the last.
func (c *client) seen(version string) (int, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answers[version], c.last[version]
}

// TestThreeReplicas: three processes serve a target, one is killed and one frozen during a rollout. The roll back is in effect at the one
// that lives within a second, is done when the lease of the frozen one has run out, and that one serves only the stable release when it
// wakes up. What was counted is counted once.
func TestThreeReplicas(t *testing.T) {
	s := servingtest.NewStore(t)
	processes := make([]*proctest.Process, 3)
	clients := make([]*client, 3)
	for i := range processes {
		processes[i] = proctest.Spawn(t, replicaVariable, s.URL())
		clients[i] = &client{url: strings.TrimSpace(processes[i].Says()), answers: map[string]int{}, last: map[string]time.Time{}}
	}
	target := gateway.NewTarget(s, servingtest.Name, clients[0].url, "")
	doc := routing.Document{Target: servingtest.Name}
	for i, model := range []string{onnxtest.Text, onnxtest.TextClose} {
		ref, err := s.PutTree(t.Context(), artifact.Model, onnxtest.Folder(t, model), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		var release routing.Release
		if doc, release, err = target.Load(t.Context(), doc.Revision, routing.Release{Model: ref, Run: model, Step: "ship"}, nil); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			doc = traffic(t, target, doc, gateway.Split{Weights: map[string]float64{release.Version: 1}})
		}
	}
	doc = traffic(t, target, doc, gateway.Split{Weights: map[string]float64{"1": 0.5, "2": 0.5}, Candidate: "2", Stable: "1"})

	ctx, stopAsking := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	defer asking.Wait()
	defer stopAsking()
	for _, c := range clients {
		asking.Go(func() { c.run(ctx) })
	}
	stage := rollout.Stage{
		Spec: spec.Stage{Weight: 0.5, MinSamples: 1 << 40, MaxWait: spec.Duration(time.Hour)}, Of: 1, Candidate: "2", Stable: "1", Revision: doc.Revision,
	}
	var state rollout.State
	look := func() (look spec.Look) {
		now, err := target.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		state, look, _ = rollout.EvaluateStage(stage, state, now, nil)
		return look
	}
	servingtest.Until(t, "all three have reported answers of both", func() bool {
		look()
		n := 0
		for _, life := range state.Epochs {
			for _, tally := range life.Tallies {
				if tally.Counts.Candidate.Requests > 20 && tally.Counts.Stable.Requests > 20 {
					n++
				}
			}
		}
		return n == 3
	})

	processes[2].Kill()
	if err := syscall.Kill(processes[1].PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	traffic(t, target, doc, gateway.Split{Weights: map[string]float64{"1": 1, "2": 0}})
	done := time.Now()
	_, last := clients[0].seen("2")
	t.Logf("rolled back at the live replica after %v, done after %v", last.Sub(began), done.Sub(began))
	if took := last.Sub(began); took >= time.Second+slack {
		t.Errorf("the candidate answered for %v after the roll back", took)
	}
	if took := done.Sub(began); took < gateway.Lease || took >= gateway.Lease+time.Second+slack {
		t.Errorf("the roll back was done after %v, want the length of the lease, and less than a second more", took)
	}

	frozen := clients[1]
	stable, _ := frozen.seen("1")
	before, _ := frozen.seen("2")
	if err := syscall.Kill(processes[1].PID(), syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	servingtest.Until(t, "the frozen one answers again", func() bool { n, _ := frozen.seen("1"); return n > stable+100 })
	if after, _ := frozen.seen("2"); after > before+1 { // one may have been in flight
		t.Errorf("the frozen replica gave %d answers of the candidate when it woke up", after-before)
	}
	stopAsking()
	asking.Wait()
	var answers int64
	for _, c := range clients {
		n, _ := c.seen("2")
		answers += int64(n)
	}
	servingtest.Until(t, "the frozen one has reported", func() bool {
		return look().Candidate.Requests >= int64(clients[0].answers["2"]+clients[1].answers["2"])
	})
	if counted := look().Candidate.Requests; counted > answers+3 { // what was in flight at each may have been counted and not received
		t.Errorf("%d answers of the candidate were counted; %d were given", counted, answers)
	}
	processes[0].Tell("end\n")
	processes[1].Tell("end\n")
}

// slack is what a busy machine may take longer.
const slack = 2 * time.Second

func traffic(t *testing.T, target *gateway.Target, doc routing.Document, split gateway.Split) routing.Document {
	t.Helper()
	doc, err := target.SetTraffic(t.Context(), doc.Revision, split)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}
