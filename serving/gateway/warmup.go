package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/sluiceml/sluice/serving/answer"
	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/store"
)

const (
	// warmUps is how many inferences a model makes at least before it gets traffic.
	warmUps = 5
	// warmUpRows is how many rows of a dataset it is asked at most.
	warmUpRows = 16
	// rowsTime is how long it may take to read them, and then at least to ask the model all of them, however short the timeout of an
	// inference is: the store may be slow, and so may be the first inference.
	rowsTime = time.Minute
)

// warmUp makes a few inferences, so that the first users do not wait for one-time work: with rows that the release names, else with made-up
// inputs. An error names the row that a model without traffic rejects; the upstream is then closed.
func (g *Gateway) warmUp(ctx context.Context, r routing.Release, unproven bool, upstream Upstream) error {
	if len(upstream.Inputs()) == 0 {
		return nil
	}
	if r.WarmUp != nil {
		reading, cancel := context.WithTimeout(ctx, rowsTime)
		some, err := WarmUpRows(reading, g.opts.Store, *r.WarmUp)
		cancel()
		if err == nil {
			err = g.warmUpWith(ctx, r, some, upstream)
			switch {
			case err == nil:
				return nil
			case unproven:
				return errors.Join(fmt.Errorf("warm-up: %w", err), upstream.Close())
			}
		}
		g.log.Warn("no warm-up with rows", "release", r.Version, "dataset", r.WarmUp.SHA256, "error", err)
	}
	g.warmUpMadeUp(ctx, r.Version, upstream)
	return nil
}

// Rehearse makes the inferences of a warm-up, with made-up inputs where there are no rows. It is for a process in which they may crash.
func Rehearse(ctx context.Context, upstream Upstream, some []answer.Row) {
	g := &Gateway{opts: Options{Timeout: defaultTimeout}, log: slog.New(slog.DiscardHandler)}
	if len(some) == 0 || g.warmUpWith(ctx, routing.Release{WarmUp: &routing.Rows{}}, some, upstream) != nil {
		g.warmUpMadeUp(ctx, "", upstream)
	}
}

// WarmUpRows reads the rows that a model is asked. An answer.DataError says what is wrong with them.
func WarmUpRows(ctx context.Context, s *store.Store, from routing.Rows) ([]answer.Row, error) {
	return answer.FirstRows(ctx, s, from.Dataset(), from.Split, warmUpRows)
}

// warmUpWith asks the model rows one by one, and then all of them at once, which may be joined as those of users are. What it refuses is an
// error; other failures are for a rollout to count.
func (g *Gateway) warmUpWith(ctx context.Context, r routing.Release, some []answer.Row, upstream Upstream) error {
	ctx, cancel := context.WithTimeout(ctx, max(rowsTime, g.opts.Timeout))
	defer cancel()
	requests := make([][]oip.Tensor, len(some))
	for i, row := range some {
		inputs, err := answer.RowTensors(upstream.Inputs(), row)
		if err != nil {
			return fmt.Errorf("row %d of split %s: %w", i+1, r.WarmUp.Split, err)
		}
		requests[i] = inputs
	}
	for n := range max(warmUps, len(requests)) {
		i := n % len(requests)
		_, err := inferFinite(ctx, upstream, requests[i])
		switch status := oip.ErrorStatus(err); {
		case err == nil:
		case ctx.Err() != nil:
			g.log.Info("the warm-up was ended early", "release", r.Version, "error", err)
			return nil
		case status == http.StatusBadRequest || status == http.StatusUnprocessableEntity:
			return fmt.Errorf("row %d of split %s: the model refuses it: %w", i+1, r.WarmUp.Split, err)
		default:
			g.log.Warn("a warm-up failed", "release", r.Version, "row", i+1, "error", err)
		}
	}
	var all sync.WaitGroup
	for _, inputs := range requests {
		all.Go(func() { _, _ = inferFinite(ctx, upstream, inputs) }) // each was asked before
	}
	all.Wait()
	return nil
}

// warmUpMadeUp asks the model zeros and empty texts. It may refuse them; it is then as cold as it was.
func (g *Gateway) warmUpMadeUp(ctx context.Context, version string, upstream Upstream) {
	ctx, cancel := context.WithTimeout(ctx, g.opts.Timeout)
	defer cancel()
	inputs := make([]oip.Tensor, len(upstream.Inputs()))
	for i, meta := range upstream.Inputs() {
		tensor, err := oip.Zero(meta)
		if err != nil {
			g.log.Info("no warm-up", "release", version, "error", err)
			return
		}
		inputs[i] = tensor
	}
	for range warmUps {
		if _, err := inferFinite(ctx, upstream, inputs); err != nil {
			g.log.Info("no warm-up", "release", version, "error", err)
			return
		}
	}
}
