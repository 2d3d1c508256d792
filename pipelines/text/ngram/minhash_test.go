package ngram_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/pipelines/text/ngram"
)

func TestJaccard(t *testing.T) {
	const fox = "the quick brown fox jumps over the lazy dog"
	for _, c := range []struct {
		name, a, b string
		want       float64
	}{
		{"equal", fox, fox, 1},
		{"but for case and punctuation", fox, "The QUICK brown fox, jumps over the lazy dog!", 1},
		{"a word more", fox, fox + " again", 7.0 / 8},
		{"a word less at the start", fox, "quick brown fox jumps over the lazy dog", 6.0 / 7},
		{"nothing in common", fox, "pack my box with five dozen liquor jugs", 0},
		{"short and equal", "one two", "One, two.", 1},
		{"short and not equal", "one two", "two one", 0},
		{"short and longer", "the quick", fox, 0},
		{"a short text and a number of it", "one", "one one", 0},
		{"empty", "", "", 1},
		{"empty and signs", "", " -- ", 0},
		{"the same emoji", "👍🏽 👍", "👍🏽 👍", 1},
		{"other emoji", "👍", "👎", 0},
		{"empty and a word", "", "word", 0},
		{"without spaces", "我能吞下玻璃而不伤身体", "我能吞下玻璃而不伤身体。", 1},
		{"without spaces, marks belong to letters", "ที่นี่ดีมาก", "ที่นี่ดี", 1.0 / 4}, // ที่ นี่ ดี ม า ก make four runs
		{"without spaces, a letter more", "我能吞下玻璃而不伤身", "我能吞下玻璃而不伤身体", 8.0 / 9},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := ngram.NewHasher(3, 14, 8)
			a, b := ngram.Set(h.Shingles(nil, c.a)), ngram.Set(h.Shingles(nil, c.b))
			if got := ngram.Jaccard(a, b); math.Abs(got-c.want) > 1e-9 {
				t.Errorf("got %v, want %v", got, c.want)
			}
			if same := cmp.Equal(h.Bands(nil, a), h.Bands(nil, b)); same != (c.want == 1) {
				t.Errorf("the same bands: %v", same)
			}
		})
	}
}

// Shingles do not run from one field into the next, and the same words in another field are not the same.
func TestFieldsAreApart(t *testing.T) {
	h := ngram.NewHasher(2, 4, 2)
	one, two := ngram.Set(h.Shingles(nil, "a b", "c d")), ngram.Set(h.Shingles(nil, "c d", "a b"))
	if len(one) != 2 || ngram.Jaccard(one, two) != 0 {
		t.Errorf("got %v and %v", one, two)
	}
}

func word() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{"a", "b", "c", "d", "Über", "人"})
}

func text() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(word(), 0, 12).Draw(t, "words"), " ") })
}

// Which text is compared with which does not matter, and a set is like itself.
func TestSymmetric(t *testing.T) {
	h := ngram.NewHasher(2, 6, 2)
	rapid.Check(t, func(t *rapid.T) {
		a, b := ngram.Set(h.Shingles(nil, text().Draw(t, "a"))), ngram.Set(h.Shingles(nil, text().Draw(t, "b")))
		if there, back := ngram.Jaccard(a, b), ngram.Jaccard(b, a); there != back {
			t.Fatalf("%v there and %v back", there, back)
		}
		if ngram.Jaccard(a, a) != 1 {
			t.Fatal("a text is not like itself")
		}
		first, second := [][]uint32{h.Bands(nil, a), h.Bands(nil, b)}, [][]uint32{h.Bands(nil, b), h.Bands(nil, a)}
		if x, y := compared(first), compared(second); x != y {
			t.Fatalf("compared: %v one way and %v the other", x, y)
		}
	})
}

