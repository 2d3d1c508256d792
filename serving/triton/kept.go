package triton

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/serving/upstream"
)

// checkEvery spaces the looks at whether Triton still has a model.
const checkEvery = 2 * time.Second

// kept is a release that Triton has loaded. When Triton has lost it, as one that was started again has, it is loaded again.
type kept struct {
	*upstream.Watched
	stop    context.CancelFunc
	keeping sync.WaitGroup
}

func (t *releases) keep(ctx context.Context, m *model, server *upstream.Watched) *kept {
	k := &kept{Watched: server}
	ctx, k.stop = context.WithCancel(context.WithoutCancel(ctx))
	k.keeping.Go(func() { t.loadAgain(ctx, m) })
	return k
}

func (t *releases) loadAgain(ctx context.Context, m *model) {
	said := ""
	for range poll.Every(ctx, checkEvery) {
		err := t.control.ready(ctx, m.name)
		if errors.Is(err, errNotLoaded) {
			t.log.Warn("Triton has lost a release, which is loaded again", "target", t.target, "release", m.marker.Version, "model", m.name)
			err = t.load(ctx, m, func(string) {})
		}
		switch {
		case err == nil || ctx.Err() != nil:
			said = ""
		case err.Error() != said:
			said = err.Error()
			t.log.Error("a release is not on Triton", "target", t.target, "release", m.marker.Version, "model", m.name, "error", err)
		}
	}
}

// Close lets go of the release, which Triton keeps until it is unloaded by a sweep: other gateways may serve it.
func (k *kept) Close() error {
	k.stop()
	k.keeping.Wait()
	return k.Watched.Close()
}
