package heartbeat

import (
	"context"
	"testing"
)

// TestShow: heartbeats say what was shown last, and what stands in for it as long as somebody wants that.
func TestShow(t *testing.T) {
	b := &beats{}
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

// TestFollow: the heartbeats of every activity that waits for the same say what that shows.
func TestFollow(t *testing.T) {
	t.Parallel()
	apart, end := Detach(t.Context())
	defer end(nil)
	first, second := &beats{}, &beats{}
	Follow(context.WithValue(t.Context(), key{}, first), apart)
	if said := first.show(); said != nil {
		t.Errorf("the first says %v before there is anything to say", said)
	}
	Show(apart, func() any { return "step 7" })
	Follow(context.WithValue(t.Context(), key{}, second), apart)
	for name, b := range map[string]*beats{"first": first, "second": second} {
		if said := b.show(); len(said) != 1 || said[0] != "step 7" {
			t.Errorf("the %s says %v", name, said)
		}
	}
	Follow(t.Context(), apart) // no heartbeats, nothing to do
}
