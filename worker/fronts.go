package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sluiceml/sluice/activities"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/routing"
)

// followTimeout bounds the change of a gateway to the front of a document.
const followTimeout = 30 * time.Second

// target opens a serving target: whatever serves its releases, this process has its gateway, unless others are said to. While clients depend
// on it, it keeps its front, whatever the environment says; see turn.
func (w *Worker) target(ctx context.Context, name string, env spec.ServedTarget) (*gateway.Target, error) {
	kept := activities.Patient(w.session.Store)
	doc, err := routing.Current(ctx, kept, name)
	if err != nil {
		return nil, err
	}
	served, known := w.gateways.standing(name, env, doc)
	var t *gateway.Target
	if url := served.URL(); url != "" {
		t = gateway.NewTarget(kept, name, strings.TrimSuffix(url, "/"), "")
	} else {
		at, err := w.gateways.Serve(ctx, name, served)
		if errors.Is(err, gateway.ErrPortInUse) && !served.Front().Is(env.Front()) {
			err = fmt.Errorf("target %s keeps its port %d until a release of another environment is promoted, and there %w by another process\n"+
				"help: stop that, or move the target with `sluice serve %[1]s -e ENVIRONMENT`", name, served.Front().Port, gateway.ErrPortInUse)
		}
		if err != nil {
			return nil, err
		}
		t = gateway.NewTarget(kept, name, at.URL, at.control)
	}
	t.Front = served.Gateway
	if known {
		t.Known = new(served.Front())
	}
	return t, nil
}

// turn gives a target the front of its environment, which the document has now, and returns where it is.
func (w *Worker) turn(ctx context.Context, name string, env spec.ServedTarget, revision int64) (string, error) {
	if url := env.URL(); url != "" {
		return strings.TrimSuffix(url, "/"), nil
	}
	w.gateways.mu.Lock()
	defer w.gateways.mu.Unlock()
	before := w.gateways.followed[name]
	w.gateways.fronts[name], w.gateways.followed[name] = max(w.gateways.fronts[name], revision), new(env.Front())
	at, err := w.gateways.serve(ctx, name, env)
	if err != nil {
		w.gateways.followed[name] = before
	}
	return at.URL, err
}

// standing is a target as an environment describes it, behind the front that it has. known is false where nobody here knows that.
func (g *Gateways) standing(target string, env spec.ServedTarget, doc routing.Document) (served spec.ServedTarget, known bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	here, ok := g.specs[target]
	switch {
	case !doc.Protected():
		return env, true
	case env.URL() != "":
		return env, false // whoever runs those gateways has said whom they let in
	case ok && (doc.Front == nil || doc.Revision < g.fronts[target] || g.hasFollowed(doc)):
		return env.Behind(here.Front()), true
	case doc.Front == nil:
		return env, false
	}
	return env.Behind(*doc.Front), true
}

// hasFollowed reports whether this process, or an earlier one with its state folder, had the front of a document already: what somebody has said
// since with `sluice serve -e` stays until another front is promoted.
func (g *Gateways) hasFollowed(doc routing.Document) bool {
	followed := g.followed[doc.Target]
	return followed != nil && doc.Front != nil && followed.Is(*doc.Front)
}

// follow gives a target that this process serves the front of its document. What cannot be done leaves the one that it has.
func (g *Gateways) follow(doc routing.Document) {
	ctx, cancel := context.WithTimeout(context.Background(), followTimeout)
	defer cancel()
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.specs[doc.Target]
	if g.drained || g.served[doc.Target] == nil || doc.Front == nil || doc.Front.URL != "" || !doc.Protected() || doc.Revision < g.fronts[doc.Target] {
		return
	}
	g.fronts[doc.Target] = doc.Revision
	given := g.given[doc.Target]
	delete(g.given, doc.Target) // what is promoted from now on is newer
	if g.hasFollowed(doc) {
		return
	}
	var err error
	switch wanted := before.Behind(*doc.Front); {
	case g.alone && !given:
		return
	case g.alone:
	case !before.Is(wanted):
		if err = g.check(ctx, doc.Target, before, wanted); err == nil {
			_, err = g.serve(ctx, doc.Target, wanted)
		}
	}
	if err != nil {
		g.log.Warn("the target keeps its port and whom it lets in, not those of the release that was promoted", "target", doc.Target, "error", err)
		return
	}
	g.followed[doc.Target] = doc.Front
	if err := g.save(); err != nil {
		g.log.Warn("the target may be served after a restart as it was before", "target", doc.Target, "error", err)
	}
}

// checkFront says why this process could not give a target the front of an environment. It changes nothing.
func (w *Worker) checkFront(ctx context.Context, name string, env spec.ServedTarget) error {
	if env.URL() != "" {
		return nil
	}
	w.gateways.mu.Lock()
	defer w.gateways.mu.Unlock()
	before := w.gateways.specs[name]
	if before.Front().Is(env.Front()) {
		return nil
	}
	return w.gateways.check(ctx, name, before, env)
}

// check opens the door of a target and its access log, listens at its ports that are others than before, and leaves it all again. The caller
// holds the lock.
func (g *Gateways) check(ctx context.Context, target string, before, wanted spec.ServedTarget) error {
	ports, err := g.ports(ctx, target, wanted, false)
	if err != nil {
		return err
	}
	ports.Door.Close()
	ports.Access.Close()
	for _, port := range wanted.Ports() {
		if slices.ContainsFunc(before.Ports(), func(own spec.Port) bool { return own.Number == port.Number }) {
			continue
		}
		host := port.Host
		if port.Key == "port" {
			host = ports.Host
		}
		address := net.JoinHostPort(cmp.Or(host, "127.0.0.1"), strconv.Itoa(port.Number))
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("target %s cannot listen on %s: %w by another process; set another `%s` for the target in the environment",
				target, address, gateway.ErrPortInUse, port.Key)
		} else if err != nil {
			return fmt.Errorf("target %s: %w", target, err)
		}
		if err := listener.Close(); err != nil {
			return err
		}
	}
	return nil
}
