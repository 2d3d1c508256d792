package proc

import "testing"

func TestBeside(t *testing.T) {
	for _, c := range []struct {
		name, taken string
		low, high   int
	}{
		{"the kernel's default", "32768\t60999\n", 20000, 32000},
		{"not known", "", 20000, 32000},
		{"from below", "1024\t55000\n", 55001, 65536},
		{"to the end", "15000\t65535\n", 10000, 15000},
		{"in the midst", "16384\t65535\n", 10000, 16384},
		{"far below", "1024\t9999\n", 20000, 32000},
		{"nearly all", "1024\t65535\n", 20000, 32000},
	} {
		if low, high := portsBeside(c.taken); low != c.low || high != c.high {
			t.Errorf("%s: %d to %d, want %d to %d", c.name, low, high, c.low, c.high)
		}
	}
}
