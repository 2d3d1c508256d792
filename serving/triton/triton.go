// Package triton is the serving target on an NVIDIA Triton Inference Server that somebody else runs, with explicit model control: each
// release is a model of its own in Triton's repository, which this process writes and has Triton load, and a gateway in this process
// splits the traffic between them.
//
// The routing document is the truth, as for every target. The gateway has Triton load the releases that it names, whoever has unloaded
// them, and removes those that it no longer does; nothing else in the repository is touched.
package triton

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/serving/triton/layout"
	"github.com/sluiceml/sluice/serving/upstream"
	"github.com/sluiceml/sluice/store"
)

const (
	lookEvery = 500 * time.Millisecond // while a release is loaded or unloaded
	// unseenFor is how long Triton may not see a model that is in its repository: folders of other machines are cached for up to a minute.
	unseenFor = time.Minute
	// unloadWithin is how long a model may take to be unloaded; the inferences under way end before.
	unloadWithin = time.Minute
)

// Serve starts the gateway of a target. Triton is asked for nothing yet. gateway.ErrPortInUse when a port is taken.
func Serve(
	ctx context.Context, s *store.Store, target string, t spec.TritonTarget, ports gateway.Ports, labelKey string, log *slog.Logger,
) (*gateway.Server, error) {
	r := &releases{
		store: s, target: target, spec: t, control: newControl(t.Server), repository: openRepository(t.Repository), log: log, unseenFor: unseenFor,
		lease: gateway.Lease,
	}
	return gateway.Serve(ctx, ports, gateway.Options{
		Store: s, Target: target, Open: r.open, Sweep: r.sweep, LabelKey: labelKey, Timeout: time.Duration(t.Timeout), Logger: log,
	})
}

// releases are the models of one target.
type releases struct {
	store      *store.Store
	target     string
	spec       spec.TritonTarget
	control    *control
	repository repository
	log        *slog.Logger
	unseenFor  time.Duration
	lease      time.Duration // of the other gateways
}

// model is a release as Triton has it. An engine with a front is three models, of which clients know one.
type model struct {
	name   string
	marker marker
	layout layout.Repository
	// engine says what a TensorRT engine was built on; empty for an ONNX model.
	engine string
}

// numbered is a version as the routing document counts them.
var numbered = regexp.MustCompile(`^[1-9][0-9]{0,17}$`)

// prefix is that of the names of a target's models. The store's identity keeps the targets of several stores apart.
func prefix(target, owner string) string { return target + "-" + owner + "-v" }

// model describes a release. Whatever the document says, its name is one of a folder in the repository.
func (t *releases) model(ctx context.Context, r routing.Release) (*model, error) {
	owner, err := t.store.Identity(ctx)
	if err != nil {
		return nil, err
	}
	m := &model{
		name:   prefix(t.target, owner) + r.Version,
		marker: marker{Store: owner, Target: t.target, Version: r.Version, Digest: r.Model.Digest},
	}
	if !numbered.MatchString(r.Version) || !folderName.MatchString(m.name) {
		return nil, fmt.Errorf("release %q of %q cannot be the name of a model", r.Version, t.target)
	}
	manifest, err := t.store.Manifest(ctx, r.Model)
	switch {
	case err != nil:
		return nil, err
	case !layout.IsEngine(manifest):
		if m.layout, err = layout.ONNX(m.name, manifest); err == nil {
			m.layout.Texts[m.name+"/"+layout.ConfigFile] = layout.ONNXConfig(m.name, t.spec.MaxBatch)
		}
		return m, err
	}
	if m.layout, err = layout.TensorRT(m.name, manifest); err != nil {
		return nil, err
	}
	e, err := layout.DescribeEngine(manifest)
	m.engine = e.BuiltOn()
	return m, err
}

