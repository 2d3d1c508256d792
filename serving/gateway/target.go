package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/serving/stats"
	"github.com/sluiceml/sluice/store"
)

const (
	watchEvery  = 50 * time.Millisecond
	silenceMax  = 20 * time.Second // without any answer, before the gateway is called unavailable
	callTimeout = 5 * time.Second
	maxAnswer   = 16 << 20
)

// Target is what a gateway serves, wherever its releases run: it writes the routing document and watches the gateway over HTTP, so that
// it works from any process of the machine.
//
// Every change names the routing revision it is made for and fails with routing.ErrConflict when that has passed, so a change that
// arrives late changes nothing; but a change that was made already is not made again, and succeeds. All methods may be called
// concurrently and by many processes. Those that wait for the gateway end with ctx, or with ErrUnavailable when it does not answer for
// some seconds.
type Target struct {
	store *store.Store
	name  string
	url   string // of the model
	at    string // of the gateway's Control
}

// client is that of all targets, which come and go with each question.
var client = &http.Client{Transport: &http.Transport{}, Timeout: callTimeout}

// NewTarget returns the target of a name whose gateway listens at url (http://127.0.0.1:8080) and is controlled at another address.
func NewTarget(s *store.Store, name, url, control string) *Target {
	return &Target{store: s, name: name, url: url, at: control}
}

// URL is where the target speaks the Open Inference Protocol.
func (t *Target) URL() string { return t.url }

// Current returns the routing document; revision 0 when nothing was ever released.
func (t *Target) Current(ctx context.Context) (routing.Document, error) {
	return routing.Current(ctx, t.store, t.name)
}

// Load adds a release without traffic, under the next version, and returns when it is ready to get some: a LoadError says that it
// never will be; what serves is not disturbed. The same run, step and model are the same release, which is returned as it is.
// r's version and weight are ignored. While it takes long, waiting is told for what; it may be nil.
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
		doc.Releases = append(doc.Releases, r)
		if doc, err = routing.Set(ctx, t.store, expected, doc); err != nil {
			return routing.Document{}, routing.Release{}, err
		}
	} else {
		r = doc.Releases[i]
	}
	err = t.watch(ctx, func(s State) (bool, error) {
		for _, status := range s.Releases {
			switch {
			case status.Version != r.Version || s.Revision < doc.Revision:
			case status.State == Failed:
				return false, &LoadError{Target: t.name, Version: r.Version, Reason: status.Error}
			case status.State == Ready:
				return true, nil
			case status.Waiting != "" && waiting != nil:
				waiting(status.Waiting)
			}
		}
		return false, nil
	})
	return doc, r, err
}

// SetTraffic splits the traffic anew and returns once it flows so.
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
	err = t.watch(ctx, func(s State) (bool, error) {
		if s.Revision > doc.Revision {
			return false, fmt.Errorf("%w: target %s is past revision %d", routing.ErrConflict, t.name, doc.Revision)
		}
		for _, status := range s.Releases {
			if status.State == Failed && status.Weight > 0 && s.Revision == doc.Revision {
				return false, &LoadError{Target: t.name, Version: status.Version, Reason: status.Error}
			}
		}
		return s.Serving == doc.Revision, nil
	})
	return doc, err
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
	doc.Releases, doc.Shadow = releases, split.Shadow
	return doc, nil
}

// made reports whether the document already is what a change of the expected revision would have written.
func made(doc, wanted routing.Document, expected int64) bool {
	return doc.Revision == expected+1 && reflect.DeepEqual(doc.Releases, wanted.Releases) && reflect.DeepEqual(doc.Shadow, wanted.Shadow)
}

// Stats returns what the gateway has counted.
func (t *Target) Stats(ctx context.Context) (stats.Snapshot, error) {
	var s stats.Snapshot
	err := t.call(ctx, http.MethodGet, "/stats", &s)
	return s, err
}

// watch pokes the gateway and asks for its state until done says so or fails.
func (t *Target) watch(ctx context.Context, done func(State) (bool, error)) error {
	heard := time.Now()
	_ = t.call(ctx, http.MethodPost, "/reload", nil) // if this fails, so does the next call, or the gateway looks by itself
	var err error
	for range poll.Every(ctx, watchEvery) {
		var state State
		if err = t.call(ctx, http.MethodGet, "", &state); err == nil {
			heard = time.Now()
			if ok, err := done(state); ok || err != nil {
				return err
			}
		} else if time.Since(heard) > silenceMax {
			return err
		}
	}
	return errors.Join(context.Cause(ctx), err)
}

// call asks the gateway's control interface.
func (t *Target) call(ctx context.Context, method, path string, answer any) error {
	req, err := http.NewRequestWithContext(ctx, method, t.at+controlPath(t.name)+path, nil)
	if err != nil {
		return fmt.Errorf("target %s: %w", t.name, err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("target %s: %w: %w; it is part of `sluice up`, `sluice serve` and every `sluice run`", t.name, ErrUnavailable, err)
	}
	defer func() { _ = resp.Body.Close() }() // only read from
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch {
	case err != nil:
		return fmt.Errorf("target %s: %w: %w", t.name, ErrUnavailable, err)
	case resp.StatusCode/100 != 2:
		return fmt.Errorf("target %s: %w: %s answers %s; is another program listening there?", t.name, ErrUnavailable, t.at, resp.Status)
	case answer == nil:
		return nil
	}
	if err := json.Unmarshal(body, answer); err != nil {
		return fmt.Errorf("target %s: %w: the response of %s is not from a gateway: %w", t.name, ErrUnavailable, t.at, err)
	}
	return nil
}
