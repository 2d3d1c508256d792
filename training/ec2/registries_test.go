package ec2

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/training"
)

// An image is pulled with the logins of the environment, and with the role's from Amazon ECR. They are in no user data, and nowhere on the
// machine when the image runs.
func TestRegistries(t *testing.T) {
	const password = "ghp it's a token"
	hub := base64.StdEncoding.EncodeToString([]byte("acme:" + password))
	for _, test := range []struct {
		name, image string
		registries  map[string]spec.RegistryLogin
		want        string
	}{
		{"no login", "ghcr.io/acme/train:1", nil, "cat: /nowhere/config.json: No such file or directory\n"},
		{
			"logins", "ghcr.io/acme/train:1",
			map[string]spec.RegistryLogin{"ghcr.io": {User: "acme", PasswordSecret: "token"}, "docker.io": {User: "acme", PasswordSecret: "token"}},
			fmt.Sprintf(`{"auths":{"ghcr.io":{"auth":%q},"https://index.docker.io/v1/":{"auth":%q}}}`, hub, hub),
		},
		{"ECR", "1.dkr.ecr.eu-central-1.amazonaws.com/train:1", nil, `{"auths": {"ECR": {}}}` + "\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, func(o *Options) {
				o.Spec.Registries = test.registries
				o.Secret = func(_ context.Context, name string) (string, error) {
					if name != "token" {
						return "", errors.New("no such secret")
					}
					return password, nil
				}
			})
			r := request(1, 1, 1)
			r.Image = test.image
			gang, err := w.Acquire(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			defer release(t, w.Pool, r.Key)
			id, _, _ := strings.Cut(gang.Nodes[0].Name, " ")
			if diff := cmp.Diff(test.want, w.machines.read(id, "logins")); diff != "" {
				t.Errorf("docker's logins (-want +got):\n%s", diff)
			}
			for _, name := range []string{"part-001", "node/env", "docker", "run/docker/config.json", "console", "agent.log"} {
				if said := w.machines.read(id, name); strings.Contains(said, hub) || strings.Contains(said, password) || strings.Contains(said, "ECR's") {
					t.Errorf("%s has the login: %s", name, said)
				}
			}
		})
	}
}

func TestNoLogin(t *testing.T) {
	t.Run("the role may not", func(t *testing.T) {
		w := newWorld(t, nil)
		const last = "cannot pull the image 2.dkr.ecr.eu-central-1.amazonaws.com/train:1: no login to 2.dkr.ecr.eu-central-1.amazonaws.com: access denied: no role"
		w.front.set(func(f *front) {
			f.reason = shutItself + " Instance initiated shutdown"
			f.console = base64.StdEncoding.EncodeToString([]byte("sluice-node: " + last + "\n"))
		})
		r := request(1, 1, 1)
		r.Image = "2.dkr.ecr.eu-central-1.amazonaws.com/train:1"
		if _, err := w.Acquire(t.Context(), r); training.RefusalOf(err) != training.ErrPermission || !strings.Contains(err.Error(), "access denied") {
			t.Errorf("Acquire: %v, want ErrPermission and why", err)
		}
		for _, id := range w.machines.booted() {
			if said := w.machines.read(id, "console"); !strings.Contains(said, last) {
				t.Errorf("the console says %q, want %q", said, last)
			}
		}
	})
	t.Run("the secret is sealed", func(t *testing.T) {
		w := newWorld(t, func(o *Options) {
			o.Spec.Registries = map[string]spec.RegistryLogin{"ghcr.io": {User: "acme", PasswordSecret: "token"}}
			o.Secret = func(context.Context, string) (string, error) {
				return "", errors.New("sealed")
			}
		})
		if _, err := w.Acquire(t.Context(), request(1, 1, 1)); err == nil || training.RefusalOf(err) != "" || !strings.Contains(err.Error(), "ghcr.io") {
			t.Errorf("Acquire: %v, want an error that is no refusal of EC2, and the registry", err)
		}
		if left := w.left(t, request(1, 1, 1).Key); len(left) > 0 {
			t.Errorf("it has left %q", left)
		}
	})
}
