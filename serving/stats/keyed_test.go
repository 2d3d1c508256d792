package stats

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

func cellSet(cells ...int) CellSet {
	var s CellSet
	for _, c := range cells {
		s.Add(c)
	}
	return s
}

// TestCellSet: a set survives JSON whatever its size, and a union has each cell once, in whatever order and however often sets are united.
func TestCellSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cells := rapid.SliceOfN(rapid.IntRange(0, Cells-1), 0, 50)
		a, b := cells.Draw(t, "a"), cells.Draw(t, "b")
		if rapid.Bool().Draw(t, "many") {
			for c := 0; c < Cells; c += 7 {
				a = append(a, c)
			}
		}
		want := map[int]bool{}
		for _, c := range append(append([]int{}, a...), b...) {
			want[c] = true
		}
		union := cellSet(a...).Union(cellSet(b...)).Union(cellSet(a...))
		raw, err := json.Marshal(Keyed{Erred: union})
		if err != nil {
			t.Fatal(err)
		}
		var again Keyed
		if err := json.Unmarshal(raw, &again); err != nil {
			t.Fatal(err)
		}
		if !again.Erred.Equal(union) || !union.Equal(cellSet(b...).Union(cellSet(a...))) {
			t.Fatalf("%d cells became %d", len(want), again.Erred.Count(0, Cells))
		}
		from, to := rapid.IntRange(0, Cells).Draw(t, "from"), rapid.IntRange(0, Cells).Draw(t, "to")
		var n int64
		for c := range want {
			if !union.Has(c) {
				t.Fatalf("cell %d is not in the union", c)
			}
			if c >= from && c < to {
				n++
			}
		}
		if got := union.Count(from, to); got != n {
			t.Fatalf("%d cells from %d to %d, want %d", got, from, to, n)
		}
	})
}

func TestCellSetRefused(t *testing.T) {
	for _, text := range []string{`"AA=="`, `"?"`, `"//8="`, `"` + string(make([]byte, 3)) + `"`} {
		var s CellSet
		if err := json.Unmarshal([]byte(text), &s); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// TestShareOfCells: each tenth of a percent is a whole number of cells, and keys fall into them evenly.
func TestShareOfCells(t *testing.T) {
	for permille := range 1001 {
		if got := CellsOf(float64(permille) / 1000); got != 64*permille {
			t.Fatalf("%d permille are %d cells, want %d", permille, got, 64*permille)
		}
	}
	if CellOf(0) != 0 || CellOf(^uint64(0)) != Cells-1 {
		t.Errorf("cells are from %d to %d", CellOf(0), CellOf(^uint64(0)))
	}
}

func TestPartsAddUp(t *testing.T) {
	sum := 0.0
	for i := range 10000 {
		sum += Part(i)
	}
	if sum > 1 || sum < 0.999 {
		t.Errorf("the parts of alpha add up to %v", sum)
	}
}

// keyedFalls simulates stages in which equal models answer keys whose requests err together, and returns the share that the error test
// ended: by key, and with every request counted.
func keyedFalls(seed uint64, stages int, alpha float64) (byKey, byRequest float64) {
	rng := rand.New(rand.NewPCG(seed, 3))
	for range stages {
		keyed := Keyed{From: CellsOf(0.05), To: CellsOf(0.25)}
		var requests Split
		fell, fellByRequest := false, false
		for range 300 { // looks, with the 40 requests of a key in between
			hash, bad := rng.Uint64(), rng.Float64() < 0.1
			cell := CellOf(hash)
			if !bad || cell < keyed.From {
				continue
			}
			keyed.Erred.Add(cell)
			if cell < keyed.To {
				requests.Candidate += 40
			} else {
				requests.Stable += 40
			}
			requests.Share = keyed.Split().Share
			fell = fell || ErrorEvidence{}.Look(keyed.Split()).Rejects(alpha)
			fellByRequest = fellByRequest || ErrorEvidence{}.Look(requests).Rejects(alpha)
		}
		if fell {
			byKey++
		}
		if fellByRequest {
			byRequest++
		}
	}
	return byKey / float64(stages), byRequest / float64(stages)
}

func TestKeysCountOnce(t *testing.T) {
	const alpha = 0.05
	byKey, byRequest := keyedFalls(31, 400, alpha)
	if byKey > alpha {
		t.Errorf("%.1f%% of the equal candidates fell, want at most 5%%", 100*byKey)
	}
	if byRequest < 2*alpha {
		t.Errorf("counted by request %.1f%% fell: the simulation shows nothing", 100*byRequest)
	}
}

// TestEvidenceOfCellsIsBounded: when all cells with errors have been drawn, the candidate's among them in the proportion of its share, the
// evidence has come back to nothing, although the cells are not independent of each other.
func TestEvidenceOfCellsIsBounded(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 3))
	keyed, highest := Keyed{To: CellsOf(0.1)}, 0.0
	for i, cell := range rng.Perm(Cells) {
		keyed.Erred.Add(cell)
		if i%500 == 0 {
			highest = max(highest, ErrorEvidence{}.Look(keyed.Split()).Value())
		}
	}
	if e := (ErrorEvidence{}).Look(keyed.Split()).Value(); e > 1 || highest > 20 {
		t.Errorf("e-value %v in the end, %v at most", e, highest)
	}
}
