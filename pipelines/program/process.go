package program

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluiceml/sluice/internal/proc"
)

// process is one life of the program. It belongs to one goroutine at a time, beside its own two.
type process struct {
	child *proc.Process
	// in takes lines until endInput; the program need not read them. out is closed when the program has ended, and has said so in
	// exit and fault by then.
	in      chan []byte
	out     chan []byte
	exit    proc.Exit
	fault   error
	endedAt time.Time // of the input
	wasCut  atomic.Bool

	sent     int64 // lines, and the number of the last
	answered int64
}

// queued is how many lines may wait on the way to and from the program.
const queued = 64

func start(ctx context.Context, spec Spec, tail *proc.Tail) (*process, error) {
	stdin, toStdin, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	fromStdout, stdout, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, stdin.Close(), toStdin.Close())
	}
	var stderr io.Writer = tail
	if spec.Stderr != nil {
		stderr = io.MultiWriter(tail, spec.Stderr)
	}
	child, err := proc.Start(ctx, proc.Command{
		Path: spec.Path, Args: spec.Args, Dir: spec.Dir, Env: spec.Env, Stdin: stdin, Stdout: stdout, Stderr: stderr, Grace: stopGrace,
	})
	stdin.Close()
	stdout.Close()
	if err != nil {
		return nil, errors.Join(err, toStdin.Close(), fromStdout.Close())
	}
	p := &process{child: child, in: make(chan []byte, queued), out: make(chan []byte, queued)}
	go p.write(toStdin)
	go p.read(fromStdout, spec)
	return p, nil
}

// endInput closes the program's stdin behind what is on the way to it.
func (p *process) endInput() {
	p.endedAt = time.Now()
	close(p.in)
}

// cut kills a program that does not end, although it has answered all its rows and its input has ended.
func (p *process) cut() {
	p.wasCut.Store(true)
	p.child.Kill()
}

// ended reports whether the input was ended.
func (p *process) ended() bool { return !p.endedAt.IsZero() }

// write writes lines to the program's stdin. What a program that has closed it does not read is written nowhere: its end tells.
func (p *process) write(to io.WriteCloser) {
	defer to.Close()
	w := bufio.NewWriterSize(to, 64<<10)
	for line := range p.in {
		_, err := w.Write(line)
		if err == nil && len(p.in) == 0 {
			err = w.Flush()
		}
		if err != nil {
			for range p.in { // who sends must not wait
				continue
			}
			return
		}
	}
	_ = w.Flush()
}

// read hands the lines of the program's stdout on, and then waits for its end.
func (p *process) read(from io.ReadCloser, spec Spec) {
	defer close(p.out)
	defer from.Close()
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	for lines.Scan() {
		if len(lines.Bytes()) > 0 {
			p.out <- slices.Clone(lines.Bytes())
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		p.fault = spec.fault("the program wrote a line of more than %d MiB, which begins with %s", maxLine>>20, show(lines.Bytes()))
		p.child.Kill()
	}
	timer := time.AfterFunc(stopGrace, p.cut) // it has closed its output, and can answer no more
	defer timer.Stop()
	exit, err := p.child.Wait()
	if errors.Is(err, proc.ErrLost) {
		err = nil // it was killed, which exit says
	}
	p.exit, p.fault = exit, errors.Join(p.fault, err)
}

// discard kills the program and waits for its end.
func (p *process) discard() {
	if !p.ended() {
		p.endInput()
	}
	p.child.Kill()
	for range p.out { // nobody wants the answers
		continue
	}
}
