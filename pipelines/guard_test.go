package pipelines

import "testing"

func TestCollectAt(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct{ room, live, want int64 }{
		{1000 * mib, 0, 400 * mib}, // little is alive
		{1000 * mib, 100 * mib, 400 * mib},
		{1000 * mib, 400 * mib, 600 * mib}, // half as much again
		{1000 * mib, 900 * mib, 800 * mib}, // what the collector does not know of has its place
		{-mib, 100 * mib, 0},               // the program alone is larger
	} {
		if got := collectAt(c.room, c.live); got != c.want {
			t.Errorf("collectAt(%d, %d) = %d MiB, want %d", c.room/mib, c.live/mib, got/mib, c.want/mib)
		}
	}
}