// open is a gateway.Opener: it writes a release's model to the repository, if it is not there, has Triton load it and waits until it
// answers. What is left behind when that fails goes when the document drops the release.
func (t *releases) open(ctx context.Context, r routing.Release, waiting func(string)) (gateway.Upstream, error) {
	m, err := t.model(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := t.load(ctx, m, waiting); err != nil {
		return nil, err
	}
	server, err := upstream.Await(ctx, upstream.Options{URL: t.spec.Server, Protocol: gateway.OIP, Model: m.name}, time.Duration(t.spec.ReadyWithin), waiting)
	if err != nil {
		return nil, err
	}
	return t.keep(ctx, m, server), nil
}

// load writes a model to the repository and has Triton load it, which changes nothing when it is loaded. A Triton that is away is waited for.
func (t *releases) load(ctx context.Context, m *model, waiting func(string)) error {
	// A server that loads nothing on request gets no files: it might poll the repository and serve them unasked.
	err := t.insist(ctx, "answer", waiting, func(ctx context.Context) (again bool, err error) {
		err = t.control.accepts(ctx)
		return errors.Is(err, errAway), err
	})
	if err != nil {
		return err
	}
	waiting("its model to be in the repository " + t.spec.Repository)
	if err := t.repository.publish(ctx, t.store, m); err != nil {
		return err
	}
	began := time.Now()
	return t.insist(ctx, "load "+m.name, waiting, func(ctx context.Context) (again bool, err error) {
		err = t.control.load(ctx, m.name)
		switch {
		case err == nil || errors.Is(err, errAway):
			return true, err
		case !errors.Is(err, errUnseen):
			return false, m.explain(err)
		}
		again = time.Since(began) < t.unseenFor
		return again, fmt.Errorf("%w; is `repository` of the target, %s, the folder of Triton's `--model-repository`?", err, t.spec.Repository)
	})
}

// insist asks Triton for something until that succeeds or is not worth asking for again, for at most as long as a release may take.
func (t *releases) insist(ctx context.Context, what string, waiting func(string), ask func(context.Context) (again bool, err error)) error {
	limited, cancel := context.WithTimeout(ctx, time.Duration(t.spec.ReadyWithin))
	defer cancel()
	what = t.spec.Server + " to " + what
	waiting(what)
	var last error
	for range poll.Every(limited, lookEvery) {
		again, err := ask(limited)
		if err == nil || !again {
			return err
		}
		if limited.Err() == nil || last == nil {
			last = err
			waiting(what + ": " + err.Error())
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("the Triton server at %s has not loaded it within %v: %w", t.spec.Server, time.Duration(t.spec.ReadyWithin), last)
}

// explain adds to Triton's reason what it cannot know.
func (m *model) explain(err error) error {
	if m.engine != "" && !errors.Is(err, errNotExplicit) {
		return fmt.Errorf("%w; it is a TensorRT engine, built by %s, and may load nowhere else", err, m.engine)
	}
	return err
}

// sweep is a gateway's Sweep: it unloads and removes the models of versions that were dropped. A version of which the document does not
// know yet is a newer document's.
func (t *releases) sweep(ctx context.Context, doc routing.Document) error {
	owner, err := t.store.Identity(ctx)
	if err != nil {
		return err
	}
	there, err := t.repository.list(ctx, owner, t.target)
	if err != nil {
		return err
	}
	waited := false
	for _, f := range there {
		_, named := doc.Release(f.version)
		n, err := strconv.ParseInt(f.version, 10, 64)
		if err != nil || n > doc.Versions || named {
			continue
		}
		if !waited {
			// One that goes on would load its models again: it has read the revision, of which a release does not load there.
			if err := routing.AwaitRevision(ctx, t.store, t.target, doc.Revision, t.lease); err != nil {
				return err
			}
			waited = true
		}
		if !f.temporary {
			err = t.unload(ctx, f.name)
		}
		if err == nil {
			err = t.repository.remove(ctx, f.name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unload has Triton unload a model and waits until it has: its folder must not change before.
func (t *releases) unload(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, unloadWithin)
	defer cancel()
	err := t.control.unload(ctx, name)
	if err != nil {
		return fmt.Errorf("unload %s: %w", name, err)
	}
	for range poll.Every(ctx, lookEvery) {
		var busy bool
		if busy, err = t.control.busy(ctx, name); err == nil && !busy {
			return nil
		}
	}
	return fmt.Errorf("unload %s: it is not unloaded after %v: %w", name, unloadWithin, errors.Join(err, context.Cause(ctx)))
}
