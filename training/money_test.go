package training

import "testing"

// TestNodesFor: a limit that is a multiple of the price is used up, and not exceeded, however cheap a node is.
func TestNodesFor(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		limit, spent, price float64
		want                int
	}{
		{0.3, 0, 0.1, 3},
		{0.3, 0.1 + 0.1, 0.1, 1},
		{0.3, 0.1 + 0.1 + 0.1, 0.1, 0},
		{0.3, 0.4, 0.1, 0},
		{0.29, 0, 0.1, 2},
		{0.02, 0, 0.005, 4},
		{1e9, 0, 1e-9, 1<<31 - 1},
	} {
		if got := NodesFor(test.limit, test.spent, test.price); got != test.want {
			t.Errorf("$%g of $%g spent leave %d nodes at $%g, want %d", test.spent, test.limit, got, test.price, test.want)
		}
	}
	if !Affordable(0.1+0.1+0.1, 0.3) || Affordable(0.31, 0.3) {
		t.Error("three times $0.1 are $0.3, and $0.31 are more")
	}
}
