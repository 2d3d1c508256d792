// Package embedded is the serving target inside Sluice: a gateway on loopback whose releases run on ONNX Runtime in the same process.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/onnx"
	"github.com/sluiceml/sluice/serving/plan"
	"github.com/sluiceml/sluice/store"
)

// Serve starts the gateway of a target on loopback, with ONNX Runtime in this process. dir is a folder of its own, which is emptied.
// gateway.ErrPortInUse when a port is taken.
func Serve(ctx context.Context, s *store.Store, target string, ports gateway.Ports, dir, labelKey string, log *slog.Logger) (*gateway.Server, error) {
	open, err := gateway.Local(s, dir, load)
	if err != nil {
		return nil, fmt.Errorf("target %s: %w", target, err)
	}
	return gateway.Serve(ctx, ports, gateway.Options{Store: s, Target: target, Open: open, LabelKey: labelKey, Logger: log})
}

// load opens the one .onnx file of a model artifact.
func load(_ context.Context, dir string) (gateway.Upstream, error) {
	if _, err := os.Stat(filepath.Join(dir, plan.File)); err == nil {
		return nil, errors.New("the model is a TensorRT engine, which only a server with a GPU can load, and an embedded target runs ONNX " +
			"Runtime on the CPU: release an `onnx` variant of the compile step")
	}
	file, err := onnx.ModelFile(dir)
	if err != nil {
		return nil, err
	}
	session, err := onnx.Open(file)
	if err != nil {
		return nil, err
	}
	return session, nil
}
