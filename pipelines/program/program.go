// Package program has a program of the user's transform rows: JSON lines in, JSON lines out, every row answered for, and started again
// when it dies.
//
// A row goes in as a JSON object on one line, with a number in the field _row. The program answers each with a line that has the same
// _row, in any order: the row as it shall be, or {"_row": 7, "_drop": "rule"}, or {"_row": 7, "_reject": "reason"}.
//
// A program may hold answers back, because its output is buffered or because it works on several rows at a time, until its input
// ends. So when nothing comes for a while and it is given nothing more, its input is ended, and the next rows go to a new process.
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
	// Name is that of the transform, which errors are of.
	Name string
	// Path, Args, Dir and Env are those of proc.Command.
	Path string
	Args []string
	Dir  string
	Env  []string
	// Stderr receives what the program writes there, from several processes at once. Nil: nobody.
	Stderr io.Writer
	// MaxRestarts is how often all processes together may be started again because they died.
	MaxRestarts int
}

// fault is an error of the program's, for the user.
func (s Spec) fault(format string, args ...any) error {
	return fault.Errorf(fault.User, "transform %s: %s", s.Name, fmt.Sprintf(format, args...))
}

const (
	// maxLine bounds a line of the program's: a row that is a little too long is rejected, and no fault of the program's.
	maxLine = rows.MaxSize + rows.MaxSize/2
	// tailLines is how much of what the program wrote to stderr stands in an error.
	tailLines = 20
	// hopeless is how many deaths are enough when no row was ever answered.
	hopeless = 3
	// maxWords bounds the different rules and reasons of a program.
	maxWords = 100
	// stopGrace is the time between SIGTERM and SIGKILL, and the time a program has to end after its input and its output did.
	stopGrace = 10 * time.Second
	// leastPatience and mostPatience bound the silence after which a program's input is ended.
	leastPatience = time.Second
	mostPatience  = 10 * time.Minute
)

// Pool holds the processes of one program, which are kept from one Feed to the next. It may be used from several goroutines.
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
	// withholds is set when the end of its input made the program speak at once, after a long silence.
	withholds bool
}

// NewPool makes a pool without any process. The end of ctx ends the processes; Close must be called all the same.
func NewPool(ctx context.Context, spec Spec) *Pool {
	return &Pool{ctx: ctx, spec: spec, tail: proc.NewTail(tailLines), words: map[string]bool{}}
}

// Close ends the processes that no Feed has. It waits for them.
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

// lastExit returns an error when a process that has answered all its rows ended by itself, and not well: it says that something went wrong.
func (p *Pool) lastExit(one *process) error {
	if one.fault != nil || one.exit.OK() || one.wasCut.Load() || p.ctx.Err() != nil {
		return one.fault
	}
	return p.spec.fault("the program answered every row and then exited with %s%s", one.exit, p.lastWords())
}

// take returns a process that waits for rows.
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

// spoke notes an answer after a silence; sinceEnd is the part of it after the end of the input, or negative.
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

// knows notes a rule or a reason, and reports whether there are not too many to count rows by.
func (p *Pool) knows(word string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.words) < maxWords || p.words[word] {
		p.words[word] = true
		return true
	}
	return false
}

// patience is how long a silence may last before the program's input is ended. At rest it is given no more rows for now.
func (p *Pool) patience(atRest bool) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.withholds && atRest {
		return 0
	}
	return min(max(2*p.slowest, leastPatience), mostPatience)
}

// died notes that a process ended before it should have, and returns an error when that is too much.
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

// company is how many of n rows that a process died with may be sent together, to find the one that kills it: one, but for a program
// that answers only at the end of its input, so that each time costs a process.
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

// Answer is what became of a row.
type Answer struct {
	// Row is the row as it shall be, unless one of the others is set.
	Row rows.Row
	// Drop is the rule that drops the row, Reject the reason it is rejected for, and Message the case at hand.
	Drop, Reject, Message string
}

// The reasons for rejecting a row that the program gave no answer to.
const (
	NoAnswer = "no_answer"
	Crashed  = "crashed"
)

// sortedFlight returns rows in the order they were sent in.
func sortedFlight(flight map[int64]*item) []*item {
	items := make([]*item, 0, len(flight))
	for _, it := range flight {
		items = append(items, it)
	}
	slices.SortFunc(items, func(a, b *item) int { return int(a.number - b.number) })
	return items
}

// show is a line as an error shows it.
func show(line []byte) string { return fmt.Sprintf("%.200q", line) }
