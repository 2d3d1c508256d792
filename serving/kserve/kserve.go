// Package kserve is the serving target on a Kubernetes cluster that runs KServe: each release is an InferenceService of its own, in
// KServe's Standard mode, and a gateway in this process splits the traffic between them and counts the answers. KServe's own canaries
// are not used: the statistics need to see every answer, and a shadow's too.
//
// The routing document is the truth, as for every target. The gateway makes the InferenceServices that it names, whoever has removed
// them, and removes those that it no longer does; nothing else in the namespace is touched.
package kserve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/kserve/predictor"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/serving/upstream"
	"github.com/sluiceml/sluice/store"
)

const (
	// patience is how long trouble that may pass, such as an image that cannot be pulled, must last before a release fails by it.
	patience = 45 * time.Second
	// readyWithin is how long a release may take to be ready: machines may have to be started and images of gigabytes be pulled.
	readyWithin = 15 * time.Minute
	lookEvery   = 2 * time.Second
	// reconnect is how long requests use the same connections: a pod that was added gets requests by new ones only.
	reconnect = 30 * time.Second
)

// Serve starts the gateway of a target. The cluster is asked for nothing yet.
// gateway.ErrPortInUse when a port is taken.
func Serve(
	ctx context.Context, s *store.Store, target string, spec spec.KServeTarget, ports gateway.Ports, labelKey string, log *slog.Logger,
) (*gateway.Server, error) {
	config, namespace, inside, err := configOf(spec)
	if err != nil {
		return nil, fmt.Errorf("target %s: %w", target, err)
	}
	t, err := newReleases(s, target, spec, config, namespace)
	if err != nil {
		return nil, fmt.Errorf("target %s: %w", target, err)
	}
	t.inside, t.labelKey = inside, labelKey
	return t.serve(ctx, ports, log)
}

// releases makes and removes the InferenceServices of one target.
type releases struct {
	cluster   *cluster
	models    *models
	store     *store.Store
	target    string
	spec      spec.KServeTarget
	predictor predictor.Predictor
	inside    bool // this process is a pod of the cluster

	labelKey string // gateway.Options.LabelKey

	lease                                       time.Duration // of the other gateways
	patience, readyWithin, lookEvery, reconnect time.Duration
}

func newReleases(s *store.Store, target string, spec spec.KServeTarget, config *rest.Config, namespace string) (*releases, error) {
	models, err := newModels(s, spec)
	if err != nil {
		return nil, err
	}
	own, err := predictor.Parse(spec.Predictor)
	if err != nil {
		return nil, fmt.Errorf("`predictor` of the target: %w", err)
	}
	c, err := newCluster(config, namespace)
	if err != nil {
		return nil, err
	}
	return &releases{
		cluster: c, models: models, store: s, target: target, spec: spec, predictor: own,
		lease: gateway.Lease, patience: patience, readyWithin: readyWithin, lookEvery: lookEvery, reconnect: reconnect,
	}, nil
}

func (t *releases) serve(ctx context.Context, ports gateway.Ports, log *slog.Logger) (*gateway.Server, error) {
	return gateway.Serve(ctx, ports, gateway.Options{Store: t.store, Target: t.target, Open: t.open, Sweep: t.sweep, LabelKey: t.labelKey, Logger: log})
}

// open is a gateway.Opener: it makes the InferenceService of a release, if there is none, and waits until its model answers.
func (t *releases) open(ctx context.Context, r routing.Release, waiting func(string)) (gateway.Upstream, error) {
	w := &wait{releases: t, release: r, name: serviceName(t.target, r.Version), began: time.Now()}
	for range poll.Every(ctx, t.lookEvery) {
		model, err := w.look(ctx)
		if err == nil {
			return model, nil
		}
		var soon *notYet
		if !errors.As(err, &soon) || ctx.Err() != nil {
			return nil, err
		}
		waiting(soon.Error())
	}
	return nil, context.Cause(ctx)
}

// notYet is a reason to look again.
type notYet struct{ what string }

// Error implements error.
func (e *notYet) Error() string { return e.what }

// wait is one wait for a release.
type wait struct {
	*releases
	release routing.Release
	name    string
	began   time.Time
	made    bool   // the InferenceService is of this wait
	trouble string // what stands in the way since troubled
	since   time.Time
}

