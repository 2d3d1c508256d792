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

// Lifetime is the context that Run is given: it ends with SIGINT or SIGTERM. Where SIGTERM comes before the end of the node (Grace), the
// first one is the node's notice instead, and the context ends when the notice is over or with another signal.
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

// outlive gives the node's notice and waits until it is over.
func outlive(ctx context.Context, c protocol.AgentConfig, signals <-chan os.Signal) {
	over := time.NewTimer(c.Grace)
	defer over.Stop()
	err := os.MkdirAll(c.Dir, 0o755)
	if err == nil {
		err = protocol.WriteFile(filepath.Join(c.Dir, protocol.NoticeFile), protocol.NodeNotice{Until: time.Now().Add(c.Grace)})
	}
	if err != nil {
		return // a node that cannot say that it goes had better go
	}
	select {
	case <-ctx.Done():
	case <-signals:
	case <-over.C:
	}
}
