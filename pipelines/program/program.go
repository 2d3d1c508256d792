// Package program lets a user's program transform rows: JSON lines in, JSON lines out, an answer for every row, with a restart when the
// program dies.
//
// A row is sent as a JSON object on one line, with a number in the field _row. The program answers each row, in any order, with a line that
// has the same _row: the new row, or {"_row": 7, "_drop": "rule"}, or {"_row": 7, "_reject": "reason"}.
//
// A program may hold back answers until the end of its input, because its output is buffered or because it processes several rows at a
// time. So if no answer comes for a while and no more rows can be sent, its input is ended, and the next rows go to a new process.
package program

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/proc"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// Spec says what to run.
type Spec struct {
	// Name is the name of the transform, for errors.
	Name string
	// Path, Args, Dir and Env are as in proc.Command.
	Path string
	Args []string
	Dir  string
	Env  []string
	// Stderr receives the program's stderr, from several processes at once. Nil discards it.
	Stderr io.Writer
	// MaxRestarts is how often all processes together may be restarted after they died.
	MaxRestarts int
}

// fault returns an error that is the program's fault, of type user.
func (s Spec) fault(format string, args ...any) error {
	return fault.Errorf(fault.User, "transform %s: %s", s.Name, fmt.Sprintf(format, args...))
}

const (
	// maxLine bounds a line of the program's output. It exceeds the limit of a row, since a row that is slightly too long is rejected and
	// does not fail the step.
	maxLine = rows.MaxSize + rows.MaxSize/2
	// tailLines is how many lines of the program's stderr go into an error.
	tailLines = 20
	// hopeless is how many deaths fail the step if no row was ever answered.
	hopeless = 3
	// maxWords bounds the number of different rules and reasons of a program.
	maxWords = 100
	// stopGrace is the time between SIGTERM and SIGKILL, and the time a program has to exit after the end of its input or output.
	stopGrace = 10 * time.Second
	// leastPatience and mostPatience bound the silence after which a program's input is ended.
	leastPatience = time.Second
	mostPatience  = 10 * time.Minute
)

// Pool holds the processes of one program and reuses them for several feeds. It is safe for concurrent use.
type Pool struct {
	ctx  context.Context
	spec Spec
	tail *proc.Tail

	mu       sync.Mutex
	idle     []*process
	deaths   int
	answered bool
	slowest  time.Duration   // the longest silence before an answer
	words    map[string]bool // rules and reasons
	// withholds is set if the end of the input, after a long silence, made the program answer at once.
	withholds bool
}

// NewPool returns a pool without processes. The end of ctx kills its processes; the caller must still call Close.
func NewPool(ctx context.Context, spec Spec) *Pool {
	return &Pool{ctx: ctx, spec: spec, tail: proc.NewTail(tailLines), words: map[string]bool{}}
}

// Close ends the idle processes and waits for them.
func (p *Pool) Close() error {
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	var all []error
	for _, one := range idle {
		one.endInput()
	}
	for _, one := range idle {
		timer := time.AfterFunc(stopGrace, one.cut)
		for line := range one.out {
			all = append(all, p.spec.fault("the program wrote another line after answering every row: %s", show(line)))
		}
		timer.Stop()
		all = append(all, p.lastExit(one))
	}
	return errors.Join(all...)
}

// lastExit returns an error if a process that has answered all its rows exited by itself with an error, which means that something went
// wrong.
func (p *Pool) lastExit(one *process) error {
	if one.fault != nil || one.exit.OK() || one.wasCut.Load() || p.ctx.Err() != nil {
		return one.fault
	}
	return p.spec.fault("the program answered every row and then exited with %s%s", one.exit, p.lastWords())
}

// take returns an idle process, or starts one.
func (p *Pool) take() (*process, error) {
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		one := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return one, nil
	}
	p.mu.Unlock()
	one, err := start(p.ctx, p.spec, p.tail)
	if err != nil && p.ctx.Err() == nil {
		err = p.spec.fault("start the program: %s", err)
	}
	return one, err
}

func (p *Pool) giveBack(one *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, one)
}

// spoke records an answer after a silence; sinceEnd is the part of the silence after the end of the input, or negative.
func (p *Pool) spoke(silence, sinceEnd time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if sinceEnd >= 0 && sinceEnd < (silence-sinceEnd)/4 {
		p.withholds = true
		return
	}
	p.answered = true
	p.slowest = max(p.slowest, silence)
}

// knows records a rule or a reason, and reports whether there are at most maxWords of them.
func (p *Pool) knows(word string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.words) < maxWords || p.words[word] {
		p.words[word] = true
		return true
	}
	return false
}

// patience returns how long a silence may last before the program's input is ended. atRest says that the program gets no more rows for now.
func (p *Pool) patience(atRest bool) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.withholds && atRest {
		return 0
	}
	return min(max(2*p.slowest, leastPatience), mostPatience)
}

// died records that a process exited too early, and returns an error if that has happened too often.
func (p *Pool) died(exit proc.Exit) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaths++
	switch {
	case !p.answered && !p.withholds && p.deaths >= hopeless:
		return p.spec.fault("the program exited %d times (the last time with %s) without ever answering a row%s", p.deaths, exit, p.lastWords())
	case p.deaths > p.spec.MaxRestarts:
		return p.spec.fault("the program died %d times (the last time with %s), more than max_restarts, %d%s", p.deaths, exit, p.spec.MaxRestarts, p.lastWords())
	}
	return nil
}

// company returns how many of n rows with which a process died may be sent together in order to find the one that kills it. It is one,
// except for a program that answers only at the end of its input, where each attempt costs a process.
func (p *Pool) company(n int) int {
	if n == 0 {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.withholds {
		return max(1, n/16)
	}
	return 1
}

func (p *Pool) lastWords() string {
	return cmp.Or(p.tail.Explain(), "; it wrote nothing to stderr")
}

// Answer is the program's answer for a row.
type Answer struct {
	// Row is the new row, unless one of the other fields is set.
	Row rows.Row
	// Drop is the rule that drops the row, Reject the reason for rejecting it, and Message the details.
	Drop, Reject, Message string
}

// The reasons for rejecting a row that the program did not answer.
const (
	NoAnswer = "no_answer"
	Crashed  = "crashed"
)

// sortedFlight returns rows in the order in which they were sent.
func sortedFlight(flight map[int64]*item) []*item {
	items := make([]*item, 0, len(flight))
	for _, it := range flight {
		items = append(items, it)
	}
	slices.SortFunc(items, func(a, b *item) int { return int(a.number - b.number) })
	return items
}

// show returns a line in the form used in errors.
func show(line []byte) string { return fmt.Sprintf("%.200q", line) }
