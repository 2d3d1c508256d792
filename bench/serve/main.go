// Command serve measures what the gateway of an embedded target costs, and what its batching gains: against ONNX Runtime called directly
// in Go, against itself without batching, and against MLServer and Triton. README.md says what exactly each figure is. It is run from the repository's
// root.
package main

import (
	"context"
	"flag"
	"os"

	"github.com/sluiceml/sluice/bench/internal/compare"
)

func main() {
	serve := flag.String("serve", "", "serve the model in this folder, until standard input ends; for the bench itself")
	text := flag.String("answer", "", "send this text to whoever asks, until standard input ends; for the bench itself")
	batch := flag.Int("max-batch", 0, "with -serve: max_batch of the target")
	others := flag.Bool("peers", true, "measure others too: MLServer, installed under "+compare.Cache+" if it is missing, and the Triton that make installs")
	flag.Parse()
	compare.Main(func(ctx context.Context) error {
		if *serve != "" {
			return serveModel(ctx, *serve, *batch)
		}
		if *text != "" {
			return serveHTTP(ctx, *text)
		}
		return run(ctx, *others)
	})
}

func run(ctx context.Context, others bool) error {
	dir, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	small, err := writeMLP(dir, "small", 1, 16)
	if err != nil {
		return err
	}
	large, err := writeMLP(dir, "large", 3, 4096)
	if err != nil {
		return err
	}
	if err := measureAdded(ctx, small); err != nil {
		return err
	}
	if err := measureBatching(ctx, large); err != nil {
		return err
	}
	if !others {
		return nil
	}
	for _, peer := range []struct {
		name    string
		compare func(context.Context, mlp) error
	}{{"mlserver", compareMLServer}, {"triton", compareTriton}} {
		if err := peer.compare(ctx, small); ctx.Err() != nil {
			return ctx.Err()
		} else if err != nil {
			compare.Say("%s is skipped: %v", peer.name, err)
		}
	}
	return nil
}
