package process

import (
	"errors"
	"io/fs"
	"os"
	"sync"

	"github.com/sluiceml/sluice/internal/proc"
)

// maxLog is when a log begins anew. What was before is kept once, beside it.
const maxLog = 16 << 20

// logFile is what a process prints, appended to what earlier ones of its release printed.
type logFile struct {
	path string
	mu   sync.Mutex
	file *os.File
	size int64
}

func openLog(path string) (*logFile, error) {
	l := &logFile{path: path}
	return l, l.open()
}

func (l *logFile) open() error {
	f, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	l.file, l.size = f, info.Size()
	return nil
}

// Write implements io.Writer.
func (l *logFile) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size > 0 && l.size+int64(len(b)) > maxLog {
		if err := errors.Join(l.file.Close(), os.Rename(l.path, l.path+".1"), l.open()); err != nil {
			return 0, err
		}
	}
	n, err := l.file.Write(b)
	l.size += int64(n)
	return n, err
}

// Close ends the log. It may be called twice.
func (l *logFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.file.Close(); err != nil && !errors.Is(err, fs.ErrClosed) {
		return err
	}
	return nil
}

// output is the log and its end. A log that cannot be written ends no process: what it prints is lost then.
type output struct {
	log  *logFile
	tail *proc.Tail
}

// Write implements io.Writer.
func (o *output) Write(b []byte) (int, error) {
	_, _ = o.log.Write(b) // as above
	return o.tail.Write(b)
}
