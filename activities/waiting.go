package activities

import (
	"context"

	"go.temporal.io/sdk/activity"

	"github.com/sluiceml/sluice/internal/heartbeat"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/training/protocol"
)

// Patient returns the store for activities: one that is away is waited for, which their heartbeats say meanwhile.
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
