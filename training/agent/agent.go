// Package agent is the process on each node of a gang: a Temporal worker with a task queue of its own that prepares the node, runs its
// ranks, commits their checkpoints and reports a preemption notice.
//
// The agent and its ranks survive an outage of the Temporal server, however long. If the server has timed out the activity of the ranks,
// they are stopped when a later generation is sealed or their workflow has ended (see orphan).
package agent

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"

	"github.com/sluiceml/sluice/internal/fault/boundary"
	"github.com/sluiceml/sluice/internal/heartbeat"
	"github.com/sluiceml/sluice/internal/secret"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/training/protocol"
)

// Run serves one node until ctx ends, or the node has been idle for too long. When it returns, every process that it has started is gone. s
// is the store that the config names, and encode makes the Temporal client write and read payloads as the workers do.
func Run(ctx context.Context, c protocol.AgentConfig, s *store.Store, encode func(*client.Options), logger *slog.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return fmt.Errorf("node folder: %w", err)
	}
	options, err := clientOptions(c, logger)
	if err != nil {
		return err
	}
	encode(&options)
	cl, err := client.DialContext(ctx, options)
	if err != nil {
		return fmt.Errorf("connect to Temporal at %s: %w", c.Address, err)
	}
	defer cl.Close()

	patient := s.Patient(store.Patience{Limit: protocol.Patience, Waiting: func(ctx context.Context, why error) func() {
		logger.Warn("waiting for the store", "store", s.URL(), "error", why)
		return showWaiting(ctx, why)
	}})
	n := &node{config: c, client: cl, log: logger, resolver: secret.NewResolver(), stallFloor: stallFloor, orphanEvery: orphanEvery}
	n.near.Cache = n.openCache()
	n.store = patient.Near(&n.near)
	idle := newIdleness()
	w := worker.New(cl, c.Queue, worker.Options{
		DisableWorkflowWorker:              true,
		MaxConcurrentActivityExecutionSize: 8,
		WorkerStopTimeout:                  stopTimeout,
		BackgroundActivityContext:          ctx,
		Interceptors:                       []interceptor.WorkerInterceptor{&boundary.Interceptor{}, idle, &heartbeat.Interceptor{}},
	})
	defer n.export(ctx)()
	n.register(w)
	if err := w.Start(); err != nil {
		return fmt.Errorf("poll %s: %w", c.Queue, err)
	}
	var tasks sync.WaitGroup
	tasks.Go(func() { n.hearNotice(ctx) })
	if n.near.Cache != nil {
		tasks.Go(func() { n.near.Cache.Watch(ctx) })
	}
	if c.Metadata != "" {
		tasks.Go(func() { n.hearSpot(ctx, c.Metadata, spotEvery) })
	}
	if c.Idle > 0 {
		tasks.Go(func() {
			idle.end(ctx, c.Idle, func() bool {
				if n.awaitsPeers() {
					return false
				}
				logger.Warn("idle for too long: the agent exits", "for", c.Idle)
				cancel()
				return true
			})
		})
	}
	<-ctx.Done()
	n.shutdown()
	w.Stop()
	tasks.Wait()
	return nil
}

func (n *node) register(r worker.ActivityRegistry) {
	r.RegisterActivityWithOptions(n.Prepare, activity.RegisterOptions{Name: protocol.PrepareActivity})
	r.RegisterActivityWithOptions(n.RunRanks, activity.RegisterOptions{Name: protocol.RunRanksActivity})
	r.RegisterActivityWithOptions(n.Attach, activity.RegisterOptions{Name: protocol.AttachActivity})
	r.RegisterActivityWithOptions(n.Stop, activity.RegisterOptions{Name: protocol.StopActivity})
}

// clientOptions returns how to reach Temporal: with the pool's token, or else by Temporal's own environment variables.
func clientOptions(c protocol.AgentConfig, logger *slog.Logger) (client.Options, error) {
	var options client.Options
	if c.Token != "" {
		options.HeadersProvider = bearer(c.Token)
	} else {
		var err error
		if options, err = envconfig.LoadDefaultClientOptions(); err != nil {
			return options, fmt.Errorf("read Temporal's client configuration (TEMPORAL_* variables and profile file): %w", err)
		}
	}
	options.HostPort, options.Namespace = c.Address, c.Namespace
	options.Identity, options.Logger = "agent "+c.Queue, log.NewStructuredLogger(logger)
	return options, nil
}

// bearer puts the node's token on every call, whether or not the connection is encrypted.
type bearer string

// GetHeaders implements client.HeadersProvider.
func (b bearer) GetHeaders(context.Context) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}
