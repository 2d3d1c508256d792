package embedded

import (
	"context"
	"log/slog"

	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/onnx"
	"github.com/sluiceml/sluice/store"
)

// Serve starts the gateway of a target on a loopback port, with ONNX Runtime in this process. dir is a folder of its own, which is
// emptied. gateway.ErrPortInUse when the port is taken.
func Serve(ctx context.Context, s *store.Store, target string, port int, dir string, log *slog.Logger) (*gateway.Server, error) {
	return gateway.Serve(ctx, port, gateway.Options{Store: s, Target: target, Load: load, Dir: dir, Logger: log})
}

// load opens the one .onnx file of a model artifact.
func load(_ context.Context, dir string) (gateway.Upstream, error) {
	file, err := onnx.ModelFile(dir)
	if err != nil {
		return nil, err
	}
	session, err := onnx.Open(file, onnx.Options{})
	if err != nil {
		return nil, err
	}
	return session, nil
}
