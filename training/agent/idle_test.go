package agent

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/checkpoint"
)

func TestIdleness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		i := newIdleness()
		started := time.Now()
		go i.end(ctx, 15*time.Minute, func() bool { cancel(); return true })
		time.Sleep(14 * time.Minute)
		i.add(1)
		time.Sleep(10 * time.Hour)
		if ctx.Err() != nil {
			t.Fatal("it ended while it had something to do")
		}
		i.add(-1)
		<-ctx.Done()
		if took, want := time.Since(started), 10*time.Hour+29*time.Minute; took < want || took > want+15*time.Minute {
			t.Errorf("it ended after %v, want soon after %v", took, want)
		}
	})
}

// TestReadyNodeWaits: a node that is ready is not idle while its gang is not, however long another node takes for its inputs.
func TestReadyNodeWaits(t *testing.T) {
	key := training.Key{Run: "r", Step: "s", Generation: 1}
	open := &describer{status: enums.WORKFLOW_EXECUTION_STATUS_RUNNING}
	for name, tt := range map[string]struct {
		prepared *prepared
		ran      bool
		temporal *describer
		opened   int // generations
		want     bool
	}{
		"ready":                    {prepared: &prepared{key: key}, temporal: open, opened: 1, want: true},
		"not prepared":             {temporal: open, opened: 1},
		"its ranks have run":       {prepared: &prepared{key: key}, ran: true, temporal: open, opened: 1},
		"another generation":       {prepared: &prepared{key: key}, temporal: open, opened: 2},
		"the workflow has ended":   {prepared: &prepared{key: key}, temporal: &describer{status: enums.WORKFLOW_EXECUTION_STATUS_TERMINATED}, opened: 1},
		"Temporal does not answer": {prepared: &prepared{key: key}, temporal: &describer{err: serviceerror.NewUnavailable("no connection")}, opened: 1},
	} {
		t.Run(name, func(t *testing.T) {
			n := &node{store: openMem(t), client: tt.temporal, log: slog.Default(), prepared: tt.prepared}
			for g := range tt.opened {
				at := key
				at.Generation = g + 1
				if _, err := checkpoint.MakeSeal(t.Context(), n.store, at, checkpoint.Origin{}, nil); err != nil {
					t.Fatal(err)
				}
			}
			if tt.ran {
				n.ranks = &ranks{p: tt.prepared}
			}
			if got := n.awaitsPeers(); got != tt.want {
				t.Errorf("waits: %v, want %v", got, tt.want)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		i, started, asked := newIdleness(), time.Now(), 0
		i.end(t.Context(), 15*time.Minute, func() bool { asked++; return asked == 4 })
		if took := time.Since(started); took != time.Hour {
			t.Errorf("it ended after %v, want an hour: every 15 minutes it is asked whether it may", took)
		}
	})
}
