package script

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/sluiceml/sluice/internal/human"
)

// A program that prints without end must not fill the disk: of an attempt's log the first logHead bytes are kept, and the last logTail.
const (
	logHead = 64 << 20
	logTail = 1 << 20
)

// Log bounds what a program writes to its log. The beginning is written at once, the end, where it lies beyond the bound, by Close: it
// is lost with a process that is killed. A Log is for one writer at a time.
type Log struct {
	to         io.WriteCloser
	head, tail int
	late       []byte // what came after the head, the newest
	cut        int64  // bytes between the two
	times      *timesWriter
}

// NewLog makes a log of a file, which Close closes. When what was written is noted beside it, for ReadTimes.
func NewLog(file *os.File) *Log {
	return &Log{to: file, head: logHead, tail: logTail, times: noteTimes(file)}
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	begin := p[:min(len(p), l.head)]
	if len(begin) > 0 {
		l.times.note()
		n, err := l.to.Write(begin)
		l.head -= n
		if err != nil {
			return n, err
		}
	}
	l.late = append(l.late, p[len(begin):]...)
	if len(l.late) < 2*l.tail {
		return len(p), nil
	}
	if l.cut == 0 {
		if _, err := fmt.Fprintf(l.to, "\n[sluice: the log has reached its maximum size; only the last %s of the rest are kept, and added when the program has ended]\n",
			human.Bytes(int64(l.tail))); err != nil {
			return len(begin), err
		}
	}
	l.shorten()
	return len(p), nil
}

// shorten cuts what lies between head and tail.
func (l *Log) shorten() {
	cut := max(0, len(l.late)-l.tail)
	l.cut += int64(cut)
	l.late = append(l.late[:0], l.late[cut:]...)
}

// Close writes the end of the log, after a line that says how much was left out before it.
func (l *Log) Close() error {
	l.times.note()
	var err error
	if l.cut > 0 {
		l.shorten()
		if line := bytes.IndexByte(l.late, '\n'); line >= 0 { // the tail begins with a whole line, where it has one
			l.cut += int64(line + 1)
			l.late = l.late[line+1:]
		}
		_, err = fmt.Fprintf(l.to, "[sluice: %s were omitted]\n", human.Bytes(l.cut))
	}
	if err == nil && len(l.late) > 0 {
		_, err = l.to.Write(l.late)
	}
	return errors.Join(err, l.times.close(), l.to.Close())
}
