// Package access writes the access log of a gateway: a line of JSON for each request, apart from the requests themselves, which never wait
// for it.
package access

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

const (
	queueSize  = 4096 // lines that wait to be written
	flushEvery = 500 * time.Millisecond
	flushAt    = 64 << 10 // bytes
	// closeTimeout bounds how long Close waits for a writer that does not take anything, such as a pipe that nobody reads.
	closeTimeout = 2 * time.Second
)

// Log is an access log. A nil Log is none. Its methods may be called concurrently.
type Log struct {
	to     io.Writer
	log    *slog.Logger
	queue  chan Entry
	lost   atomic.Int64
	end    sync.Once
	ending chan struct{}
	ended  chan struct{}

	// Of the goroutine that writes.
	buffer  bytes.Buffer
	lines   int64 // in buffer
	torn    bool  // what was written last ends within a line
	failing bool
}

// New starts a log. to gets whole lines, some at once.
func New(to io.Writer, log *slog.Logger) *Log { return start(to, log, queueSize) }

// Open is New for the file at a path, which is created, or appended to.
func Open(path string, log *slog.Logger) (*Log, error) {
	f := &file{path: path}
	if err := f.open(); err != nil {
		return nil, err
	}
	return New(f, log), nil
}

// OpenLater is Open for a file that need not be there yet. Until it can be opened, which is tried with each write, lines are lost.
func OpenLater(path string, log *slog.Logger) *Log { return New(&file{path: path}, log) }

func start(to io.Writer, log *slog.Logger, size int) *Log {
	l := &Log{to: to, log: log, queue: make(chan Entry, size), ending: make(chan struct{}), ended: make(chan struct{})}
	go l.run()
	return l
}

// Add adds a line. It does not wait: when too many lines wait already, this one is lost.
func (l *Log) Add(e Entry) {
	select {
	case l.queue <- e:
	default:
		l.lost.Add(1)
	}
}

// Lost is how many lines were lost.
func (l *Log) Lost() int64 { return l.lost.Load() }

// Close writes what waits and ends the log. Closing twice is no error.
func (l *Log) Close() {
	if l == nil {
		return
	}
	l.end.Do(func() { close(l.ending) })
	select {
	case <-l.ended:
	case <-time.After(closeTimeout):
		l.log.Warn("the end of the access log could not be written in time")
	}
}

func (l *Log) run() {
	defer close(l.ended)
	if c, ok := l.to.(*file); ok {
		defer c.close()
	}
	ticker := time.NewTicker(flushEvery)
	defer ticker.Stop()
	for {
		select {
		case e := <-l.queue:
			l.append(e)
		case <-ticker.C:
			l.flush()
		case <-l.ending:
			l.drain()
			return
		}
	}
}

// drain writes what is in the queue.
func (l *Log) drain() {
	for {
		select {
		case e := <-l.queue:
			l.append(e)
		default:
			l.flush()
			return
		}
	}
}

func (l *Log) append(e Entry) {
	e.bound()
	lines := json.NewEncoder(&l.buffer)
	lines.SetEscapeHTML(false)
	if err := lines.Encode(e); err != nil { // there is nothing in an Entry that has no JSON
		l.lost.Add(1)
		return
	}
	if l.lines++; l.buffer.Len() >= flushAt {
		l.flush()
	}
}

// flush writes the lines of the buffer, or loses them: a full disk must not fill the memory.
func (l *Log) flush() {
	if l.lines == 0 {
		return
	}
	content := l.buffer.Bytes()
	n, err := l.to.Write(content)
	if err != nil {
		l.lost.Add(min(l.lines, int64(bytes.Count(content[n:], []byte("\n")))))
	}
	if n > 0 {
		l.torn = content[n-1] != '\n'
	}
	if err != nil && !l.failing {
		l.log.Error("the access log cannot be written, lines are lost", "error", err)
	} else if err == nil && l.failing {
		l.log.Info("the access log is written again")
	}
	l.failing = err != nil
	l.buffer.Reset()
	l.lines = 0
	if l.torn {
		l.buffer.WriteByte('\n') // what comes next is a line by itself
	}
}
