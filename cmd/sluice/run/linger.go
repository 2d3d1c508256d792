package run

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/worker"
)

// lingerEvery spaces looks at whether somebody still follows a run.
const lingerEvery = 100 * time.Millisecond

// lingerQuietly is how long a process stays without a word. Commands such as reject also count as followers, and need a moment to exit after
// they let a run end.
const lingerQuietly = 2 * time.Second

// linger keeps a process that carries runs, and is done with its own, until no other process follows one: what is under way here would
// be killed, and done again by whoever takes over. A run that nobody follows is no reason to stay. It ends with ctx: the others then
// take over.
func linger(ctx context.Context, s *control.Session, w *worker.Worker, notes io.Writer) error {
	if s.Holder == nil || ctx.Err() != nil {
		return nil
	}
	return lingerUntil(ctx, s.Alone, w.Failed(), notes)
}

func lingerUntil(ctx context.Context, alone func() (bool, error), failed <-chan error, notes io.Writer) error {
	again, since, said := time.Tick(lingerEvery), time.Now(), false
	for {
		if alone, err := alone(); alone || err != nil {
			return err
		}
		if !said && time.Since(since) >= lingerQuietly {
			said = true
			if _, err := fmt.Fprintln(notes, "sluice: still executing runs that other commands follow; Ctrl-C to exit (the runs continue in one of those)"); err != nil {
				return err
			}
		}
		select {
		case <-again:
		case <-ctx.Done():
			_, err := fmt.Fprintln(notes, "sluice: exited; the runs continue in one of the commands that follow them")
			return err
		case err := <-failed:
			return fmt.Errorf("the worker has stopped: %w", err)
		}
	}
}
