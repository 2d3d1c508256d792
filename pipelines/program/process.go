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

// process is one run of the program. It is used by one goroutine at a time, besides its own two.
type process struct {
	child *proc.Process
	// in accepts lines until endInput, even if the program does not read them. out is closed when the program has exited; exit and fault
	// are set by then.
	in      chan []byte
	out     chan []byte
	exit    proc.Exit
	fault   error
	endedAt time.Time // when the input was ended
	wasCut  atomic.Bool

	sent     int64 // number of lines, which is also the number of the last one
	answered int64
}

// queued is how many lines may be buffered in each direction.
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

// endInput closes the program's stdin after the lines that are already queued.
func (p *process) endInput() {
	p.endedAt = time.Now()
	close(p.in)
}

// cut kills a program that does not exit although its input or output has ended.
func (p *process) cut() {
	p.wasCut.Store(true)
	p.child.Kill()
}

// ended reports whether the input was ended.
func (p *process) ended() bool { return !p.endedAt.IsZero() }

// write writes lines to the program's stdin. If the program has closed it, the lines are discarded; the end of the process is handled
// elsewhere.
func (p *process) write(to io.WriteCloser) {
	defer to.Close()
	w := bufio.NewWriterSize(to, 64<<10)
	for line := range p.in {
		_, err := w.Write(line)
		if err == nil && len(p.in) == 0 {
			err = w.Flush()
		}
		if err != nil {
			for range p.in { // the sender must not block
				continue
			}
			return
		}
	}
	_ = w.Flush()
}

// read passes on the lines of the program's stdout, and then waits for the program to exit.
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
	timer := time.AfterFunc(stopGrace, p.cut) // without output it cannot answer any more
	defer timer.Stop()
	exit, err := p.child.Wait()
	if errors.Is(err, proc.ErrLost) {
		err = nil // it was killed; exit says so
	}
	p.exit, p.fault = exit, errors.Join(p.fault, err)
}

// discard kills the program and waits for it to exit.
func (p *process) discard() {
	if !p.ended() {
		p.endInput()
	}
	p.child.Kill()
	for range p.out { // discard the answers
		continue
	}
}
