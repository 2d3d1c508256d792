package gateway

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/store"
)

// Loader loads a release, whose model artifact is in a folder. The folder is removed after it returns.
type Loader func(ctx context.Context, r routing.Release, dir string, waiting func(string)) (Upstream, error)

// Local returns an Opener that brings a release's model from the store and loads it into this process. dir is a folder of its own for
// models on their way to memory, which is emptied.
func Local(s *store.Store, dir string, load Loader) (Opener, error) {
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700)); err != nil {
		return nil, fmt.Errorf("the gateway's folder for models: %w", err)
	}
	return func(ctx context.Context, r routing.Release, waiting func(string)) (Upstream, error) {
		tmp, err := os.MkdirTemp(dir, "model-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(tmp) // what stays behind goes at the next start
		model := filepath.Join(tmp, "model")
		if err := s.Fetch(ctx, r.Model, model); err != nil {
			return nil, err
		}
		return load(ctx, r, model, waiting)
	}, nil
}
