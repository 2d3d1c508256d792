//go:build cgo

// Command sluice-gpu reads NVIDIA GPUs by the driver's library, for sluice and sluice-agent, which start it and read what it prints. It is a
// program of its own since the library needs cgo, and the agent is static.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	driver "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/sluiceml/sluice/training/gpu/nvml"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := nvml.Main(ctx, driver.New(), os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "sluice-gpu:", err)
		os.Exit(1)
	}
}
