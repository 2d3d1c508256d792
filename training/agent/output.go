package agent

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sluiceml/sluice/internal/proc"
	"github.com/sluiceml/sluice/internal/script"
)

// rankLog is the node's log, which its ranks and their launcher write to. One that cannot be written, on a full disk, must not end the
// training.
type rankLog struct {
	mu  sync.Mutex
	log *script.Log
}

func (l *rankLog) write(b []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.log.Write(b)
}

// bothWriter writes to the log and to a tail.
type bothWriter struct {
	log  *rankLog
	tail *proc.Tail
	last atomic.Int64 // when it was last written to, in nanoseconds since 1970
}

func (w *bothWriter) Write(b []byte) (int, error) {
	w.last.Store(time.Now().UnixNano())
	w.log.write(b)
	return w.tail.Write(b)
}

// pipe takes what the ranks of a launcher print, past the launcher: what that prints itself, a report of its own on each failure, would
// hide the script's last words.
type pipe struct {
	write *os.File // held open, so that the pipe lives as long as the launcher
	done  chan error
}

// openPipe makes the pipe in a folder and copies what comes through it until it is closed.
func openPipe(dir string, to io.WriteCloser) (*pipe, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, outputPipe)
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

// close returns when all has been copied; nobody else may hold the pipe open any more.
func (p *pipe) close() error {
	if p == nil {
		return nil
	}
	return errors.Join(p.write.Close(), <-p.done)
}
