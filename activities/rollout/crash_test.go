package rollout

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/activities/engine"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// mortal is the store as a process sees it that dies before its write number at, counted from 0: from then on it does nothing any more.
type mortal struct {
	store.Driver
	at     int64
	writes atomic.Int64
	dead   atomic.Bool
}

var errDead = errors.New("the process is dead")

func (m *mortal) err() error {
	if m.dead.Load() {
		return errDead
	}
	return nil
}

func (m *mortal) Read(ctx context.Context, key string) (io.ReadCloser, error) {
	if err := m.err(); err != nil {
		return nil, err
	}
	return m.Driver.Read(ctx, key)
}

func (m *mortal) Write(ctx context.Context, key string, r io.Reader, opts store.WriteOptions) error {
	if m.writes.Add(1) > m.at {
		m.dead.Store(true)
	}
	if err := m.err(); err != nil {
		return err
	}
	return m.Driver.Write(ctx, key, r, opts)
}

func (m *mortal) Stat(ctx context.Context, key string) (store.Info, error) {
	if err := m.err(); err != nil {
		return store.Info{}, err
	}
	return m.Driver.Stat(ctx, key)
}

func (m *mortal) List(ctx context.Context, prefix string) iter.Seq2[store.Info, error] {
	if err := m.err(); err != nil {
		return func(yield func(store.Info, error) bool) { yield(store.Info{}, err) }
	}
	return m.Driver.List(ctx, prefix)
}

// ballast is a model that is loaded.
type ballast struct {
	gateway.Upstream
	loaded *atomic.Int64
}

func (m ballast) Inputs() []oip.TensorMetadata  { return nil }
func (m ballast) Outputs() []oip.TensorMetadata { return nil }
func (m ballast) Close() error                  { m.loaded.Add(-1); return nil }

// site is a target with two gateways, which serves release 1, and a rollout to it.
type site struct {
	*testing.T
	store    *store.Store
	step     record.StepInput
	gateways [2]*gateway.Gateway
	cables   [2]*mortal
	loaded   [2]atomic.Int64
	opened   contract.RolloutOpened
	revision int64
}

