// Package external is the serving target on servers that somebody else runs: each release has a URL, which is asked once its server is
// healthy. Nothing is started there, and nothing stopped.
package external

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/serving/upstream"
	"github.com/sluiceml/sluice/store"
)

// Serve starts the gateway of a target at an address of this machine: see gateway.Ports. No server is asked for anything yet.
// gateway.ErrPortInUse when a port is taken.
func Serve(ctx context.Context, s *store.Store, target string, t spec.ExternalTarget, ports gateway.Ports, labelKey string, log *slog.Logger) (*gateway.Server, error) {
	protocol := gateway.Protocol(t.Protocol)
	open := func(ctx context.Context, r routing.Release, waiting func(string)) (gateway.Upstream, error) {
		at, err := locate(ctx, s, target, t, r)
		if err != nil {
			return nil, err
		}
		return upstream.Await(ctx, upstream.Options{
			URL: at, Protocol: protocol, Model: cmp.Or(t.Model, target), Health: t.Health,
		}, time.Duration(t.ReadyWithin), waiting)
	}
	return gateway.Serve(ctx, ports, gateway.Options{
		Store: s, Target: target, Open: open, Protocol: protocol, LabelKey: labelKey, Timeout: time.Duration(t.Timeout), Logger: log,
	})
}

// shortDigest is how many digits of a model's digest tell it from others.
const shortDigest = 12

// locate returns the URL of a release's server.
func locate(ctx context.Context, s *store.Store, target string, t spec.ExternalTarget, r routing.Release) (string, error) {
	if len(t.Servers) > 0 {
		i, err := seat(ctx, s, target, len(t.Servers), r.Version)
		if err != nil {
			return "", err
		}
		return t.Servers[i], nil
	}
	_, digest, _ := strings.Cut(r.Model.Digest, ":")
	return strings.NewReplacer("${release}", r.Version, "${model}", digest[:min(shortDigest, len(digest))]).Replace(t.At), nil
}

// seated is which of a target's servers a release has. All gateways of a target agree on it, and it never changes.
type seated struct {
	Server int `json:"server"`
}

func key(target, version string) string { return store.SeatsPrefix + target + "/" + version + ".json" }

// seat returns which of so many servers a release has: the first one that the release with most of the traffic has not.
func seat(ctx context.Context, s *store.Store, target string, servers int, version string) (int, error) {
	of := func(version string) (int, error) {
		var have seated
		err := s.GetJSON(ctx, key(target, version), &have)
		if err == nil && have.Server >= servers {
			err = fmt.Errorf("release %s had server %d of %d, and there are fewer now", version, have.Server+1, servers)
		}
		return have.Server, err
	}
	have, err := of(version)
	if !errors.Is(err, store.ErrNotFound) {
		return have, wrap(target, err)
	}
	doc, err := routing.Current(ctx, s, target)
	if err != nil {
		return 0, err
	}
	free := make([]int, servers)
	for i := range free {
		free[i] = i
	}
	if serving, ok := doc.Serving(); ok && serving.Version != version {
		taken, err := of(serving.Version)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return 0, wrap(target, err)
		}
		free = slices.DeleteFunc(free, func(i int) bool { return err == nil && i == taken })
	}
	err = s.PutJSON(ctx, key(target, version), seated{free[0]}, store.WriteOptions{IfAbsent: true})
	if errors.Is(err, store.ErrExists) {
		have, err = of(version)
		return have, wrap(target, err)
	}
	return free[0], wrap(target, err)
}

func wrap(target string, err error) error {
	if err != nil {
		return fmt.Errorf("the servers of target %s: %w", target, err)
	}
	return nil
}
