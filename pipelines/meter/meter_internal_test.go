package meter

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestMeter(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var m Meter
	var p Progress
	if p = m.At(start, 0, 0, 0, 0); p.Left >= 0 {
		t.Errorf("before anything is done %g s are left", p.Left)
	}
	for s := 1; s <= 20; s++ { // a twentieth of a hundredth of the work each second
		p = m.At(start.Add(time.Duration(s)*time.Second), int64(100*s), 0, int64(5000*s), float64(s)/40)
	}
	if math.Abs(p.RowsPerSecond-100) > 1e-6 || math.Abs(p.BytesPerSecond-5000) > 1e-6 || math.Abs(p.Left-20) > 1e-6 {
		t.Errorf("rows %g, bytes %g, left %g", p.RowsPerSecond, p.BytesPerSecond, p.Left)
	}
	want := "cleaning · 2,000 rows read · 100 rows/s · 5.0 kB/s · 20.0 s left"
	if p.String() != want {
		t.Errorf("got %q, want %q", p, want)
	}
	m.Rest()
	for s := 21; s <= 90; s++ { // all is read, and being written
		p = m.At(start.Add(time.Duration(s)*time.Second), 2000, int64(s), 100_000, 0.9)
	}
	want = "writing · 2,000 rows read · 90 written · 10.0 s left"
	if p.String() != want {
		t.Errorf("got %q, want %q", p, want)
	}
}

// TestMeterNeverFalls: whatever it is told, the share stays between 0 and 1 and does not fall.
func TestMeterNeverFalls(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m Meter
		now, before := time.Unix(0, 0), 0.0
		for range 20 {
			now = now.Add(time.Duration(rapid.IntRange(0, 5000).Draw(t, "ms")) * time.Millisecond)
			n := rapid.Int64Range(0, 1<<40).Draw(t, "n")
			p := m.At(now, n, n, n, rapid.Float64Range(-1, 2).Draw(t, "done"))
			if p.Done < before || p.Done > 1 || math.IsNaN(p.Left) || math.IsInf(p.Left, 0) {
				t.Fatalf("%+v after a share of %g", p, before)
			}
			before = p.Done
		}
	})
}

// TestPhase: the shares of shards of any sizes, done in any parts, add up to the whole.
func TestPhase(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.Int64Range(1, 5000), 1, 5).Draw(t, "sizes")
		p := Phase{Shards: int64(len(sizes))}
		before := 0.0
		for _, size := range sizes {
			done := p.Shard(size)
			for size > 0 {
				part := rapid.Int64Range(1, size).Draw(t, "part")
				done(part)
				size -= part
				if p.Share() < before {
					t.Fatalf("%g after %g", p.Share(), before)
				}
				before = p.Share()
			}
		}
		if p.Share() != 1 {
			t.Fatalf("in the end %g", p.Share())
		}
	})
}
