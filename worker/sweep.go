package worker

import (
	"context"
	"time"

	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/training/delivery"
	"github.com/sluiceml/sluice/training/ec2"
)

// sweepEvery spaces looks for instances that nobody will release, and sweepTimeout bounds one.
const sweepEvery, sweepTimeout = 10 * time.Minute, 5 * time.Minute

// sweepInstances ends, from now on, instances of EC2 whose workflow is no longer open: a worker died before it released them, or their workflow
// was terminated. Pods need nobody for this: an agent that is idle ends its pod, and Kubernetes deletes what their claim owns.
func (w *Worker) sweepInstances(ctx context.Context) {
	s := w.session
	if control.Unreachable(s.Info.TemporalAddress, s.Store.URL()) != "" {
		return // no instances could have been used
	}
	sweeper := ec2.Sweeper{Depot: delivery.New(s.Store, AgentPath()), Agent: w.agentConfig(spec.Pool{}), Open: s.HasOpen}
	w.closing.Go(func() {
		for range poll.Every(ctx, sweepEvery) {
			once, cancel := context.WithTimeout(ctx, sweepTimeout)
			ended, err := sweeper.Sweep(once)
			cancel()
			if len(ended) > 0 {
				s.Log.Info("ended what trainings left in EC2", "ids", ended)
			}
			if err != nil && ctx.Err() == nil {
				s.Log.Warn("could not look for everything that trainings left in EC2", "error", err)
			}
		}
	})
}
