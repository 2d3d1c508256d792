package ec2

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
)

// dockerHub is what Docker calls docker.io in its configuration.
const dockerHub = "https://index.docker.io/v1/"

// dockerConfig is the configuration of Docker with the pool's logins to registries; nil without any.
func (p *Pool) dockerConfig(ctx context.Context) ([]byte, error) {
	if len(p.opts.Spec.Registries) == 0 {
		return nil, nil
	}
	type login struct {
		Auth string `json:"auth"`
	}
	auths := map[string]login{}
	for host, registry := range p.opts.Spec.Registries {
		password, err := p.opts.Secret(ctx, registry.PasswordSecret)
		if err != nil {
			return nil, fmt.Errorf("the login to the registry %s: %w", host, err)
		}
		server := cmp.Or(map[string]string{"docker.io": dockerHub}[host], host)
		auths[server] = login{base64.StdEncoding.EncodeToString([]byte(registry.User + ":" + password))}
	}
	return json.Marshal(map[string]any{"auths": auths})
}
