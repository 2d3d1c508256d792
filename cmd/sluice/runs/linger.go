package runs

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

// linger keeps a process that carries runs, and is done with its own, until no other process follows one: what is under way here would
// be killed, and done again by whoever takes over. A run that nobody follows is no reason to stay. It ends with ctx: the others then
// take over.
func linger(ctx context.Context, s *control.Session, w *worker.Worker, notes io.Writer) error {
	if s.Holder == nil || ctx.Err() != nil {
		return nil
	}
	again := time.Tick(lingerEvery)
	for said := false; ; said = true {
		if alone, err := s.Alone(); alone || err != nil {
			return err
		}
		if !said {
			if _, err := fmt.Fprintln(notes, "sluice: still executing runs that other commands follow; Ctrl-C to exit (the runs continue in one of those)"); err != nil {
				return err
			}
		}
		select {
		case <-again:
		case <-ctx.Done():
			_, err := fmt.Fprintln(notes, "sluice: exited; the runs continue in one of the commands that follow them")
			return err
		case err := <-w.Failed():
			return fmt.Errorf("the worker has stopped: %w", err)
		}
	}
}
