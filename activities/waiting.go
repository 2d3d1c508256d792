package activities

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/heartbeat"
	"github.com/sluiceml/sluice/internal/secret"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/training/protocol"
)

// Patient returns the store for activities: they wait for a store that is unavailable, and say so in their heartbeats.
func Patient(s *store.Store) *store.Store {
	return s.Patient(store.Patience{Limit: protocol.Patience, Waiting: func(ctx context.Context, why error) func() {
		if !activity.IsActivity(ctx) {
			return func() {}
		}
		activity.GetLogger(ctx).Warn("waiting for the store", "store", s.URL(), "error", why)
		return heartbeat.Instead(ctx, func() any {
			return protocol.Progress{Text: "waiting for the store: " + why.Error(), Share: -1}
		})
	}})
}

// secretPause is the pause before secrets are asked for again that could not be read.
const secretPause = 2 * time.Second

// resolveSecrets resolves the values of a step's secrets. It waits for a Vault that is unavailable or sealed, and says so in heartbeats.
func resolveSecrets(ctx context.Context, r *secret.Resolver, env *spec.Environment, names map[string]string) (secret.Values, error) {
	began := time.Now()
	for {
		values, err := r.Resolve(ctx, env, names)
		if !secret.Temporary(err) || ctx.Err() != nil || time.Since(began) > protocol.Patience {
			return values, err
		}
		activity.GetLogger(ctx).Warn("waiting for a secret", "error", err)
		done := heartbeat.Instead(ctx, func() any { return protocol.Progress{Text: "waiting: " + err.Error(), Share: -1} })
		select {
		case <-time.After(secretPause):
		case <-ctx.Done():
		}
		done()
	}
}
