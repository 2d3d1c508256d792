package agent

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sluiceml/sluice/training/protocol"
)

// Lifetime returns the context for Run, which ends with SIGINT or SIGTERM. If the node lives on for a while after SIGTERM (Grace), the
// first SIGTERM is its preemption notice instead, and the context ends after that time or with another signal.
func Lifetime(c protocol.AgentConfig) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		defer signal.Stop(signals)
		defer cancel()
		select {
		case <-ctx.Done():
		case sig := <-signals:
			if sig == syscall.SIGTERM && c.Grace > 0 {
				outlive(ctx, c, signals)
			}
		}
	}()
	return ctx, cancel
}

// outlive writes the preemption notice of the node and waits until its time is over.
func outlive(ctx context.Context, c protocol.AgentConfig, signals <-chan os.Signal) {
	over := time.NewTimer(c.Grace)
	defer over.Stop()
	err := os.MkdirAll(c.Dir, 0o755)
	if err == nil {
		err = protocol.WriteFile(filepath.Join(c.Dir, protocol.NoticeFile), protocol.NodeNotice{Until: time.Now().Add(c.Grace)})
	}
	if err != nil {
		return // without a notice there is nothing to wait for
	}
	select {
	case <-ctx.Done():
	case <-signals:
	case <-over.C:
	}
}
