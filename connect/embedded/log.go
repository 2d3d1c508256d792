package embedded

import (
	"context"
	"log/slog"
	"slices"

	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/log/tag"
)

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
