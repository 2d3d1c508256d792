package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// listener hears the signals that ask this process to end: Ctrl-C and Ctrl-\ at a terminal, and SIGTERM and SIGHUP from whoever started it.
type listener struct{ ch chan os.Signal }

func listen() *listener {
	l := &listener{ch: make(chan os.Signal, 4)}
	signal.Notify(l.ch, os.Interrupt, syscall.SIGQUIT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // under nohup it is, and Notify would undo that
		signal.Notify(l.ch, syscall.SIGHUP)
	}
	return l
}

func (l *listener) close() { signal.Stop(l.ch) }

// until returns a context that ends at the first signal, which is used up, or when stop is called, after which signals are left to
// others again.
func (l *listener) until(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-l.ch:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(); <-done }
}
