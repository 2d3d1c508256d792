package kit

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Listener hears the signals that ask this process to end: Ctrl-C and Ctrl-\ at a terminal, and SIGTERM and SIGHUP from whoever started it.
type Listener struct{ C chan os.Signal }

// Listen begins to hear them, until Close.
func Listen() *Listener {
	l := &Listener{C: make(chan os.Signal, 4)}
	signal.Notify(l.C, os.Interrupt, syscall.SIGQUIT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // under nohup it is, and Notify would undo that
		signal.Notify(l.C, syscall.SIGHUP)
	}
	return l
}

// Close leaves signals to others again.
func (l *Listener) Close() { signal.Stop(l.C) }

// Until returns a context that ends at the first signal, which is used up, or when stop is called, after which signals are left to
// others again.
func (l *Listener) Until(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-l.C:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(); <-done }
}

// Interruptible returns a context that ends when a signal asks this process to end, or when stop is called, after which signals are left
// to others again.
func Interruptible(ctx context.Context) (_ context.Context, stop func()) {
	signals := Listen()
	ctx, done := signals.Until(ctx)
	return ctx, func() { done(); signals.Close() }
}
