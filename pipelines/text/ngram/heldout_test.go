package ngram

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestShares(t *testing.T) {
	s := NewHeldOut(3)
	for _, text := range []string{"The quick, brown fox jumps", "Größe ÄNDERN wir", "yes no"} {
		if err := s.Add(text); err != nil {
			t.Fatal(err)
		}
	}
	if s.Grams() != 5 {
		t.Errorf("%d runs, want 5", s.Grams())
	}
	for text, want := range map[string]bool{
		"": false, "the quick": false, "THE QUICK BROWN": true, "a quick-brown\nFOX!": true, "brown quick the": false, "größe ändern wir": true,
		"Yes, no.": true, "yes no more": false, "no yes": false, "quick brown jumps": false,
	} {
		if got := s.Shares(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// Of scripts without spaces each letter, with its marks, is a word: a run of them is not one word.
func TestSharesWithoutSpaces(t *testing.T) {
	const n = 5
	for _, c := range []struct {
		name, held, text string
		grams            int
		want             bool
	}{
		{"Chinese", "中华人民共和国的首都是北京。", "问：中华人民共和国在哪里？", 9, true}, // 13 letters make 9 runs; seven in a row are shared
		{"Chinese, four letters in a row", "中华人民共和国的首都是北京。", "中华人民是北京人", 9, false},
		{"Japanese", "日本の首都はラーメンではない", "首都は、ラーメンでした", 10, true},
		{"Japanese and a number", "2024年の東京タワー", "東京タワー", 4, true},                  // 2024 年 の 東 京 タ ワ ー are eight
		{"Thai", "กรุงเทพมหานครเป็นเมืองหลวง", "ที่กรุงเทพมหานครนี้", 19, true},     // ก รุ ง เ ท พ ม ห า น ค ร เ ป็ น เ มื อ ง ห ล ว ง are 23
		{"Thai, marks belong to letters", "ที่นี่ดี", "ทีนีดี", 1, false},           // ที่ นี่ ดี: three words, one run as a whole
		{"Hangul has spaces", "서울은 대한민국의 수도이며 큰 도시다", "대한민국의 수도이며 큰 도시다", 1, false}, // of five words
		{"Hindi, joiners do not count", "यह एक हिन्\u200dदी वाक्य है", "यह एक हिन्दी वाक्य है।", 1, true},
		{"Persian, joiners do not count", "او می\u200cرود به خانه من", "او میرود به خانه من", 1, true},
	} {
		s := NewHeldOut(n)
		if err := s.Add(c.held); err != nil {
			t.Fatal(err)
		}
		if got := s.Shares(c.text); got != c.want || s.Grams() != c.grams {
			t.Errorf("%s: shares %v, want %v; %d runs, want %d", c.name, got, c.want, s.Grams(), c.grams)
		}
	}
}

// A text shares a run when a plain search finds one.
func TestSharesLikeSearch(t *testing.T) {
	words := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 12)
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(rt, "n")
		held, text := words.Draw(rt, "held"), words.Draw(rt, "text")
		s := NewHeldOut(n)
		if err := s.Add(strings.Join(held, " ")); err != nil {
			rt.Fatal(err)
		}
		want := len(held) > 0 && len(held) < n && strings.Join(held, " ") == strings.Join(text, " ")
		for i := 0; i+n <= len(held); i++ {
			want = want || strings.Contains(" "+strings.Join(text, " ")+" ", " "+strings.Join(held[i:i+n], " ")+" ")
		}
		if got := s.Shares(strings.Join(text, ". ")); got != want {
			rt.Fatalf("n=%d %q %q: %v", n, held, text, got)
		}
	})
}

func TestFull(t *testing.T) {
	s := NewHeldOut(1)
	var b strings.Builder
	for i := range MaxGrams + 1 {
		fmt.Fprintf(&b, "%x ", i)
	}
	if err := s.Add(b.String()); !errors.Is(err, ErrFull) || s.Grams() != MaxGrams {
		t.Errorf("%v with %d runs", err, s.Grams())
	}
}

func FuzzShares(f *testing.F) {
	f.Add("one two three four", 2)
	f.Fuzz(func(t *testing.T, text string, n int) {
		s := NewHeldOut(1 + int(uint(n)%20))
		if err := s.Add(text); err != nil {
			t.Fatal(err)
		}
		if s.Grams() > 0 && !s.Shares(text) {
			t.Errorf("%q does not share with itself", text)
		}
	})
}

func BenchmarkShares(b *testing.B) {
	s := NewHeldOut(13)
	for i := range 100_000 {
		if err := s.Add(fmt.Sprintf("held out %d %s", i, strings.Repeat("text ", 12))); err != nil {
			b.Fatal(err)
		}
	}
	text := strings.Repeat("An ordinary sentence of some words that is not in it at all. ", 32)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		s.Shares(text)
	}
}