// compared reports whether Keep compares the two rows of these bands.
func compared(bands [][]uint32) (yes bool) {
	_, _ = ngram.Keep(2, func(i int) []uint32 { return bands[i] }, func(_, _ int) (bool, error) {
		yes = true
		return false, nil
	}, math.MaxInt64)
	return yes
}

// What comes later changes nothing about what was decided before; a row that goes is like one that stays; and of two that stay and
// share a band none is like the other.
func TestGrowth(t *testing.T) {
	const threshold = 0.5
	h := ngram.NewHasher(2, 6, 2)
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(text(), 0, 40).Draw(t, "texts")
		first := rapid.IntRange(0, len(texts)).Draw(t, "first")
		var sets [][]uint64
		var bands [][]uint32
		for _, text := range texts {
			sets = append(sets, ngram.Set(h.Shingles(nil, text)))
			bands = append(bands, h.Bands(nil, sets[len(sets)-1]))
		}
		alike := func(i, j int) (bool, error) { return ngram.Jaccard(sets[i], sets[j]) >= threshold, nil }
		keep := func(n int) []int {
			of, err := ngram.Keep(n, func(i int) []uint32 { return bands[i] }, alike, math.MaxInt64)
			if err != nil {
				t.Fatal(err)
			}
			return of
		}
		all := keep(len(texts))
		if diff := cmp.Diff(keep(first), all[:first]); diff != "" {
			t.Fatalf("of the first %d rows (-alone +with more):\n%s", first, diff)
		}
		for i, of := range all {
			want := ngram.Kept
			for j := range i {
				if all[j] == ngram.Kept && shareBand(bands[i], bands[j]) && ngram.Jaccard(sets[i], sets[j]) >= threshold {
					want = j
					break
				}
			}
			if of != want {
				t.Fatalf("row %d: got %d, want %d", i, of, want)
			}
		}
	})
}

func shareBand(a, b []uint32) bool {
	for i := range a {
		if a[i] == b[i] {
			return true
		}
	}
	return false
}

func TestKeepError(t *testing.T) {
	want := errors.New("cannot read")
	_, err := ngram.Keep(2, func(int) []uint32 { return []uint32{1, 2} }, func(_, _ int) (bool, error) { return false, want }, math.MaxInt64)
	if !errors.Is(err, want) {
		t.Errorf("got %v", err)
	}
}

// Rows of one template share bands without being alike: they cost as many comparisons for each of them however many there are. And those
// that are alike are found among them.
func TestTemplates(t *testing.T) {
	h := ngram.NewHasher(3, 14, 8)
	compared := func(n int) (each float64, dropped int) {
		var sets [][]uint64
		var bands [][]uint32
		for i := range n {
			of := i
			if i%10 == 9 {
				of = i - 5 // the text of another row
			}
			r := rand.New(rand.NewPCG(uint64(of), 1))
			text := strings.Repeat("this is what all pages of the site say before it comes to what each of them is about ", 1)
			for range 10 {
				text += fmt.Sprintf("w%d ", r.IntN(1e9))
			}
			sets = append(sets, ngram.Set(h.Shingles(nil, text)))
			bands = append(bands, h.Bands(nil, sets[i]))
		}
		calls := 0
		of, err := ngram.Keep(n, func(i int) []uint32 { return bands[i] }, func(i, j int) (bool, error) {
			calls++
			return ngram.Jaccard(sets[i], sets[j]) >= 0.72, nil
		}, math.MaxInt64)
		if err != nil {
			t.Fatal(err)
		}
		for _, first := range of {
			if first != ngram.Kept {
				dropped++
			}
		}
		return float64(calls) / float64(n), dropped
	}
	few, _ := compared(4000)
	many, dropped := compared(16000)
	t.Logf("%.0f comparisons for each of 4,000 rows, %.0f of 16,000", few, many)
	if many > 1.5*few {
		t.Errorf("%.0f comparisons for each of 4,000 rows, and %.0f for each of 16,000", few, many)
	}
	if dropped != 1600 {
		t.Errorf("%d rows were found to be others, not 1600", dropped)
	}
}

