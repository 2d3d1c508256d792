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

	"github.com/sluiceml/sluice/training/agent"
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
	return agent.Run(ctx, config, slog.New(slog.NewTextHandler(os.Stderr, nil)))
}