// look returns the model when it answers, notYet when it may later, and another error when it will not.
func (w *wait) look(ctx context.Context) (*upstream.Model, error) {
	service, err := w.ensure(ctx)
	if err == nil {
		err = w.readStatus(ctx, service)
	}
	if err == nil {
		at := upstream.ModelOptions{URL: service.url(w.inside), Model: w.name, Reconnect: w.reconnect}
		if w.spec.Ingress != "" {
			at.URL, at.Host = w.spec.Ingress, service.host()
		}
		var model *upstream.Model
		asking, done := context.WithTimeout(ctx, callTimeout)
		model, err = upstream.OpenModel(asking, at)
		done()
		if err == nil {
			return model, nil
		}
		if errors.Is(err, upstream.ErrNotReady) || errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			err = &notYet{fmt.Sprintf("InferenceService %s is ready, but %s cannot be reached from here: %v; set `ingress` of the target to "+
				"the address of the ingress", w.name, at.URL, err)}
		}
	}
	if soon, ok := errors.AsType[*notYet](err); ok && time.Since(w.began) > w.readyWithin {
		return nil, fmt.Errorf("it is not ready after %v: %s", w.readyWithin, soon.what)
	}
	return nil, err
}

// ensure returns the InferenceService, made if it is not there.
func (w *wait) ensure(ctx context.Context) (*service, error) {
	owner, err := w.store.Identity(ctx)
	if err != nil {
		return nil, err
	}
	found, err := w.cluster.get(ctx, w.name)
	if err != nil {
		return nil, err
	}
	if found == nil {
		model, err := w.models.plan(ctx, owner, w.target, w.name, w.release)
		if err != nil {
			return nil, err
		}
		// What the cluster refuses must leave no copy of the model.
		if _, err := w.cluster.create(ctx, w.object(owner, model), metav1.DryRunAll); err != nil {
			return nil, err
		}
		if err := w.models.publish(ctx, model); err != nil {
			return nil, err
		}
		if found, err = w.cluster.create(ctx, w.object(owner, model)); err != nil {
			return nil, err
		}
		w.made = true
	}
	switch {
	case found.labels[labelStore] != owner || found.annotations[annotationModel] != w.release.Model.Digest:
		return nil, fmt.Errorf("namespace %s has an InferenceService %s that is not this release: another Sluice, with another store, "+
			"seems to have a target %s there; use another namespace or name for one of them", w.cluster.namespace, w.name, w.target)
	case found.deleted:
		return nil, &notYet{fmt.Sprintf("InferenceService %s is being deleted", w.name)}
	}
	return found, nil
}

// readStatus reads from the InferenceService and its pods how far it is. KServe calls it ready with its first pod: a new release waits for
// those that it is to have at least, or it would be compared with one that has more. One that serves already waits for none.
func (w *wait) readStatus(ctx context.Context, s *service) error {
	ready := s.ready(w.inside || w.spec.Ingress != "")
	if ready && (!w.made || w.predictor.Replicas() <= 1) {
		return nil
	}
	why, passing := "", fmt.Sprintf("InferenceService %s is not ready: ", w.name)
	if !ready {
		if why := s.hopeless(); why != "" {
			return errors.New(why)
		}
		why, passing = s.trouble(), passing+s.waitsFor()
	}
	if why == "" {
		pods, err := w.cluster.pods(ctx, w.name)
		switch {
		case err != nil:
			return err
		case ready && (pods.hidden || pods.ready >= w.predictor.Replicas()):
			return nil
		case ready:
			passing += fmt.Sprintf("%d of the %d pods of `minReplicas` are", pods.ready, w.predictor.Replicas())
		}
		why, passing = pods.bad, cmp.Or(pods.pending, passing)
	}
	if (why == "") != (w.trouble == "") {
		w.since = time.Now()
	}
	w.trouble = why
	switch {
	case why == "":
		return &notYet{passing}
	case time.Since(w.since) < w.patience:
		return &notYet{why}
	}
	return errors.New(why)
}

// sweep is a gateway's Sweep: it removes the InferenceServices and models of versions that were dropped, once no other gateway sends them
// requests. A version of which the document does not know yet is a newer document's.
func (t *releases) sweep(ctx context.Context, doc routing.Document) error {
	owner, err := t.store.Identity(ctx)
	if err != nil {
		return err
	}
	dropped := func(version string) bool {
		_, named := doc.Release(version)
		n, err := strconv.ParseInt(version, 10, 64)
		return err == nil && n <= doc.Versions && !named
	}
	services, err := t.cluster.list(ctx, owner, t.target)
	if err != nil {
		return err
	}
	services = slices.DeleteFunc(services, func(s *service) bool { return !dropped(s.labels[labelVersion]) || s.deleted })
	if len(services) > 0 {
		if err := routing.AwaitRevision(ctx, t.store, t.target, doc.Revision, t.lease); err != nil {
			return err
		}
	}
	for _, s := range services {
		err = errors.Join(err, t.cluster.remove(ctx, s.name))
	}
	if err != nil {
		return err // its models may still be wanted
	}
	return t.models.remove(ctx, owner, t.target, dropped)
}