// What has no room is not held.
func TestKeepFull(t *testing.T) {
	bands := func(i int) []uint32 { return []uint32{uint32(i), uint32(i)} }
	none := func(_, _ int) (bool, error) { return false, nil }
	_, err := ngram.Keep(100_000, bands, none, 1<<20)
	var full *ngram.FullError
	if !errors.As(err, &full) || full.Rows < 10_000 || full.Rows > 50_000 {
		t.Errorf("got %v, want about 1 MiB at 20 bytes a band", err)
	}
	if _, err := ngram.Keep(20_000, bands, none, 4<<20); err != nil {
		t.Error(err)
	}
}

// documents makes texts of about 2 KB of which some are others with a part of the words replaced.
func documents(n int) []string {
	r := rand.New(rand.NewPCG(3, 4))
	var texts [][]string
	for i := range n {
		var words []string
		if i > 0 && r.IntN(2) == 0 {
			words = append(words, texts[r.IntN(i)]...)
			for range r.IntN(len(words) / 12) {
				words[r.IntN(len(words))] = fmt.Sprint("edit", r.IntN(1000))
			}
		} else {
			for range 250 + r.IntN(200) {
				words = append(words, fmt.Sprint("w", int(math.Exp(r.Float64()*10))))
			}
		}
		texts = append(texts, words)
	}
	joined := make([]string, n)
	for i, words := range texts {
		joined[i] = strings.Join(words, " ")
	}
	return joined
}

// The pairs that share a band and are alike, against the similarity of all pairs. Of pairs that are alike by s, 1-(1-s^8)^14 are found:
// 0.92 at 0.8, and 0.65 at the threshold.
func TestAgreesWithExhaustiveJaccard(t *testing.T) {
	const threshold, n = 0.72, 5000
	h := ngram.NewHasher(5, 14, 8)
	sizes, bands := make([]int, n), make([][]uint32, n)
	holders := map[uint64][]int{} // by shingle
	var alike, found, near, nearFound int
	var expected float64
	for i, text := range documents(n) {
		set := ngram.Set(h.Shingles(nil, text))
		sizes[i], bands[i] = len(set), h.Bands(nil, set)
		shared := map[int]int{} // by earlier document: all others have nothing in common with this one
		for _, shingle := range set {
			for _, j := range holders[shingle] {
				shared[j]++
			}
			holders[shingle] = append(holders[shingle], i)
		}
		for j, both := range shared {
			s := float64(both) / float64(sizes[i]+sizes[j]-both)
			if s < threshold {
				continue
			}
			candidate := shareBand(bands[i], bands[j])
			expected += 1 - math.Pow(1-math.Pow(s, 8), 14)
			alike, found = alike+1, found+count(candidate)
			if s >= 0.8 {
				near, nearFound = near+1, nearFound+count(candidate)
			}
		}
	}
	recall, want := float64(found)/float64(alike), expected/float64(alike)
	t.Logf("%d of the pairs of %d documents are alike by %v: recall %.3f (theory %.3f); %d by 0.8: recall %.3f; precision 1, since the comparison is exact",
		alike, n, threshold, recall, want, near, float64(nearFound)/float64(near))
	if alike < 1000 || math.Abs(recall-want) > 0.03 {
		t.Errorf("recall %.4f, want about %.4f, of %d pairs", recall, want, alike)
	}
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

func BenchmarkBands(b *testing.B) {
	texts := documents(100)
	size := 0
	for _, text := range texts {
		size += len(text)
	}
	h := ngram.NewHasher(5, 14, 8)
	b.SetBytes(int64(size))
	var shingles []uint64
	var bands []uint32
	for b.Loop() {
		for _, text := range texts {
			shingles = h.Shingles(shingles[:0], text)
			bands = h.Bands(bands[:0], shingles)
		}
	}
}
