package gateway

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/serving/stats"
	"github.com/sluiceml/sluice/store"
)

// fleet is a target whose gateways are only their reports.
type fleet struct {
	*testing.T
	*Target
}

func newFleet(t *testing.T) fleet {
	t.Helper()
	s, err := store.Open(t.Context(), "mem://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return fleet{t, NewTarget(s, "m", "http://127.0.0.1:1", "")}
}

func (f fleet) report(epoch string, beat, read, serving int64, releases ...routing.ReportedRelease) {
	f.Helper()
	r := routing.Report{Snapshot: stats.Snapshot{Target: "m", Epoch: epoch, Beat: beat, Revision: serving}, Read: read, Releases: releases}
	if err := routing.PutReport(f.Context(), f.store, r); err != nil {
		f.Fatal(err)
	}
}

// beats reports every second until the end of the test.
func (f fleet) beats(epoch string, releases ...routing.ReportedRelease) {
	f.Helper()
	f.report(epoch, 1, 2, 1, releases...)
	go func() {
		for beat := int64(2); ; beat++ {
			select {
			case <-f.Context().Done():
				return
			case <-time.After(time.Second):
				f.report(epoch, beat, 2, 1, releases...)
			}
		}
	}()
}

// released writes revision 1, with two releases.
func (f fleet) released() routing.Document {
	f.Helper()
	doc := routing.Document{Target: "m", Versions: 2, Releases: []routing.Release{
		{Version: "1", Model: artifact.Ref{Type: artifact.Model, Digest: "d1"}, Weight: 1}, {Version: "2", Model: artifact.Ref{Type: artifact.Model, Digest: "d2"}},
	}}
	doc, err := routing.Set(f.Context(), f.store, 0, doc)
	if err != nil {
		f.Fatal(err)
	}
	return doc
}

// TestTrafficWaitsForEveryGateway: a change of traffic is done when those that live serve it, and not before the lease of one has run out
// that does not answer; one that has ended in order, or was silent long before, is not waited for.
func TestTrafficWaitsForEveryGateway(t *testing.T) {
	split := Split{Weights: map[string]float64{"1": 0.5, "2": 0.5}, Candidate: "2", Stable: "1"}
	for _, tc := range []struct {
		name           string
		frozen, closed bool
		silent         time.Duration // the frozen one
		acknowledge    time.Duration
		atLeast, below time.Duration
	}{
		{"all answer", false, false, 0, 700 * time.Millisecond, 700 * time.Millisecond, time.Second},
		{"one is frozen", true, false, 0, 700 * time.Millisecond, Lease, Lease + time.Second},
		{"one was closed", true, true, 0, 700 * time.Millisecond, 700 * time.Millisecond, time.Second},
		{"one died long ago", true, false, 2 * time.Minute, 700 * time.Millisecond, 700 * time.Millisecond, time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFleet(t)
			doc := f.released()
			synctest.Test(t, func(t *testing.T) {
				f := fleet{t, f.Target}
				if tc.frozen {
					r := routing.Report{Snapshot: stats.Snapshot{Target: "m", Epoch: "frozen", Beat: 1, Revision: 1, Closed: tc.closed}, Read: 1}
					if err := routing.PutReport(t.Context(), f.store, r); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(tc.silent)
				f.report("live", 1, 1, 1)
				began := time.Now()
				go func() {
					time.Sleep(tc.acknowledge)
					f.report("live", 2, 2, 2)
				}()
				if _, err := f.SetTraffic(t.Context(), doc.Revision, split); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took < tc.atLeast || took >= tc.below {
					t.Errorf("it took %v, want %v to %v", took, tc.atLeast, tc.below)
				}
			})
		})
	}
}

// TestLoadNeedsAGateway: a release is loaded when every gateway that lives has it, and there is one; one that died while it loaded is not
// waited for, and one that cannot load it fails it.
func TestLoadNeedsAGateway(t *testing.T) {
	candidate := routing.Release{Model: artifact.Ref{Type: artifact.Model, Digest: "d3"}, Run: "r", Step: "s"}
	ready, failed := routing.ReportedRelease{Version: "3", State: Ready}, routing.ReportedRelease{Version: "3", State: Failed, Error: "no such model"}
	loading := routing.ReportedRelease{Version: "3", State: Loading}
	for _, tc := range []struct {
		name    string
		reports func(f fleet)
		err     string
	}{
		{"nobody", func(fleet) {}, "unavailable"},
		{"ready", func(f fleet) { f.report("a", 1, 2, 1, ready); f.report("b", 1, 2, 1, ready) }, ""},
		{"one fails", func(f fleet) { f.report("a", 1, 2, 1, ready); f.report("b", 1, 2, 1, failed) }, "load"},
		{"one dies", func(f fleet) { f.beats("a", ready); f.report("b", 1, 2, 1, loading) }, ""},
		{"one is deaf", func(f fleet) { f.report("a", 1, 2, 1, ready); f.report("b", 1, 1, 1) }, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFleet(t)
			doc := f.released()
			synctest.Test(t, func(t *testing.T) {
				f := fleet{t, f.Target}
				tc.reports(f)
				waited := map[string]bool{}
				loaded, release, err := f.Load(t.Context(), doc.Revision, candidate, func(what string) { waited[what] = true })
				if alone := waited["a gateway of "+f.name+": none reports to this store"]; alone != (tc.err == "unavailable") {
					t.Errorf("it said that there is no gateway: %v; it waited for %v", alone, waited)
				}
				got := ""
				if _, ok := errors.AsType[*LoadError](err); ok {
					got = "load"
				} else if errors.Is(err, ErrUnavailable) {
					got = "unavailable"
				} else if err != nil {
					t.Fatal(err)
				}
				if got != tc.err {
					t.Errorf("Load = %v, want %q", err, tc.err)
				}
				if release.Version != "3" || loaded.Candidate != "3" || loaded.Stable != "1" {
					t.Errorf("release %s, candidate %s beside %s", release.Version, loaded.Candidate, loaded.Stable)
				}
			})
		})
	}
}
