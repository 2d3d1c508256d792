package connect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/sluiceml/sluice/connect/embedded"
	"github.com/sluiceml/sluice/connect/state/holder"
	"github.com/sluiceml/sluice/internal/fault"
)

// ErrSilent is returned if the process that holds a state folder does not answer: it is stopped, hangs or is overloaded.
var ErrSilent = errors.New("the holder does not answer")

// sayAfter is how long Dial waits before it says what for.
const sayAfter = 2 * time.Second

// TellSilent calls waiting, if it is not nil, if the holder of a state folder keeps this process waiting for sayAfter. It is not called after
// stop has returned.
func TellSilent(ctx context.Context, dir string, waiting func(what string)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-ctx.Done():
			return
		case <-time.After(sayAfter):
		}
		// A server that this process starts is published only once it answers.
		if info, found, err := holder.Find(dir); waiting != nil && err == nil && found && info.PID != os.Getpid() {
			waiting(fmt.Sprintf("waiting for process %d, which holds the state folder %s, to answer; if it is stopped, `kill -CONT %[1]d` continues it", info.PID, dir))
		}
	}()
	return func() { cancel(); <-done }
}

// Ask returns an error that wraps ErrSilent if the process that holds a state folder does not answer in time. That it takes connections is
// no answer: the kernel does so for a process that is stopped.
func Ask(ctx context.Context, dir string, info holder.Info, within time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("no answer within %v", within))
	defer cancel()
	token, err := embedded.ReadToken(info.TokenFile)
	if err != nil {
		return err
	}
	c, err := dialOwner(ctx, info, token, Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return silentError(dir, info.PID, err)
	}
	c.Close()
	return nil
}

// silentError says what to do about a holder that does not answer. It wraps ErrSilent.
func silentError(dir string, pid int, why error) error {
	return fault.New(fault.Infrastructure, fmt.Sprintf("process %d, which holds the state folder %s, does not answer\n"+
		"help: if it is stopped, `kill -CONT %[1]d` continues it; if it hangs, end it with `kill %[1]d`, or `kill -9 %[1]d`: runs continue when Sluice is next started",
		pid, dir), errors.Join(ErrSilent, why))
}
