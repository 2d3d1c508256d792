package poll_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluiceml/sluice/internal/poll"
)

// TestEvery: the first look is at once, those that a long one covers are left out, and the end of the context ends the loop.
func TestEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 9500*time.Millisecond)
		defer cancel()
		start := time.Now()
		var looks []int
		for range poll.Every(ctx, time.Second) {
			looks = append(looks, int(time.Since(start).Seconds()))
			if len(looks) == 2 {
				time.Sleep(5500 * time.Millisecond)
			}
		}
		want := []int{0, 1, 6, 7, 8, 9}
		if len(looks) != len(want) {
			t.Fatalf("looked after %v s, want %v", looks, want)
		}
		for i := range want {
			if looks[i] != want[i] {
				t.Fatalf("looked after %v s, want %v", looks, want)
			}
		}
	})
}
