package embedded

import (
	"log/slog"
	"strings"
	"testing"

	"go.temporal.io/server/common/log/tag"
)

func TestLogger(t *testing.T) {
	var out strings.Builder
	l := logger{slog: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	l.Info("quiet")
	l.With(tag.NewStringTag("shard", "1")).Warn("loud", tag.NewInt("n", 2))
	if got := out.String(); strings.Contains(got, "quiet") || !strings.Contains(got, "msg=loud shard=1 n=2") {
		t.Errorf("logged %q", got)
	}
	defer func() {
		if p, ok := recover().(fatal); !ok || string(p) != "port taken, port 7" {
			t.Errorf("Fatal panicked with %q", p)
		}
	}()
	l.Fatal("port taken", tag.NewInt("port", 7))
}
