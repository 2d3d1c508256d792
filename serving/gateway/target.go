package gateway

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/serving/stats"
	"github.com/sluiceml/sluice/serving/trust"
	"github.com/sluiceml/sluice/store"
)

const (
	watchEvery = 100 * time.Millisecond
	// silenceMax is how long there may be no gateway at all before the target is called unavailable.
	silenceMax = 20 * time.Second
	// goneAfter is after how long without a beat a gateway is not waited for that has read a change: it would beat every second.
	goneAfter   = 3 * Lease
	pokeTimeout = time.Second
)

// Target is what gateways serve, wherever they and its releases run: it writes the routing document and reads in the store what they
// report of themselves, so that it works from any process that reaches the store.
//
// Every change names the routing revision it is made for and fails with routing.ErrConflict when that has passed, so a change that
// arrives late changes nothing; but a change that was made already is not made again, and succeeds. All methods may be called
// concurrently and by many processes.
type Target struct {
	store *store.Store
	name  string
	url   string // of the model
	at    string // of the Control of a gateway on this machine; empty for none
	// Front is the front door of its gateways.
	Front spec.TargetGateway
	// Known is the front that Load records if the document has none to keep; nil if it is not known here.
	Known *spec.Front
}

// client is that of all targets, which come and go with each question.
var client = &http.Client{Transport: &http.Transport{}, Timeout: pokeTimeout}

// NewTarget returns the target of a name that this machine reaches at url (http://127.0.0.1:8080). control is where a gateway of this
// machine is controlled, which then looks for changes at once; empty for none.
func NewTarget(s *store.Store, name, url, control string) *Target {
	return &Target{store: s, name: name, url: url, at: control}
}

// URL is where the target speaks the Open Inference Protocol.
func (t *Target) URL() string { return t.url }

// TLS is how to reach URL where that is a gateway of this machine with a certificate for its clients' name; else nil, for the usual way.
func (t *Target) TLS() *tls.Config {
	if t.at == "" || t.Front.TLS == nil {
		return nil
	}
	return trust.File(t.Front.TLS.Certificate)
}

// Current returns the routing document; its revision is 0 if nothing was ever released.
func (t *Target) Current(ctx context.Context) (routing.Document, error) {
	return routing.Current(ctx, t.store, t.name)
}

// Load adds a release without traffic, under the next version, as the candidate of a rollout, and returns when it is ready for traffic at
// every gateway that is alive. It does not disturb what serves. A LoadError means that the release will never be ready, and ErrUnavailable
// that there is no gateway. The same run, step and model are the same release.
func (t *Target) Load(ctx context.Context, expected int64, r routing.Release, waiting func(string)) (routing.Document, routing.Release, error) {
	doc, err := t.Current(ctx)
	if err != nil {
		return routing.Document{}, routing.Release{}, err
	}
	i := slices.IndexFunc(doc.Releases, func(have routing.Release) bool {
		return have.Run == r.Run && have.Step == r.Step && have.Model.Digest == r.Model.Digest
	})
	if i < 0 {
		doc.Versions++
		r.Version, r.Weight = strconv.FormatInt(doc.Versions, 10), 0
		if t.Known != nil && (doc.Front == nil || !doc.Protected()) {
			doc.Front = t.Known
		}
		stable, _ := doc.Serving()
		doc.Releases, doc.Candidate, doc.Stable = append(doc.Releases, r), r.Version, stable.Version
		doc.Sticky = nil // of an earlier rollout that was not ended in order
		doc.By, doc.Reason = r.Run+"/"+r.Step, ""
		if doc, err = routing.Set(ctx, t.store, expected, doc); err != nil {
			return routing.Document{}, routing.Release{}, err
		}
	} else {
		r = doc.Releases[i]
	}
	one := func(gateway routing.Report) (bool, error) {
		for _, status := range gateway.Releases {
			switch {
			case status.Version != r.Version || gateway.Read < doc.Revision:
			case status.State == Failed:
				return false, &LoadError{Target: t.name, Version: r.Version, Reason: status.Error}
			case status.State == Ready:
				return true, nil
			case status.Waiting != "" && waiting != nil:
				waiting(status.Waiting)
			}
		}
		return false, nil
	}
	_, err = t.watch(ctx, doc.Revision, one, func() {
		if waiting != nil {
			waiting("a gateway of " + t.name + ": none reports to this store")
		}
	})
	return doc, r, err
}

// SetTraffic changes the split of the traffic and returns when the change is in effect: see Await.
func (t *Target) SetTraffic(ctx context.Context, expected int64, split Split) (routing.Document, error) {
	doc, err := t.Current(ctx)
	if err != nil {
		return routing.Document{}, err
	}
	wanted, err := apply(doc, split)
	switch {
	case doc.Revision == expected && err == nil:
		doc, err = routing.Set(ctx, t.store, expected, wanted)
	case doc.Revision != expected && (err != nil || !made(doc, wanted, expected)):
		err = fmt.Errorf("%w: target %s is at revision %d, not %d", routing.ErrConflict, t.name, doc.Revision, expected)
	}
	if err != nil {
		return routing.Document{}, err
	}
	_, err = t.Await(ctx, doc)
	return doc, err
}

