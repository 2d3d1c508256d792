// Command sluice-agent runs on each node of a gang and is started by a pool, which configures it by environment variables. It is a
// program of its own, and static, so that it starts in any image.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"go.temporal.io/sdk/worker"

	"github.com/sluiceml/sluice/connect/codec"
	"github.com/sluiceml/sluice/internal/release"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/training/agent"
	"github.com/sluiceml/sluice/training/protocol"
)

// version is set when a release is built: -ldflags "-X main.version=v1.2.3".
var version string

func main() {
	release.Linked = version
	if len(os.Args) > 3 && os.Args[1] == agent.RankCommand {
		os.Exit(agent.Rank(os.Args[2], os.Args[3:]))
	}
	if len(os.Args) == 3 && os.Args[1] == agent.ECRCommand {
		password, err := agent.ECRPassword(context.Background(), os.Args[2])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(password)
		return
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "sluice-agent:", err)
		os.Exit(1)
	}
}

func run() error {
	config, err := protocol.AgentConfigFromEnv()
	if err != nil {
		return err
	}
	ctx, stop := agent.Lifetime(config)
	defer stop()
	s, err := store.Open(ctx, config.Store)
	if err != nil {
		return fmt.Errorf("open store %s: %w", config.Store, err)
	}
	payloads, err := codec.Open(config.CodecKeys, s)
	if err != nil {
		return err
	}
	worker.SetBinaryChecksum(release.Build())
	return agent.Run(ctx, config, s, payloads.Configure, slog.New(slog.NewTextHandler(os.Stderr, nil)))
}
