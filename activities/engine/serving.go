package engine

import (
	"context"

	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/store"
)

// servingRun returns the run behind the release that serves at a target now; empty when none does.
func servingRun(ctx context.Context, s *store.Store, target string) (string, error) {
	doc, err := routing.Current(ctx, s, target)
	if err != nil {
		return "", err
	}
	release, _ := doc.Serving()
	return release.Run, nil
}