// Await returns once the traffic flows as a document says that was written: when each gateway has said that it serves the revision, or its
// lease on an earlier one has run out. It returns how many gateways serve it. A LoadError says that one of them cannot, and serves what it
// did before.
func (t *Target) Await(ctx context.Context, doc routing.Document) (serving int, err error) {
	return t.watch(ctx, doc.Revision, func(gateway routing.Report) (bool, error) {
		if gateway.Read > doc.Revision {
			return false, fmt.Errorf("%w: target %s is past revision %d", routing.ErrConflict, t.name, doc.Revision)
		}
		for _, status := range gateway.Releases {
			if status.State == Failed && status.Weight > 0 && gateway.Read == doc.Revision {
				return false, &LoadError{Target: t.name, Version: status.Version, Reason: status.Error}
			}
		}
		return gateway.Revision == doc.Revision, nil
	}, nil)
}

// apply returns the document with the releases and shares of a split.
func apply(doc routing.Document, split Split) (routing.Document, error) {
	keep := maps.Clone(split.Weights)
	if split.Shadow != nil {
		if keep == nil {
			keep = map[string]float64{}
		}
		keep[split.Shadow.Version] += 0
	}
	var releases []routing.Release
	for _, r := range doc.Releases {
		weight, ok := keep[r.Version]
		if !ok {
			continue
		}
		delete(keep, r.Version)
		r.Weight = weight
		releases = append(releases, r)
	}
	for _, version := range slices.Sorted(maps.Keys(keep)) {
		return routing.Document{}, fmt.Errorf("target %s has no release %s", doc.Target, version)
	}
	doc.Sticky = stick(doc, split)
	doc.Releases, doc.Shadow, doc.Candidate, doc.Stable = releases, split.Shadow, split.Candidate, split.Stable
	doc.By, doc.Reason = split.By, split.Reason
	return doc, nil
}

// made reports whether the document already is what a change of the expected revision would have written.
func made(doc, wanted routing.Document, expected int64) bool {
	return doc.Revision == expected+1 && reflect.DeepEqual(doc.Releases, wanted.Releases) && reflect.DeepEqual(doc.Shadow, wanted.Shadow) &&
		doc.Candidate == wanted.Candidate && doc.Stable == wanted.Stable
}

// Stats returns the counts that every gateway reported last.
func (t *Target) Stats(ctx context.Context) ([]stats.Snapshot, error) {
	reports, err := routing.ListReports(ctx, t.store, t.name)
	snapshots := make([]stats.Snapshot, len(reports))
	for i, r := range reports {
		snapshots[i] = r.Snapshot
	}
	return snapshots, err
}

// watch reads what the gateways report until one that has read the revision, or whose lease on an earlier one may not have run out yet, is
// no longer unsettled, and returns how many have settled. With alone, at least one must have, and it is called while there is none. One that was
// silent long before the revision is not waited for.
func (t *Target) watch(ctx context.Context, revision int64, settled func(routing.Report) (bool, error), alone func()) (int, error) {
	began := time.Now()
	beats := map[string]beat{}
	t.poke(ctx)
	written, err := routing.WrittenAt(ctx, t.store, t.name, revision)
	if err != nil {
		return 0, err
	}
	for now := range poll.Every(ctx, watchEvery) {
		reports, err := routing.ListReportsAt(ctx, t.store, t.name, written)
		if err != nil {
			return 0, err
		}
		ready, pending := 0, 0
		for _, r := range reports {
			last, known := beats[r.Epoch]
			if !known || last.count != r.Beat {
				last = beat{r.Beat, now}
				beats[r.Epoch] = last
			}
			if r.Closed || r.Read >= revision && now.Sub(last.at) > goneAfter || r.Read < revision && now.Sub(began) > Lease {
				continue
			}
			switch isSettled, err := settled(r); {
			case err != nil:
				return 0, err
			case isSettled:
				ready++
			default:
				pending++
			}
		}
		switch {
		case pending == 0 && (ready > 0 || alone == nil && now.Sub(began) > Lease):
			return ready, nil
		case ready+pending == 0 && now.Sub(began) > silenceMax:
			return 0, fmt.Errorf("target %s: %w: no gateway serves it; start `sluice up`, `sluice serve %s -e ENVIRONMENT`, or a worker that is not stateless", t.name, ErrUnavailable, t.name)
		case ready+pending == 0 && alone != nil:
			alone()
		}
	}
	return 0, context.Cause(ctx)
}

// beat is the newest of a gateway that was seen, and when it was seen first, by the clock of who saw it.
type beat struct {
	count int64
	at    time.Time
}

// poke has the gateway of this machine look for the change at once; it would look by itself.
func (t *Target) poke(ctx context.Context) {
	if t.at == "" {
		return
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.at+controlPath(t.name)+"/reload", nil)
	if err != nil {
		return
	}
	if resp, err := client.Do(req); err == nil {
		_ = resp.Body.Close() // it says nothing
	}
}
