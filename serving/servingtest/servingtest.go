// Package servingtest is the conformance suite that every driver of a serving target passes, with real models on whatever really
// serves them.
package servingtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/onnx/onnxtest"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/serving/stats"
	"github.com/sluiceml/sluice/store"
)

// Name is the target's name in the suite.
const Name = "spam-filter"

// Run runs the suite. open makes a target called Name on a store.
func Run(t *testing.T, open func(t *testing.T, s *store.Store) Harness) {
	for name, test := range map[string]func(*suite){
		"Empty":                    (*suite).empty,
		"LoadAndServe":             (*suite).loadAndServe,
		"LoadIsIdempotent":         (*suite).loadIsIdempotent,
		"LateChangesChangeNothing": (*suite).lateChanges,
		"DroppedIsUnloaded":        (*suite).droppedIsUnloaded,
		"BrokenModel":              (*suite).brokenModel,
		"OtherInterface":           (*suite).otherInterface,
		"SplitIsCounted":           (*suite).splitIsCounted,
		"ShadowIsCompared":         (*suite).shadowIsCompared,
		"RestartServesTheDocument": (*suite).restart,
		"UnknownVersion":           (*suite).unknownVersion,
	} {
		t.Run(name, func(t *testing.T) {
			s := NewStore(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			test(&suite{T: t, ctx: ctx, store: s, client: client, Harness: open(t, s)})
		})
	}
}

type suite struct {
	*testing.T
	Harness
	ctx    context.Context
	store  *store.Store
	client *http.Client
}

// artifact stores a model as an artifact.
func (s *suite) artifact(model string) artifact.Ref {
	s.Helper()
	ref, err := s.store.PutTree(s.ctx, artifact.Model, onnxtest.Folder(s.T, model), nil, nil)
	if err != nil {
		s.Fatal(err)
	}
	return ref
}

// load loads a model as a release of its own run.
func (s *suite) load(expected int64, model string) (routing.Document, string) {
	s.Helper()
	doc, release, err := s.Target.Load(s.ctx, expected, routing.Release{Model: s.artifact(model), Run: "run-" + model, Step: "ship"}, nil)
	if err != nil {
		s.Fatal(err)
	}
	return doc, release.Version
}

func (s *suite) setTraffic(expected int64, split gateway.Split) routing.Document {
	s.Helper()
	doc, err := s.Target.SetTraffic(s.ctx, expected, split)
	if err != nil {
		s.Fatal(err)
	}
	return doc
}

// serve loads the model Text and gives it all traffic.
func (s *suite) serve() (routing.Document, string) {
	s.Helper()
	doc, version := s.load(0, onnxtest.Text)
	return s.setTraffic(doc.Revision, gateway.Split{Weights: map[string]float64{version: 1}}), version
}

// ask sends one request and returns the release that answered and the probability of class 1.
func (s *suite) ask(text string, label any) (release string, spam float32) {
	s.Helper()
	body, err := json.Marshal(oip.InferRequest{
		Parameters: map[string]any{"label": label},
		Inputs:     []oip.Tensor{{Name: "text", Shape: []int64{1}, Data: []string{text}}},
	})
	if err != nil {
		s.Fatal(err)
	}
	req, err := http.NewRequestWithContext(s.ctx, http.MethodPost, s.Target.URL()+"/v2/models/"+Name+"/infer", bytes.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.client.Do(req)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var answer oip.InferResponse
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || resp.StatusCode != http.StatusOK {
		s.Fatalf("%s: %v", resp.Status, err)
	}
	return resp.Header.Get(gateway.ReleaseHeader), answer.Outputs[0].Data.([]float32)[1]
}

// counted waits until so many requests of a revision have been reported, and returns what came of them.
func (s *suite) counted(revision, requests int64) map[string]stats.Counts {
	s.Helper()
	var sums map[string]stats.Counts
	s.until(func() bool {
		sums = map[string]stats.Counts{}
		var n int64
		for _, snapshot := range s.snapshots() {
			for version, c := range snapshot.At(revision).Versions {
				sums[version] = sums[version].Plus(c)
				n += c.Requests
			}
		}
		return n >= requests
	})
	return sums
}

func (s *suite) snapshots() []stats.Snapshot {
	s.Helper()
	snapshots, err := s.Target.Stats(s.ctx)
	if err != nil {
		s.Fatal(err)
	}
	return snapshots
}

func (s *suite) empty() {
	doc, err := s.Target.Current(s.ctx)
	if err != nil {
		s.Fatal(err)
	}
	if diff := cmp.Diff(routing.Document{Target: Name}, doc); diff != "" {
		s.Errorf("(-want +got):\n%s", diff)
	}
}

func (s *suite) loadAndServe() {
	doc, version := s.load(0, onnxtest.Text)
	if _, serves := doc.Serving(); serves || version != "1" {
		s.Errorf("after Load version %q serves: %v", version, serves)
	}
	doc = s.setTraffic(doc.Revision, gateway.Split{Weights: map[string]float64{version: 1}})
	if release, spam := s.ask("spam", true); release != "1" || spam != 0.9 {
		s.Errorf("release %q answers %v", release, spam)
	}
	current, err := s.Target.Current(s.ctx)
	if err != nil {
		s.Fatal(err)
	}
	if diff := cmp.Diff(doc, current); diff != "" {
		s.Errorf("SetTraffic returned another document than Current (-returned +current):\n%s", diff)
	}
	if serves, _ := current.Serving(); serves.Version != "1" || serves.Run != "run-"+onnxtest.Text {
		s.Errorf("serving %+v", serves)
	}
}

func (s *suite) loadIsIdempotent() {
	doc, version := s.load(0, onnxtest.Text)
	again, sameVersion := s.load(0, onnxtest.Text) // as a retried activity would, with the revision it first saw
	if diff := cmp.Diff(doc, again); diff != "" || version != sameVersion {
		s.Errorf("version %s then %s (-first +second):\n%s", version, sameVersion, diff)
	}
	_, _, err := s.Target.Load(s.ctx, 0, routing.Release{Model: s.artifact(onnxtest.TextClose), Run: "another", Step: "ship"}, nil)
	if !errors.Is(err, routing.ErrConflict) {
		s.Errorf("Load for a revision that has passed: %v, want ErrConflict", err)
	}
}

func (s *suite) lateChanges() {
	doc, one := s.serve()
	doc, two := s.load(doc.Revision, onnxtest.TextClose)
	before := doc.Revision
	half := gateway.Split{Weights: map[string]float64{one: 0.5, two: 0.5}}
	first := s.setTraffic(before, half)
	repeated := s.setTraffic(before, half)
	if diff := cmp.Diff(first, repeated); diff != "" {
		s.Errorf("a repeated change was made again (-first +second):\n%s", diff)
	}
	back := s.setTraffic(first.Revision, gateway.Split{Weights: map[string]float64{one: 1}})
	if _, err := s.Target.SetTraffic(s.ctx, before, half); !errors.Is(err, routing.ErrConflict) {
		s.Errorf("a late change: %v, want ErrConflict", err)
	}
	current, err := s.Target.Current(s.ctx)
	if err != nil {
		s.Fatal(err)
	}
	if diff := cmp.Diff(back, current); diff != "" {
		s.Errorf("a late change changed something (-want +got):\n%s", diff)
	}
	for range 20 {
		if release, _ := s.ask("spam", true); release != one {
			s.Fatalf("release %s answers, want %s", release, one)
		}
	}
}

// loaded waits until nothing runs but what serves these releases.
func (s *suite) loaded(want ...string) {
	s.Helper()
	if s.Loaded == nil {
		return
	}
	s.until(func() bool { return slices.Equal(slices.Sorted(slices.Values(s.Loaded())), want) })
}

func (s *suite) droppedIsUnloaded() {
	doc, one := s.serve()
	doc, two := s.load(doc.Revision, onnxtest.TextClose)
	s.loaded(one, two)
	doc = s.setTraffic(doc.Revision, gateway.Split{Weights: map[string]float64{two: 1}})
	s.loaded(two)
	if release, _ := s.ask("spam", true); release != two {
		s.Errorf("release %s answers, want %s", release, two)
	}
	s.setTraffic(doc.Revision, gateway.Split{})
	s.loaded()
}

func (s *suite) brokenModel() {
	doc, one := s.serve()
	broken, err := s.store.PutTree(s.ctx, artifact.Model, s.T.TempDir(), map[string]string{"broken": "yes"}, nil)
	if err != nil {
		s.Fatal(err)
	}
	s.mustFailToLoad(doc, broken)
	if release, spam := s.ask("spam", true); release != one || spam != 0.9 {
		s.Errorf("release %q answers %v", release, spam)
	}
	s.setTraffic(doc.Revision+1, gateway.Split{Weights: map[string]float64{one: 1}})
	s.loaded(one)
}

func (s *suite) otherInterface() {
	doc, one := s.serve()
	s.mustFailToLoad(doc, s.artifact(onnxtest.MLP))
	if release, _ := s.ask("spam", true); release != one {
		s.Errorf("release %q answers", release)
	}
}

func (s *suite) mustFailToLoad(doc routing.Document, model artifact.Ref) {
	s.Helper()
	_, _, err := s.Target.Load(s.ctx, doc.Revision, routing.Release{Model: model, Run: "bad", Step: "ship"}, nil)
	if load, ok := errors.AsType[*gateway.LoadError](err); !ok || load.Version != "2" || load.Reason == "" {
		s.Errorf("Load = %v, want a LoadError of version 2", err)
	}
}

func (s *suite) splitIsCounted() {
	doc, one := s.serve()
	doc, two := s.load(doc.Revision, onnxtest.TextWrong)
	doc = s.setTraffic(doc.Revision, gateway.Split{Weights: map[string]float64{one: 0.75, two: 0.25}})
	const requests = 400
	sent := map[string]int64{}
	for i := range requests {
		text := []string{"spam", "ham"}[i%2]
		release, _ := s.ask(text, text == "spam")
		sent[release]++
	}
	if sent[two] < 50 || sent[two] > 150 { // 6 standard deviations
		s.Errorf("%d of %d requests went to a release with a share of 25%%", sent[two], requests)
	}
	counts := s.counted(doc.Revision, requests)
	for version, wrong := range map[string]int64{one: 0, two: sent[two]} {
		c := counts[version]
		if c.Requests != sent[version] || c.Wrong != wrong || c.Failures != 0 || c.Latency.Count() != c.Requests {
			s.Errorf("version %s: %d requests, %d wrong, %d failures, %d latencies; %d were sent, %d answered wrong",
				version, c.Requests, c.Wrong, c.Failures, c.Latency.Count(), sent[version], wrong)
		}
	}
}

func (s *suite) shadowIsCompared() {
	doc, one := s.serve()
	doc, two := s.load(doc.Revision, onnxtest.TextWrong)
	doc = s.setTraffic(doc.Revision, gateway.Split{
		Weights: map[string]float64{one: 1},
		Shadow:  &routing.Shadow{Version: two, Share: 1},
	})
	const requests = 50
	for range requests {
		if release, spam := s.ask("spam", true); release != one || spam != 0.9 {
			s.Fatalf("release %q answers %v", release, spam)
		}
	}
	var shadow stats.Shadow
	s.until(func() bool {
		for _, snapshot := range s.snapshots() {
			if seen := snapshot.At(doc.Revision).Shadow; seen != nil {
				shadow = *seen
			}
		}
		return shadow.Mirrored+shadow.Dropped == requests
	})
	if shadow.Version != two || shadow.Agree != 0 || shadow.CandidateOnly != shadow.Mirrored || shadow.MaxAbs < 0.79 || shadow.MaxAbs > 0.81 {
		s.Errorf("shadow %+v", shadow)
	}
}

func (s *suite) restart() {
	doc, one := s.serve()
	s.ask("spam", true)
	s.Restart(s.T)
	if again := s.setTraffic(doc.Revision-1, gateway.Split{Weights: map[string]float64{one: 1}}); again.Revision != doc.Revision {
		s.Errorf("revision %d, want %d", again.Revision, doc.Revision)
	}
	if release, spam := s.ask("spam", true); release != one || spam != 0.9 {
		s.Errorf("release %q answers %v", release, spam)
	}
	if c := s.counted(doc.Revision, 2)[one]; c.Requests != 2 {
		s.Errorf("%d requests, want the one before the restart and the one after it", c.Requests)
	}
	closed := 0
	for _, snapshot := range s.snapshots() {
		if snapshot.Closed {
			closed++
		}
	}
	if n := len(s.snapshots()); n != 2 || closed != 1 {
		s.Errorf("%d lives of the gateway, %d of them closed; want 2 and 1", n, closed)
	}
}

func (s *suite) unknownVersion() {
	doc, _ := s.serve()
	if _, err := s.Target.SetTraffic(s.ctx, doc.Revision, gateway.Split{Weights: map[string]float64{"7": 1}}); err == nil {
		s.Error("traffic was given to a version that is not there")
	}
}

// until waits for a condition that nothing announces.
func (s *suite) until(holds func() bool) {
	s.Helper()
	for range poll.Every(s.ctx, 5*time.Millisecond) {
		if holds() {
			return
		}
	}
	s.Fatal("not in time")
}
