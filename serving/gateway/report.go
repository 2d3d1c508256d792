package gateway

import (
	"context"
	"os"
	"time"

	"github.com/sluiceml/sluice/serving/routing"
)

const (
	beatEvery     = time.Second      // while a rollout goes on
	idleBeatEvery = 15 * time.Second // else
	// settling is for how long after a change the gateway goes on reporting often.
	settling      = time.Minute
	sweepEvery    = time.Hour
	reportTimeout = 2 * time.Second
	// reportedRevisions is how many revisions a report has the counts of: more than change between two looks at it.
	reportedRevisions = 8
)

// reporter writes what a gateway says of itself. Counts are cumulative, so a report that could not be written is part of the next.
type reporter struct {
	gateway *Gateway
	host    string
	beat    int64
	failing bool
}

func newReporter(g *Gateway) *reporter {
	host, err := os.Hostname()
	if err != nil {
		g.log.Warn("the name of this machine", "error", err)
	}
	return &reporter{gateway: g, host: host}
}

// run reports at every change, and in between often enough.
func (r *reporter) run(ctx context.Context) {
	var swept time.Time
	for {
		pause := time.NewTimer(r.pause())
		select {
		case <-ctx.Done():
			pause.Stop()
			return
		case <-r.gateway.changed:
		case <-pause.C:
		}
		pause.Stop()
		r.report(ctx)
		if time.Since(swept) >= sweepEvery && !r.failing && ctx.Err() == nil {
			swept = time.Now()
			if err := routing.SweepReports(ctx, r.gateway.opts.Store, r.gateway.opts.Target, r.gateway.epoch); err != nil && ctx.Err() == nil {
				r.gateway.log.Warn("records of gateways that ended long ago stay in the store", "error", err)
			}
		}
	}
}

func (r *reporter) pause() time.Duration {
	g := r.gateway
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.doc.UnderWay() || time.Since(g.moved) < settling || g.table == nil || g.table.revision != g.doc.Revision {
		return beatEvery
	}
	return idleBeatEvery
}

func (r *reporter) report(ctx context.Context) {
	err := r.put(ctx, false)
	if err != nil && !r.failing && ctx.Err() == nil {
		r.gateway.log.Error("rollouts do not learn what this gateway has served", "error", err)
	}
	r.failing = err != nil
}

// close is the closing mark. Without it, rollouts would take the end for a crash.
func (r *reporter) close() {
	if err := r.put(context.Background(), true); err != nil {
		r.gateway.log.Warn("rollouts take the end of this gateway for a crash", "error", err)
	}
}

func (r *reporter) put(ctx context.Context, closed bool) error {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	r.beat++
	g := r.gateway
	state := g.State()
	report := routing.Report{Snapshot: g.Stats(), Host: r.host, URL: g.opts.URL, Read: state.Revision}
	report.Beat, report.Closed, report.Revision = r.beat, closed, state.Serving
	report.Revisions = report.Revisions[max(0, len(report.Revisions)-reportedRevisions):]
	for _, s := range state.Releases {
		report.Releases = append(report.Releases, routing.ReportedRelease{Version: s.Version, Weight: s.Weight, State: s.State, Waiting: s.Waiting, Error: s.Error})
	}
	return routing.PutReport(ctx, g.opts.Store, report)
}