func newSite(t *testing.T) *site {
	t.Helper()
	s, err := store.Open(t.Context(), "mem://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	first := artifact.Ref{Type: artifact.Model, Digest: "sha256:first"}
	doc := routing.Document{Target: "local", Versions: 1, Releases: []routing.Release{{Version: "1", Model: first, Run: "r1", Step: "ship", Weight: 1}}}
	if _, err := routing.Set(t.Context(), s, 0, doc); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(spec.Rollout{Target: "local", Model: artifact.Ref{Type: artifact.Model, Digest: "sha256:second"}})
	if err != nil {
		t.Fatal(err)
	}
	const pipeline = "sluice: pipeline/v1\nname: p\nsteps: {a: {run: {script: 'true'}}}\n"
	said, err := json.Marshal(record.Submission{File: "p.yaml", Pipeline: []byte(pipeline)})
	if err != nil {
		t.Fatal(err)
	}
	submission, _, err := s.PutBlob(t.Context(), bytes.NewReader(said))
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range []string{"r2", "r3"} {
		if err := s.PutJSON(t.Context(), record.RunKey(run), record.RunRecord{Run: run, Pipeline: "p", Submission: submission}, store.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	w := &site{T: t, store: s, step: record.StepInput{Run: "r2", Step: "ship", Kind: spec.KindRollout, Spec: raw, Submission: submission}}
	for i := range w.gateways {
		w.serve(i)
	}
	w.settled("the first release is served", 1)
	return w
}

// serve starts a gateway, in place of one that was killed.
func (w *site) serve(i int) {
	w.cables[i] = &mortal{Driver: w.store.Driver(), at: 1 << 40}
	w.loaded[i].Store(0)
	w.gateways[i] = gateway.New(gateway.Options{
		Store: store.New(w.cables[i], w.store.URL()), Target: "local", Logger: slog.New(slog.DiscardHandler),
		Open: func(context.Context, routing.Release, func(string)) (gateway.Upstream, error) {
			w.loaded[i].Add(1)
			return ballast{loaded: &w.loaded[i]}, nil
		},
	})
}

// kill ends a gateway without a word.
func (w *site) kill(i int) {
	w.cables[i].dead.Store(true)
	_ = w.gateways[i].Close() // its last word is not heard
}

// worker returns the activities as a worker has them that dies before one of its writes.
func (w *site) worker(diesAt int64) *Rollouts {
	s := store.New(&mortal{Driver: w.store.Driver(), at: diesAt}, w.store.URL())
	return &Rollouts{Store: s, Engine: engine.NewEngine(s), Target: func(_ context.Context, name string, _ spec.ServedTarget) (*gateway.Target, error) {
		return gateway.NewTarget(s, name, "http://127.0.0.1:1", ""), nil
	}}
}

// lives is a worker's that lives on.
const lives = 1 << 40

// settled waits until both gateways have as many models loaded.
func (w *site) settled(what string, models int64) {
	w.Helper()
	for range 600 {
		synctest.Wait()
		if w.loaded[0].Load() == models && w.loaded[1].Load() == models {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	w.Fatalf("%s: %d and %d models are loaded, want %d", what, w.loaded[0].Load(), w.loaded[1].Load(), models)
}

// transitions are what a rollout does, in order.
var transitions = []struct {
	name string
	do   func(w *site, r *Rollouts) error
}{
	{"load", func(w *site, r *Rollouts) error {
		opened, err := r.Open(w.Context(), w.step)
		if err == nil {
			w.opened, w.revision = opened, opened.Revision
		}
		return err
	}},
	{"shadow", func(w *site, r *Rollouts) error { return w.traffic(r, 0, 1) }},
	{"first stage", func(w *site, r *Rollouts) error { return w.traffic(r, 0.5, 0) }},
	{"last stage", func(w *site, r *Rollouts) error { return w.traffic(r, 1, 0) }},
	{"promote", func(w *site, r *Rollouts) error { return w.end(r, true) }},
}

func (w *site) traffic(r *Rollouts, weight, shadow spec.Share) error {
	in := contract.RolloutTraffic{Step: w.step, Version: w.opened.Version, Revision: w.revision, Weight: weight, Shadow: shadow}
	set, err := r.Traffic(w.Context(), in)
	if err == nil {
		w.revision = set.Revision
	}
	return err
}

func (w *site) end(r *Rollouts, promote bool) error {
	_, err := r.Settle(w.Context(), contract.RolloutSettle{Step: w.step, Opened: w.opened, Promote: promote, Reason: "test"})
	return err
}

// wants checks the releases of the document with their weights, that no rollout is left in it, what the gateways have loaded, and how the
// rollout is said to have ended.
func (w *site) wants(releases map[string]float64, decision string) {
	w.Helper()
	w.settled("in the end", int64(len(releases)))
	doc, err := routing.Current(w.Context(), w.store, "local")
	if err != nil {
		w.Fatal(err)
	}
	got := map[string]float64{}
	for _, r := range doc.Releases {
		got[r.Version] = r.Weight
	}
	if diff := cmp.Diff(releases, got); diff != "" || doc.Candidate != "" || doc.Stable != "" || doc.Shadow != nil {
		w.Errorf("the document: %+v (-want +got):\n%s", doc, diff)
	}
	past, err := routing.Releases(w.Context(), w.store, "local")
	if err != nil {
		w.Fatal(err)
	}
	for _, p := range past {
		if p.Run == "r2" && p.End.Decision != decision {
			w.Errorf("release %s ended as %q, want %q", p.Version, p.End.Decision, decision)
		}
	}
}

// inSite runs a test on a site of its own, by a clock that nobody waits for.
func inSite(t *testing.T, name string, test func(w *site)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newSite(t)
			defer func() {
				for i := range w.gateways {
					_ = w.gateways[i].Close() // which one may have been killed
				}
			}()
			test(w)
		})
	})
}

// do makes transitions on workers that live.
func (w *site) do(from, to int) {
	w.Helper()
	for _, next := range transitions[from:to] {
		if err := next.do(w, w.worker(lives)); err != nil {
			w.Fatalf("%s: %v", next.name, err)
		}
	}
}

// TestWorkerDiesInRollout: at each transition a worker dies before and after each of its writes. Another one that does the same again goes on
// to the same end; one that takes the rollout back instead leaves what was there before, and nothing else loaded.
func TestWorkerDiesInRollout(t *testing.T) {
	for i, crashed := range transitions {
		for writes := int64(0); writes <= 2; writes++ {
			dies := func(w *site) {
				w.do(0, i)
				opened, revision := w.opened, w.revision
				if err := crashed.do(w, w.worker(writes)); err == nil && writes == 0 {
					w.Error("it wrote nothing")
				}
				w.opened, w.revision = opened, revision // nobody has heard of it
			}
			name := fmt.Sprintf("%s after %d writes", crashed.name, writes)
			inSite(t, name+", done again", func(w *site) {
				dies(w)
				w.do(i, len(transitions))
				w.wants(map[string]float64{"1": 0, "2": 1}, routing.Promoted)
			})
			inSite(t, name+", taken back", func(w *site) {
				dies(w)
				if err := w.end(w.worker(lives), false); err != nil {
					w.Fatal(err)
				}
				decision := routing.RolledBack
				if i == 0 && writes == 0 {
					decision = "" // there is no such release
				}
				w.wants(map[string]float64{"1": 1}, decision)
			})
			inSite(t, name+", taken back by two workers", func(w *site) {
				w.do(0, i+1)
				if err := w.end(w.worker(writes), false); err == nil && writes == 0 {
					w.Error("it wrote nothing")
				}
				if err := w.end(w.worker(lives), false); err != nil {
					w.Fatal(err)
				}
				w.wants(map[string]float64{"1": 1}, routing.RolledBack)
			})
		}
	}
}

// TestGatewayDiesInRollout: at each transition a gateway dies, without a word, and another one starts in its place a while later. The
// transition is made, and both serve the same in the end.
func TestGatewayDiesInRollout(t *testing.T) {
	for i, crashed := range transitions {
		for _, promote := range []bool{true, false} {
			inSite(t, fmt.Sprintf("%s, promote: %v", crashed.name, promote), func(w *site) {
				w.do(0, i)
				w.kill(1)
				began := time.Now()
				w.do(i, i+1)
				if took := time.Since(began); took > gateway.Lease+time.Second {
					w.Errorf("the transition took %v, more than the lease", took)
				}
				w.serve(1)
				if promote {
					w.do(i+1, len(transitions))
					w.wants(map[string]float64{"1": 0, "2": 1}, routing.Promoted)
					return
				}
				if err := w.end(w.worker(lives), false); err != nil {
					w.Fatal(err)
				}
				w.wants(map[string]float64{"1": 1}, routing.RolledBack)
			})
		}
	}
}

// TestWayBackWithoutAListener: a worker that cannot serve the target, because another process has its port, takes the traffic back all the same.
func TestWayBackWithoutAListener(t *testing.T) {
	inSite(t, "", func(w *site) {
		w.do(0, 3)
		deaf := w.worker(lives)
		deaf.Target = func(context.Context, string, spec.ServedTarget) (*gateway.Target, error) {
			return nil, gateway.ErrPortInUse
		}
		if err := w.end(deaf, true); !errors.Is(err, gateway.ErrPortInUse) {
			w.Errorf("a promotion: %v", err)
		}
		if err := w.end(deaf, false); err != nil {
			w.Fatal(err)
		}
		w.wants(map[string]float64{"1": 1}, routing.RolledBack)
	})
}

// TestSecondRolloutIsRefused: a rollout that finds the candidate of another one in the document changes nothing, also when it is taken back.
func TestSecondRolloutIsRefused(t *testing.T) {
	inSite(t, "", func(w *site) {
		w.do(0, 3)
		before, err := routing.Current(w.Context(), w.store, "local")
		if err != nil {
			w.Fatal(err)
		}
		second := w.step
		second.Run = "r3"
		_, err = w.worker(lives).Open(w.Context(), second)
		const want = "target local: the rollout of release 2 by r2/ship has not ended\nhelp: wait for it, or end it with `sluice rollout abort local`"
		if fault.TypeOf(err) != fault.Invalid || err.Error() != want {
			w.Errorf("got %v, want %s", err, want)
		}
		if _, err := w.worker(lives).Settle(w.Context(), contract.RolloutSettle{Step: second}); err != nil {
			w.Error(err)
		}
		after, err := routing.Current(w.Context(), w.store, "local")
		if diff := cmp.Diff(before, after); err != nil || diff != "" {
			w.Errorf("%v (-want +got):\n%s", err, diff)
		}
		w.do(3, len(transitions))
		w.wants(map[string]float64{"1": 0, "2": 1}, routing.Promoted)
	})
}

// TestTakenBackModel: a model that a person has taken back is released again where a person asks for it, and not by what a trigger starts.
func TestTakenBackModel(t *testing.T) {
	inSite(t, "", func(w *site) {
		w.do(0, len(transitions))
		doc, err := routing.Current(w.Context(), w.store, "local")
		if err != nil {
			w.Fatal(err)
		}
		first, _ := doc.Release("1")
		if _, err := routing.RollBack(w.Context(), w.store, doc, first, "user:ann", "customers complain"); err != nil {
			w.Fatal(err)
		}
		night := spec.TriggerFacts{Name: "nightly", Kind: "schedule"}
		for _, tc := range []struct {
			run     string
			trigger spec.TriggerFacts
			model   string
			want    string
		}{
			{"night", night, "second", "as release 2 (customers complain)\nhelp: a run that a trigger starts does not release it again; `sluice rerun night` does"},
			{"night.child", spec.TriggerFacts{}, "second", "`sluice rerun night` does"},
			{"to.night", night, "second", "`sluice rerun to.night` does"},
			{"to.night.child", spec.TriggerFacts{}, "second", "`sluice rerun to.night` does"},
			{"night", night, "third", ""},
			{"byhand", spec.TriggerFacts{}, "second", ""},
		} {
			rec := record.RunRecord{Run: tc.run, Trigger: tc.trigger, Pipeline: "p", Submission: w.step.Submission}
			if err := w.store.PutJSON(w.Context(), record.RunKey(tc.run), rec, store.WriteOptions{}); err != nil {
				w.Fatal(err)
			}
			raw, err := json.Marshal(spec.Rollout{Target: "local", Model: artifact.Ref{Type: artifact.Model, Digest: "sha256:" + tc.model}})
			if err != nil {
				w.Fatal(err)
			}
			in := w.step
			in.Run, in.Spec = tc.run, raw
			opened, err := w.worker(lives).Open(w.Context(), in)
			switch {
			case tc.want != "" && (fault.TypeOf(err) != fault.Gate || !strings.HasSuffix(err.Error(), tc.want) ||
				!strings.HasPrefix(err.Error(), "not released: user:ann took this model back from target local on 2000-01-01 ")):
				w.Errorf("%s, %s: %v, want %s", tc.run, tc.model, err, tc.want)
			case tc.want == "" && err != nil:
				w.Errorf("%s, %s: %v", tc.run, tc.model, err)
			}
			if _, err := w.worker(lives).Settle(w.Context(), contract.RolloutSettle{Step: in, Opened: opened}); err != nil {
				w.Fatal(err)
			}
		}
	})
}

// TestRowsThatCannotBeRead: rows to warm up with that are no rows end a rollout before anything is loaded, as the user's fault; a store
// that does not have them is none.
func TestRowsThatCannotBeRead(t *testing.T) {
	inSite(t, "rows", func(w *site) {
		dir := w.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "train"), 0o700); err != nil {
			w.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "train", "0.jsonl"), []byte("{]"), 0o600); err != nil {
			w.Fatal(err)
		}
		bad, err := w.store.PutTree(w.Context(), artifact.Dataset, dir, nil, nil)
		if err != nil {
			w.Fatal(err)
		}
		gone := artifact.Ref{Type: artifact.Dataset, Digest: "sha256:" + strings.Repeat("0", 64)}
		for _, tc := range []struct {
			rolled spec.Rollout
			user   bool
			want   string
		}{
			{spec.Rollout{WarmUp: &spec.WarmUp{Dataset: bad, Split: "train"}}, true, "warm_up: train/0.jsonl:1: invalid character"},
			{spec.Rollout{WarmUp: &spec.WarmUp{Dataset: bad, Split: "test"}}, true, `warm_up: the dataset has no split "test"; it has: train`},
			{spec.Rollout{Traffic: spec.Traffic{Replay: bad, Split: "test"}}, true, `traffic: the dataset has no split "test"; it has: train`},
			{spec.Rollout{WarmUp: &spec.WarmUp{Dataset: gone, Split: "test"}}, false, "warm_up: dataset " + gone.Digest},
		} {
			tc.rolled.Target, tc.rolled.Model = "local", artifact.Ref{Type: artifact.Model, Digest: "sha256:second"}
			raw, err := json.Marshal(tc.rolled)
			if err != nil {
				w.Fatal(err)
			}
			w.step.Spec = raw
			_, err = w.worker(lives).Open(w.Context(), w.step)
			if err == nil || (fault.TypeOf(err) == fault.User) != tc.user || !strings.HasPrefix(err.Error(), tc.want) {
				w.Errorf("got %v, want %s", err, tc.want)
			}
		}
		if doc, err := routing.Current(w.Context(), w.store, "local"); err != nil || doc.Revision != 1 {
			w.Errorf("the document is at revision %d, %v, want 1", doc.Revision, err)
		}
	})
}
