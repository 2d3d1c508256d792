package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"

	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/log/tag"
)

// maxLog bounds each of the server's two log files, the current one and its predecessor.
const maxLog = 8 << 20

// logFile is a file that is renamed to path + ".1" when it is full.
type logFile struct {
	mu      sync.Mutex
	path    string
	file    *os.File
	written int64
}

func openLog(path string) (*logFile, error) {
	l := &logFile{path: path}
	if err := l.open(); err != nil {
		return nil, fmt.Errorf("the log of Temporal: %w", err)
	}
	return l, nil
}

func (l *logFile) open() error {
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return err
	}
	l.file, l.written = f, info.Size()
	return nil
}

// Write appends p, which is one record.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.written > 0 && l.written+int64(len(p)) > maxLog {
		if err := os.Rename(l.path, l.path+".1"); err != nil && !errors.Is(err, fs.ErrNotExist) { // it may have been removed
			return 0, err
		}
		l.file.Close()
		if err := l.open(); err != nil {
			return 0, err
		}
	}
	n, err := l.file.Write(p)
	l.written += int64(n)
	return n, err
}

func (l *logFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}

// fatal is what logger.Fatal panics with. The server calls Fatal if it cannot go on, and expects that it does not return.
type fatal string

// logger makes Temporal's server log through slog. It converts tags only when something is logged, because the server creates loggers all
// the time and logs little.
type logger struct {
	slog *slog.Logger
	tags []tag.Tag
}

var (
	_ log.Logger     = logger{}
	_ log.WithLogger = logger{}
)

func (l logger) log(level slog.Level, msg string, tags []tag.Tag) {
	if l.slog.Enabled(context.Background(), level) {
		l.slog.LogAttrs(context.Background(), level, msg, attrs(slices.Concat(l.tags, tags))...)
	}
}

func attrs(tags []tag.Tag) []slog.Attr {
	as := make([]slog.Attr, len(tags))
	for i, t := range tags {
		as[i] = slog.Any(t.Key(), t.Value())
	}
	return as
}

// With returns a logger that adds tags to every record.
func (l logger) With(tags ...tag.Tag) log.Logger {
	return logger{l.slog, slices.Concat(l.tags, tags)}
}

func (l logger) Debug(msg string, tags ...tag.Tag) { l.log(slog.LevelDebug, msg, tags) }
func (l logger) Info(msg string, tags ...tag.Tag)  { l.log(slog.LevelInfo, msg, tags) }
func (l logger) Warn(msg string, tags ...tag.Tag)  { l.log(slog.LevelWarn, msg, tags) }
func (l logger) Error(msg string, tags ...tag.Tag) { l.log(slog.LevelError, msg, tags) }

// DPanic logs a bug that the server can live with.
func (l logger) DPanic(msg string, tags ...tag.Tag) { l.log(slog.LevelError, msg, tags) }

// Panic logs and panics.
func (l logger) Panic(msg string, tags ...tag.Tag) {
	l.log(slog.LevelError, msg, tags)
	panic(msg)
}

// Fatal logs and panics. It does not exit: while the server is being built, Start turns it into an error.
func (l logger) Fatal(msg string, tags ...tag.Tag) {
	l.log(slog.LevelError, msg, tags)
	text := msg
	for _, a := range attrs(tags) {
		text += ", " + a.Key + " " + a.Value.String()
	}
	panic(fatal(text))
}
