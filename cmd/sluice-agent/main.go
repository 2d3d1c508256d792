// Command sluice-agent runs on each node of a gang and is started by a pool, which configures it by environment variables. It is a
// program of its own, and static, so that it starts in any image.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/training/agent"
	"github.com/sluiceml/sluice/worker/codec"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "sluice-agent:", err)
		os.Exit(1)
	}
}

func run() error {
	config, err := agent.ConfigFromEnv()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	s, err := store.Open(ctx, config.Store)
	if err != nil {
		return fmt.Errorf("open store %s: %w", config.Store, err)
	}
	payloads, err := codec.Open(config.CodecKeys, s)
	if err != nil {
		return err
	}
	return agent.Run(ctx, config, s, payloads.Configure, slog.New(slog.NewTextHandler(os.Stderr, nil)))
}
