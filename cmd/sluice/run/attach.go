package run

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/connect"
	"github.com/sluiceml/sluice/connect/state/holder"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/worker"
)

const (
	// lookPatience bounds the wait for a Sluice that carries runs, of a command that has records to show without it, and completePatience
	// that of a completion.
	lookPatience     = 10 * time.Second
	completePatience = time.Second
)

// Attach opens a session with the Sluice that carries runs, if there is one, until leave is called; carried is false when there is none. The
// error says that it does not answer: the command shows what the records say, and then ends with it.
func Attach(cmd *cobra.Command) (s *control.Session, leave func(), carried bool, err error) {
	return AttachTo(cmd.Context(), control.Options{StateDir: kit.StateDir(cmd), Patience: lookPatience, Waiting: kit.SayWaiting(cmd), Exits: true})
}

// AttachTo is Attach to the state folder that the options name.
func AttachTo(ctx context.Context, at control.Options) (s *control.Session, leave func(), carried bool, err error) {
	if _, held, err := holder.Find(at.StateDir); !connect.ClusterNamed() && (err != nil || !held) {
		return nil, nil, err != nil, nil
	}
	s, w, err := worker.Open(ctx, at, worker.Options{})
	switch {
	case errors.Is(err, connect.ErrSilent):
		return nil, nil, true, err
	case err != nil:
		return nil, nil, true, nil //nolint:nilerr // the records tell without it
	}
	leave = func() {
		_ = errors.Join(w.Close(), s.Close()) // it was only asked
	}
	if s.Holder != nil { // the one that carried them has just ended, and this process shall not take its place
		leave()
		return nil, nil, false, nil
	}
	return s, leave, true, nil
}

// NotCarried says that no process executes a run that has not ended.
const NotCarried = "no process executes this run now: resume it with the command that started it, or with `sluice up`. Steps shown as pending may have started"
