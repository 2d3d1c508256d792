package checkpoint

import (
	"context"
	"path"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/training"
)

func environmentKey(k training.Key) string { return path.Join(folder(k), "environment.json") }

// PutEnvironment leaves for a training's agents what they need of its environment, which is where the values of secrets come from. They need
// not compile the environment's document for it.
func PutEnvironment(ctx context.Context, s *store.Store, k training.Key, env *spec.Environment) error {
	return s.PutJSON(ctx, environmentKey(k), spec.Environment{Name: env.Name, Secrets: env.Secrets, Vault: env.Vault}, store.WriteOptions{})
}

// GetEnvironment returns what PutEnvironment left.
func GetEnvironment(ctx context.Context, s *store.Store, k training.Key) (*spec.Environment, error) {
	var env spec.Environment
	err := s.GetJSON(ctx, environmentKey(k), &env)
	return &env, err
}
