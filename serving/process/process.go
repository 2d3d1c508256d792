// Package process is the serving target on processes of a command: each release has one on this machine, which is started with the release's
// model, asked once it is healthy, and started again when it ends. It ends with the gateway, however that ends.
package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/store"
)

// Serve starts the gateway of a target on this machine. dir is a folder of its own for models, which are removed, and logs, which stay.
// gateway.ErrPortInUse when a port is taken.
func Serve(
	ctx context.Context, s *store.Store, target string, t spec.ProcessTarget, ports gateway.Ports, dir, labelKey string, log *slog.Logger,
) (*gateway.Server, error) {
	r := &releases{store: s, target: target, spec: t, models: filepath.Join(dir, "models"), logs: filepath.Join(dir, "logs"), log: log}
	if err := errors.Join(os.RemoveAll(r.models), os.MkdirAll(r.models, 0o700), os.MkdirAll(r.logs, 0o700)); err != nil {
		return nil, fmt.Errorf("target %s: the folder of its processes: %w", target, err)
	}
	return gateway.Serve(ctx, ports, gateway.Options{
		Store: s, Target: target, Open: r.open, Protocol: gateway.Protocol(t.Protocol), LabelKey: labelKey,
		Timeout: time.Duration(t.Timeout), Logger: log,
	})
}

// releases starts and ends the processes of one target.
type releases struct {
	store  *store.Store
	target string
	spec   spec.ProcessTarget
	models string // the folder with a folder for each release
	logs   string
	log    *slog.Logger
}

// open is a gateway.Opener: it brings the model to this machine, starts the process and waits until it is healthy.
func (t *releases) open(ctx context.Context, r routing.Release, waiting func(string)) (gateway.Upstream, error) {
	home := filepath.Join(t.models, r.Version)
	k := &kept{releases: t, version: r.Version, home: home, model: filepath.Join(home, "model")}
	err := errors.Join(os.RemoveAll(home), os.MkdirAll(home, 0o700))
	if err == nil {
		waiting("its model to be on this machine")
		err = t.store.Fetch(ctx, r.Model, k.model)
	}
	if err == nil {
		err = k.begin(ctx, waiting)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(home))
	}
	return k, nil
}

// inherited are the variables that processes get of this one's environment: they say where things are. Others may be secrets.
var inherited = []string{
	"PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"CUDA_VISIBLE_DEVICES", "CUDA_HOME", "NVIDIA_VISIBLE_DEVICES",
}

// placeholders are what stands for other texts in the command and its variables.
func placeholders(model, port string) *strings.Replacer {
	return strings.NewReplacer("${model.path}", model, "${port}", port)
}

// environ is the whole environment of a process.
func (t *releases) environ(values *strings.Replacer) []string {
	var env []string
	for _, name := range inherited {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	for name, value := range t.spec.Env {
		env = append(env, name+"="+values.Replace(value))
	}
	return env
}

// command is the command of a process.
func (t *releases) command(values *strings.Replacer) []string {
	words := slices.Clone(t.spec.Command)
	for i, word := range words {
		words[i] = values.Replace(word)
	}
	return words
}
