// Package fleet runs replicas of `sluice serve`, each in a process of its own, and clients that ask them all the time.
package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/internal/proc"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/store"
)

// Name is the target that a fleet serves. Its models take a text.
const Name = "words"

// startLimit bounds the wait until a replica answers; a machine may be busy.
const startLimit = time.Minute

// Fleet is replicas of one target, and what rollouts do with them.
type Fleet struct {
	Store    *store.Store
	Target   *gateway.Target
	Replicas []*Replica
	// Doc is the newest routing document that was written here.
	Doc routing.Document
}

// Replica is one process of `sluice serve`, at the same address whenever it is started.
type Replica struct {
	URL string

	program string
	args    []string
	env     []string
	cmd     *exec.Cmd
	said    bytes.Buffer
}

// Start starts replicas of a program, with a store and folders of their own in dir.
func Start(ctx context.Context, program, dir string, replicas int) (*Fleet, error) {
	s, err := store.Open(ctx, "file://"+filepath.Join(dir, "store"))
	if err != nil {
		return nil, err
	}
	f := &Fleet{Store: s, Doc: routing.Document{Target: Name}}
	for i := range replicas {
		port, err := proc.FreePort(ctx, "127.0.0.1")
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		state := filepath.Join(dir, fmt.Sprintf("replica-%d", i+1))
		if err := os.MkdirAll(state, 0o700); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		environment := filepath.Join(state, "environment.yaml")
		text := fmt.Sprintf("sluice: environment/v1\nname: fleet\ntargets: {%s: {embedded: {port: %d, instances: 1}}}\n", Name, port)
		if err := os.WriteFile(environment, []byte(text), 0o600); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		r := &Replica{
			URL: fmt.Sprintf("http://127.0.0.1:%d", port), program: program, args: []string{"serve", "-e", environment, "--state", state},
			env: append(os.Environ(), "SLUICE_STORE="+s.URL()),
		}
		f.Replicas = append(f.Replicas, r)
		if err := r.Start(ctx); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	f.Target = gateway.NewTarget(s, Name, f.Replicas[0].URL, "")
	return f, nil
}

// Close kills all replicas.
func (f *Fleet) Close() error {
	var errs []error
	for _, r := range f.Replicas {
		errs = append(errs, r.Kill())
	}
	return errors.Join(errs...)
}

// Load loads a model from a file as a release without traffic, and returns its version.
func (f *Fleet) Load(ctx context.Context, model, run string) (string, error) {
	dir, err := os.MkdirTemp("", "fleet-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	raw, err := os.ReadFile(model)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "model.onnx"), raw, 0o600); err != nil {
		return "", err
	}
	ref, err := f.Store.PutTree(ctx, artifact.Model, dir, nil, nil)
	if err != nil {
		return "", err
	}
	doc, release, err := f.Target.Load(ctx, f.Doc.Revision, routing.Release{Model: ref, Run: run, Step: "ship"}, nil)
	if err != nil {
		return "", err
	}
	f.Doc = doc
	return release.Version, nil
}

// Split changes the traffic, and returns when it flows so.
func (f *Fleet) Split(ctx context.Context, split gateway.Split) error {
	doc, err := f.Target.SetTraffic(ctx, f.Doc.Revision, split)
	if err == nil {
		f.Doc = doc
	}
	return err
}

// Start starts the replica's process, and returns when it answers.
func (r *Replica) Start(ctx context.Context) error {
	r.said.Reset()
	r.cmd = exec.CommandContext(context.WithoutCancel(ctx), r.program, r.args...) // Kill ends it
	r.cmd.Env, r.cmd.Stdout, r.cmd.Stderr = r.env, &r.said, &r.said
	if err := r.cmd.Start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for range poll.Every(ctx, 20*time.Millisecond) {
		if r.answers(ctx, "/v2/health/live") {
			return nil
		}
	}
	return errors.Join(fmt.Errorf("the replica at %s does not answer", r.URL), r.Kill(), errors.New(r.said.String()))
}

// Ready reports whether a load balancer would send the replica requests.
func (r *Replica) Ready(ctx context.Context) bool { return r.answers(ctx, "/v2/health/ready") }

func (r *Replica) answers(ctx context.Context, path string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL+path, nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	return err == nil && resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
}

// Kill kills the replica, which may be started again.
func (r *Replica) Kill() error {
	if r.cmd == nil {
		return nil
	}
	err := r.cmd.Process.Kill()
	_ = r.cmd.Wait() // it was killed
	r.cmd = nil
	return err
}

// Freeze stops the replica in the midst of what it does, and Thaw lets it go on.
func (r *Replica) Freeze() error { return r.cmd.Process.Signal(syscall.SIGSTOP) }

// Thaw lets a frozen replica go on.
func (r *Replica) Thaw() error { return r.cmd.Process.Signal(syscall.SIGCONT) }
