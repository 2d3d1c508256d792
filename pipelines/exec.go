package pipelines

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/internal/script"
	"github.com/sluiceml/sluice/pipelines/program"
)

// Programs is what the programs of Exec transforms run with.
type Programs struct {
	// Dir is their working folder, and Env their whole environment, which may hold secrets.
	Dir string   `json:"dir,omitempty"`
	Env []string `json:"env,omitempty"`
	// Log receives what they write to stderr, from one goroutine at a time. Nil: nobody.
	Log io.Writer `json:"-"`
}

// programs are those of a job, by transform. They are shared by all workers of the process.
type programs struct {
	ctx   context.Context
	given Programs
	mu    sync.Mutex
	pools map[string]*program.Pool
}

func newPrograms(ctx context.Context, given Programs) *programs {
	return &programs{ctx: ctx, given: given, pools: map[string]*program.Pool{}}
}

// pool returns the processes of a transform. There are none before the first row.
func (p *programs) pool(transform string, c dsl.Exec) (*program.Pool, error) {
	if p == nil {
		return nil, errors.New("a program can only run on the machine that the cleaning was started on")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if pool, ok := p.pools[transform]; ok {
		return pool, nil
	}
	path, err := script.LookPath(c.Command[0], p.given.Dir, p.given.Env)
	if err != nil {
		return nil, fault(TypeUser, "transform %s: %w", transform, err)
	}
	p.pools[transform] = program.NewPool(p.ctx, program.Spec{
		Path: path, Args: c.Command[1:], Dir: p.given.Dir, Env: p.given.Env, Stderr: p.given.Log, MaxRestarts: c.MaxRestarts,
		Decode:  decodeAnswer,
		MaxLine: maxRow + maxRow/2, // a row that is a little too long is rejected, and no fault of the program's
	})
	return p.pools[transform], nil
}

// decodeAnswer reads an answer of a program.
func decodeAnswer(text []byte) (map[string]any, error) {
	r, err := decodeRow(text)
	if why := (*rejection)(nil); r != nil && errors.As(err, &why) {
		return r, &program.Unfit{Reason: why.reason, Message: why.message}
	}
	return r, err
}

// close ends the programs.
func (p *programs) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	for name, pool := range p.pools {
		if closeErr := pool.Close(); closeErr != nil {
			err = errors.Join(err, programFault(name, closeErr))
		}
	}
	clear(p.pools)
	return err
}

// compileExec has a program answer for the rows.
func compileExec(t dsl.Transform, p *programs) (*program.Pool, error) {
	c, err := decodeConfig[dsl.Exec](t)
	if err != nil {
		return nil, err
	}
	if len(c.Command) == 0 {
		return nil, errors.New("command: say what to run")
	}
	return p.pool(t.Name, c)
}

// programFault says of a program's fault whose it is.
func programFault(transform string, err error) error {
	if e := (*Error)(nil); errors.As(err, &e) {
		return err // it says where
	}
	if f := (*program.Fault)(nil); errors.As(err, &f) {
		return fault(TypeUser, "transform %s: %w", transform, f)
	}
	return err
}

// reserved are the fields that say to a program and by it what a row's own fields cannot.
var reserved = []string{"_row", "_drop", "_reject"}

// ask takes a row to the program of an Exec. It goes on when the program has answered, which is by the end of the unit.
func (u *unitWork) ask(at int, from origin, r row) error {
	n := &u.plan.nodes[at]
	for _, field := range reserved {
		if _, ok := r[field]; ok {
			return u.answered(n, from, r, program.Answer{Reject: "reserved_field", Message: "a row for a program must have no field " + field})
		}
	}
	u.dead.unordered = true
	text, err := encodeRow(r)
	if err != nil {
		return err
	}
	f, ok := u.feeds[at]
	if !ok {
		f = n.row.program.Feed()
		u.feeds[at] = f
	}
	return programFault(n.name, f.Send(u.ctx, text, func(a program.Answer) error { return u.answered(n, from, r, a) }))
}

// answered takes a row on with what the program has made of it.
func (u *unitWork) answered(n *node, from origin, r row, a program.Answer) error {
	var err error
	switch {
	case a.Drop != "":
		err = &dropped{rule: a.Drop}
	case a.Reject != "":
		err = &rejection{reason: a.Reject, message: a.Message}
	}
	if err = u.watched(n, err); err != nil {
		return u.leave(n, from, r, err)
	}
	return u.pass(n.next, from, a.Row)
}

// do works on the unit, until its last row has come to an end.
func (u *unitWork) do(work func(*unitWork) error) error {
	if err := work(u); err != nil {
		return err
	}
	return u.drain()
}

// looseRows is how many rows of a unit may wait for their place in the dead letter, about. Most units are smaller.
const looseRows = 1 << 20

// tidy drains the unit now and then.
func (u *unitWork) tidy() error {
	if u.rows++; u.rows%looseRows != 0 {
		return nil
	}
	return u.drain()
}

// drain waits for the answers to all rows, of a program before one that its rows go on to, and orders what was rejected.
func (u *unitWork) drain() error {
	for at := range u.plan.nodes {
		if f, ok := u.feeds[at]; ok {
			if err := f.Flush(u.ctx); err != nil {
				return programFault(u.plan.nodes[at].name, err)
			}
		}
	}
	return u.dead.order()
}

// stopFeeds gives the programs back.
func (u *unitWork) stopFeeds() {
	for _, f := range u.feeds {
		f.Close()
	}
}
