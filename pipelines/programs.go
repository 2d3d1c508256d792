package pipelines

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/script"
	"github.com/sluiceml/sluice/pipelines/program"
)

// Programs is the environment that the programs of Exec transforms run in.
type Programs struct {
	// Dir is their working folder. Env is their whole environment, which may hold secrets.
	Dir string   `json:"dir,omitempty"`
	Env []string `json:"env,omitempty"`
	// Log receives what they write to stderr, from one goroutine at a time. Nil discards it.
	Log io.Writer `json:"-"`
}

// programs holds a job's program pools by transform. All workers of the process share them.
type programs struct {
	ctx   context.Context
	given Programs
	mu    sync.Mutex
	pools map[string]*program.Pool
}

func newPrograms(ctx context.Context, given Programs) *programs {
	return &programs{ctx: ctx, given: given, pools: map[string]*program.Pool{}}
}

// pool returns the process pool of a transform, creating it on first use.
func (p *programs) pool(name string, c transform.Exec) (*program.Pool, error) {
	if p == nil {
		return nil, errors.New("a program can only run on the machine that the clean step was started on")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if pool, ok := p.pools[name]; ok {
		return pool, nil
	}
	path, err := script.LookPath(c.Command[0], p.given.Dir, p.given.Env)
	if err != nil {
		return nil, fault.Errorf(fault.User, "transform %s: %w", name, err)
	}
	p.pools[name] = program.NewPool(p.ctx, program.Spec{
		Name: name, Path: path, Args: c.Command[1:], Dir: p.given.Dir, Env: p.given.Env, Stderr: p.given.Log, MaxRestarts: c.MaxRestarts,
	})
	return p.pools[name], nil
}

// close stops the programs.
func (p *programs) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	for _, pool := range p.pools {
		err = errors.Join(err, pool.Close())
	}
	clear(p.pools)
	return err
}
