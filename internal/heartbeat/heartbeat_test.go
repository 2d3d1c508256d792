package heartbeat

import (
	"context"
	"testing"
)

// TestShow: heartbeats say what was shown last, and what stands in for it as long as somebody wants that.
func TestShow(t *testing.T) {
	b := &beats{shown: make(chan struct{})}
	ctx := context.WithValue(t.Context(), key{}, b)
	text := func(s string) func() any { return func() any { return s } }
	says := func(want ...any) {
		t.Helper()
		if got := b.show(); len(got) != len(want) || len(got) > 0 && got[0] != want[0] {
			t.Errorf("a heartbeat says %v, want %v", got, want)
		}
	}
	says()
	early := Instead(ctx, text("waiting"))
	says("waiting")
	Show(ctx, text("working"))
	<-b.shown
	says("waiting")
	later := Instead(ctx, text("waiting still"))
	early()
	says("waiting still")
	later()
	says("working")
	Show(ctx, text("nearly done"))
	says("nearly done")

	Show(t.Context(), text("nobody hears this"))
	Instead(t.Context(), text("nor this"))()
}
