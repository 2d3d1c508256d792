package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/cmd/sluice/view"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/internal/secret"
	"github.com/sluiceml/sluice/pipelines"
	"github.com/sluiceml/sluice/pipelines/meter"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// runClean cleans, and shows on a terminal how far it is.
func runClean(ctx context.Context, job pipelines.Job, progress io.Writer) (spec.CleanOutput, error) {
	exe, err := os.Executable()
	if err != nil {
		return spec.CleanOutput{}, err
	}
	shown := showProgress(progress)
	said := secret.NewMask(slices.Collect(maps.Values(job.Secrets))...).Writer(shown)
	job.Programs.Log = said
	out, err := pipelines.Run(ctx, exe, job, shown.say)
	err = errors.Join(typedClean(err), said.Close(), shown.close())
	return out, err
}

// typedClean gives a cleaning's error the type that exit codes know.
func typedClean(err error) error {
	if ended, ok := fault.As(err); ok {
		return fault.New(ended.Type, ended.Message, nil)
	}
	return err
}

// cleanShown draws a line about a cleaning again and again, where the stream is a terminal.
type cleanShown struct {
	to    io.Writer
	live  *view.Live
	quit  chan struct{}
	drawn sync.WaitGroup
	mu    sync.Mutex
	row   view.Row
}

func showProgress(w io.Writer) *cleanShown {
	theme := view.ThemeOf(w)
	if !theme.Terminal {
		return &cleanShown{to: w}
	}
	s := &cleanShown{to: w, quit: make(chan struct{})}
	s.row.StepState = contract.StepState{ID: "clean", Status: spec.StatusRunning, StartedAt: time.Now()}
	s.row.Detail = view.Detail{Text: "looking for the input", Share: -1}
	s.live = view.NewLive(w, theme, kit.TerminalSize(w))
	s.drawn.Go(s.draw)
	return s
}

// draw draws a frame until the showing is closed. A terminal that cannot be written to is no reason to stop the work.
func (s *cleanShown) draw() {
	frames := time.Tick(kit.FrameEvery)
	for {
		select {
		case <-s.quit:
			return
		case now := <-frames:
			s.mu.Lock()
			_ = s.live.Show([]view.Row{s.row}, nil, now)
			s.mu.Unlock()
		}
	}
}

// Write writes what a program of the user's says, where the line was, which is drawn again below.
func (s *cleanShown) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live != nil {
		_ = s.live.Clear()
	}
	return s.to.Write(text)
}

func (s *cleanShown) say(p meter.Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.row.Detail = view.Detail{Text: p.String(), Share: p.Done}
}

func (s *cleanShown) close() error {
	if s.live == nil {
		return nil
	}
	close(s.quit)
	s.drawn.Wait()
	return s.live.Clear()
}

// cleaned is what `sluice clean` says at the end.
type cleaned struct {
	spec.CleanOutput
	// Dataset and DeadLetter are the folders that were written, in the place of artifacts in a store. DeadLetter is empty when no row
	// was rejected.
	Dataset    string `json:"dataset"`
	DeadLetter string `json:"dead_letter,omitempty"`
	why        kit.Rejected
}

// text writes the account as a table.
func (c cleaned) text(out io.Writer) error {
	counts := func(w io.Writer, of map[string]int64) {
		names := slices.SortedFunc(maps.Keys(of), func(a, b string) int { return cmp.Or(cmp.Compare(of[b], of[a]), cmp.Compare(a, b)) })
		for _, name := range names {
			kit.Row(w, "  "+name, human.Count(of[name]))
		}
	}
	dropped := map[string]int64{}
	for name, rule := range c.Rules {
		dropped[name] = rule.Dropped
	}
	err := kit.Table(out, "read\t"+human.Count(c.Rows.Read), func(w io.Writer) {
		if c.Rows.Exploded > 0 {
			kit.Row(w, "  made by Explode", human.Count(c.Rows.Exploded))
		}
		if c.Rows.Copied > 0 {
			kit.Row(w, "  copies", human.Count(c.Rows.Copied))
		}
		kit.Row(w, "kept", human.Count(c.Rows.Kept))
		if _, only := c.Splits["all"]; !only || len(c.Splits) > 1 {
			counts(w, c.Splits)
		}
		kit.Row(w, "dropped", human.Count(c.Rows.Dropped))
		counts(w, dropped)
		kit.Row(w, "rejected", human.Count(c.Rows.Rejected))
		counts(w, c.Reasons)
		if len(c.Masked) > 0 {
			kit.Row(w, "masked")
			counts(w, c.Masked)
		}
	})
	if err != nil {
		return err
	}
	if c.DeadLetter != "" {
		if _, err := fmt.Fprintf(out, "\nthe rejected rows are in %s; the first of each reason:\n", human.Printable(c.DeadLetter)); err != nil {
			return err
		}
		if err := c.why.Text(out); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(out, "\nwrote %s\n", human.Printable(c.Dataset))
	return err
}

// whyRejected reads the dead letter in a folder.
func whyRejected(dir string, reasons map[string]int64) (kit.Rejected, error) {
	f, err := os.Open(filepath.Join(dir, kit.RejectedFile))
	if err != nil {
		return kit.Rejected{}, err
	}
	defer f.Close()
	return kit.ReadRejected(f, reasons, rows.ReasonDamaged)
}
