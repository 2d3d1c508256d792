package agent

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sluiceml/sluice/internal/proc"
	"github.com/sluiceml/sluice/store/steplog"
)

// output copies what is printed to the log and to a tail.
type output struct {
	stored *steplog.Writer
	tail   *proc.Tail
	last   atomic.Int64 // when it was last written to, in nanoseconds since 1970
}

// of returns the writer for the output of one rank, or for steplog.NoRank.
func (o *output) of(rank int) io.Writer { return rankOutput{o, rank} }

type rankOutput struct {
	*output
	rank int
}

func (o rankOutput) Write(b []byte) (int, error) {
	o.last.Store(time.Now().UnixNano())
	o.stored.Write(o.rank, b)
	return o.tail.Write(b)
}

// openLog starts the node's log with the output of the preparation.
func (n *node) openLog(p *prepared, nodes, ranks int) *steplog.Writer {
	of := steplog.Source{Run: p.key.Run, Step: p.key.Step, Generation: p.key.Generation, Node: p.index}
	w := steplog.NewWriter(n.store, of, nodes, ranks, func(err error) {
		n.log.Warn("the output of the ranks cannot be stored at the moment; trying again", "error", err)
	})
	w.Write(steplog.NoRank, []byte(p.mask.Text(p.said.String())))
	return w
}

// rank returns the global number of one of the node's ranks.
func (r *ranks) rank(local int) int { return r.p.index*r.launch.ranks + local }

// openOutput opens the outputs of the ranks and of their launcher.
func (r *ranks) openOutput(nodes int) error {
	r.stored = r.node.openLog(r.p, nodes, r.launch.ranks)
	r.said = &output{stored: r.stored, tail: proc.NewTail(tailLines)}
	r.started, r.out = r.said, r.p.mask.Writer(r.said.of(r.rank(0)))
	if !r.launch.watched() {
		return nil
	}
	r.started = &output{stored: r.stored, tail: proc.NewTail(tailLines)}
	r.out = r.p.mask.Writer(r.started.of(steplog.NoRank))
	for local := range r.launch.ranks {
		p, err := openPipe(outputPipe(r.launch.dir, local), r.p.mask.Writer(r.said.of(r.rank(local))))
		if err != nil {
			err = errors.Join(err, r.closeOutput())
			r.stored.Close()
			return err
		}
		r.pipes = append(r.pipes, p)
	}
	return nil
}

// closeOutput waits until everything that was printed has been copied.
func (r *ranks) closeOutput() error {
	errs := []error{r.out.Close()}
	for _, p := range r.pipes {
		errs = append(errs, p.close())
	}
	return errors.Join(errs...)
}

// pipe carries the output of a rank past its launcher. The launcher prints a report of its own on each failure, which would hide the last
// lines of the script.
type pipe struct {
	write *os.File // held open, so that the pipe lives as long as the launcher
	done  chan error
}

// openPipe creates a pipe and copies what is written to it until it is closed.
func openPipe(path string, to io.WriteCloser) (*pipe, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		return nil, err
	}
	read, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	write, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return nil, errors.Join(err, read.Close())
	}
	p := &pipe{write: write, done: make(chan error, 1)}
	go func() {
		_, err := io.Copy(to, read)
		p.done <- errors.Join(err, to.Close(), read.Close())
	}()
	return p, nil
}

// close waits until everything has been copied. No other process may still have the pipe open.
func (p *pipe) close() error {
	return errors.Join(p.write.Close(), <-p.done)
}
