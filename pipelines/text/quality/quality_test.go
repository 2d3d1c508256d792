package quality

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/dsl/transform"
)

// filter returns the filter with the published parameters, which change may override.
func filter(t testing.TB, change func(*transform.QualityFilter), rules ...string) *Filter {
	t.Helper()
	c := spec.DefaultsOf[transform.QualityFilter]()
	c.Rules = rules
	if change != nil {
		change(&c)
	}
	f, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// prose returns n different words of five letters, ten a line, the first two of them stop words.
func prose(n int) string {
	var b strings.Builder
	for i := range n {
		switch {
		case i == 0:
		case i%10 == 0:
			b.WriteByte('\n')
		default:
			b.WriteByte(' ')
		}
		switch i {
		case 0:
			b.WriteString("The")
		case 1:
			b.WriteString("and")
		default:
			fmt.Fprintf(&b, "w%c%c%c%c", 'a'+i/17576%26, 'a'+i/676%26, 'a'+i/26%26, 'a'+i%26)
		}
	}
	return b.String()
}

// repeat returns n lines, made by numbers.
func repeat(n int, line func(i int) string) string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = line(i)
	}
	return strings.Join(lines, "\n")
}

func TestGopherWords(t *testing.T) {
	words := strings.Fields(prose(100))
	all := strings.Join(words, " ")
	with := func(n int, extra string) string { // n of the 100 words are extra
		return all[:len(strings.Join(words[:100-n], " "))] + strings.Repeat(" "+extra, n)
	}
	tests := []struct{ name, text, failed string }{
		{"empty", "", "words"},
		{"signs are no words", prose(49) + " - * …", "words"},
		{"50 words", prose(50), ""},
		{"49 words", prose(49), "words"},
		{"100000 words", prose(100_000), ""},
		{"100001 words", prose(100_001), "words"},
		{"mean length 3", "the and " + strings.TrimSpace(shortWords(98, 3)), ""},
		{"mean length under 3", "the and " + strings.TrimSpace(shortWords(97, 3)) + " ab", "word_length"},
		{"mean length 10", strings.Join([]string{"the and", shortWords(96, 10), strings.Repeat("x", 12), strings.Repeat("y", 12)}, " "), ""},
		{"mean length over 10", strings.Join([]string{"the and", shortWords(96, 10), strings.Repeat("x", 20), strings.Repeat("y", 20)}, " "), "word_length"},
		{"10% hashes", with(10, "wor#d"), ""},
		{"11% hashes", with(11, "wor#d"), "symbols"},
		{"10% ellipses", with(10, "wo…rd"), ""},
		{"11% ellipses", with(10, "wor...d...") + " more...", "symbols"},
		{"80% alpha", with(20, "12345"), ""},
		{"79% alpha", with(21, "12345"), "alpha_words"},
		{"two stop words", all, ""},
		{"one stop word", strings.Replace(all, "and", "und", 1), "stop_words"},
		{"one stop word twice", strings.Replace(all, "and", "the", 1), "stop_words"},
		{"stop words in quotes", strings.Replace(all, "and", `"THAT,"`, 1), ""},
		{"stop words in guillemets", strings.Replace(all, "and", "»That…«", 1), ""},
		{"stop words in low quotes", strings.Replace(all, "and", "„that“", 1), ""},
		{"stop words in full-width brackets", strings.Replace(all, "and", "（that）。", 1), ""},
	}
	// What is measured here repeats words, which other rules are about.
	f := filter(t, noRepetition, Gopher)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { failing(t, f, test.text, Gopher, test.failed) })
	}
}

// shortWords returns n different words of a length.
func shortWords(n, length int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%s%c%c ", strings.Repeat("w", length-2), 'a'+i/26, 'a'+i%26)
	}
	return strings.TrimSpace(b.String())
}

func noRepetition(c *transform.QualityFilter) {
	c.Gopher.MaxDuplicateLines, c.Gopher.MaxDuplicateParagraphs, c.Gopher.MaxDuplicateLineChars, c.Gopher.MaxDuplicateParagraphChars = 1, 1, 1, 1
	c.Gopher.MaxTopNgrams, c.Gopher.MaxDuplicateNgrams = []spec.Share{1, 1, 1}, []spec.Share{1, 1, 1, 1, 1, 1}
}

// failing checks the rule that a text fails.
func failing(t *testing.T, f *Filter, text, set, failed string) {
	t.Helper()
	if failed != "" {
		failed = set + "/" + failed
	}
	edited, got := f.Evaluate(text)
	if got != failed {
		t.Errorf("failed %q, want %q: %.200q", got, failed, text)
	}
	if set != C4 && edited != text {
		t.Errorf("the text became %.200q", edited)
	}
}

func TestGopherLines(t *testing.T) {
	lines := func(n int, format string) string { // n lines of ten, and ten of other words
		return repeat(10, func(i int) string {
			if i < n {
				return fmt.Sprintf(format, i)
			}
			return fmt.Sprintf("and the other line %c is this", 'a'+i)
		})
	}
	tests := []struct{ name, text, failed string }{
		{"other signs are no bullets", lines(10, "* please read all of the thing number %d and every detail"), ""},
		{"empty lines count", lines(10, "- please read all of the thing number %d and every detail\n"), ""},
		{"90% bullets", lines(9, "- please read all about thing number %d in every detail"), ""},
		{"all bullets", lines(10, "  • please read all about thing number %d in every detail"), "bullet_lines"},
		{"30% ellipses", lines(3, "and read the rest of it %d more..."), ""},
		{"40% ellipses", lines(4, "and read the rest of it %d more… "), "ellipsis_lines"},
	}
	f := filter(t, noRepetition, Gopher)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { failing(t, f, test.text, Gopher, test.failed) })
	}
}

// Each rule of repetition alone, on texts of 100 characters or of ten parts.
func TestGopherRepetition(t *testing.T) {
	ten := func(same int, separator, part string) string {
		parts := make([]string, 10)
		for i := range parts {
			parts[i] = fmt.Sprintf("%s%d", part, max(i-same, 0))
		}
		return strings.Join(parts, separator)
	}
	grams := []int{2: 200, 180, 160, 150, 140, 130, 120, 110, 100} // by length, the characters of a thousand that pass
	type test struct{ name, text, failed, rule string }
	tests := []test{
		{"30% lines", ten(3, "\n", "line"), "", "duplicate_lines"},
		{"40% lines", ten(4, "\n", "line"), "duplicate_lines", "duplicate_lines"},
		{"30% paragraphs", ten(3, "\n\n", "par\nagraph"), "", "duplicate_paragraphs"},
		{"40% paragraphs", ten(4, "\n\n\n", "par\nagraph"), "duplicate_paragraphs", "duplicate_paragraphs"},
		{"20% characters of lines", strings.Repeat("x", 20) + "\n" + strings.Repeat("x", 20) + "\n" + strings.Repeat("é", 58), "", "duplicate_line_chars"},
		{"21%", strings.Repeat("x", 21) + "\n" + strings.Repeat("x", 21) + "\n" + strings.Repeat("é", 56), "duplicate_line_chars", "duplicate_line_chars"},
		{"20% characters of paragraphs", strings.Repeat("x", 20) + "\n\n" + strings.Repeat("x", 20) + "\n\n" + strings.Repeat("é", 56), "", "duplicate_paragraph_chars"},
		{"22%", strings.Repeat("x", 22) + "\n\n" + strings.Repeat("x", 22) + "\n\n" + strings.Repeat("é", 52), "duplicate_paragraph_chars", "duplicate_paragraph_chars"},
	}
	for n := 2; n <= 10; n++ {
		name, times := duplicateName(n), 1 // of the two n-grams that are equal the second counts
		if n <= 4 {
			name, times = topName(n), 2 // both count
		}
		limit := grams[n]
		for _, over := range []int{0, times} {
			failed := ""
			if over > 0 {
				failed = name
			}
			words := (limit + over) / times
			if n <= 4 {
				words -= n - 1 // the spaces between them count
			}
			tests = append(tests, test{fmt.Sprintf("%d characters in %d-grams", limit+over, n), twice(n, words), failed, name})
		}
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if strings.Contains(test.name, "grams") && utf8.RuneCountInString(test.text) != 1000 {
				t.Fatalf("the text has %d characters", utf8.RuneCountInString(test.text))
			}
			failing(t, filter(t, only(test.rule), Gopher), test.text, Gopher, test.failed)
		})
	}
}

// twice returns a text of 1000 characters in which n words of chars characters together are there twice.
func twice(n, chars int) string {
	words := make([]string, n)
	for i := range words {
		words[i] = string(rune('a' + i))
	}
	words[n-1] += strings.Repeat("z", chars-n)
	same := strings.Join(words, " ")
	text := same + " between " + same + " "
	return text + strings.Repeat("é", 1000-utf8.RuneCountInString(text))
}

// only leaves the parameter of one rule as it is and makes the others let everything pass.
func only(rule string) func(*transform.QualityFilter) {
	return func(c *transform.QualityFilter) {
		published := c.Gopher
		noRepetition(c)
		r := &c.Gopher
		r.MinWords, r.MinWordLength, r.MaxWordLength, r.MinStopWords, r.MinAlphaWords = 0, 0, 1000, 0, 0
		r.MaxBulletLines, r.MaxEllipsisLines, r.MaxSymbols = 1, 1, 1
		switch rule {
		case "duplicate_lines":
			r.MaxDuplicateLines = published.MaxDuplicateLines
		case "duplicate_paragraphs":
			r.MaxDuplicateParagraphs = published.MaxDuplicateParagraphs
		case "duplicate_line_chars":
			r.MaxDuplicateLineChars = published.MaxDuplicateLineChars
		case "duplicate_paragraph_chars":
			r.MaxDuplicateParagraphChars = published.MaxDuplicateParagraphChars
		}
		for i := range r.MaxTopNgrams {
			if topName(firstTop+i) == rule {
				r.MaxTopNgrams[i] = maxTopNgrams[i]
			}
		}
		for i := range r.MaxDuplicateNgrams {
			if duplicateName(firstDuplicate+i) == rule {
				r.MaxDuplicateNgrams[i] = maxDuplicateNgrams[i]
			}
		}
	}
}

const threeSentences = "This is the first line of it. And a second sentence.\nThe third one is here too."

func TestC4(t *testing.T) {
	off := func(c *transform.QualityFilter) { c.C4 = transform.C4Rules{MaxWordChars: 1_000_000} }
	tests := []struct {
		name, text, want, failed string
		change                   func(*transform.QualityFilter)
	}{
		{"three sentences", threeSentences, threeSentences, "", nil},
		{"two sentences", "This is the first line of it.\nThe second one is here too.", "", "sentences", nil},
		{"empty", "", "", "sentences", nil},
		{"no punctuation", threeSentences + "\nHome and about and the contact", threeSentences, "", nil},
		{"ellipsis", threeSentences + "\nRead more about all of this...", threeSentences, "", nil},
		{"end quotation mark", threeSentences + "\n“This is a line that is said”", threeSentences + "\n“This is a line that is said”", "", nil},
		{"four words", threeSentences + "\nThese are four words.", threeSentences, "", nil},
		{"a word of 1000", threeSentences + "\na b c d " + strings.Repeat("é", 999) + ".", threeSentences + "\na b c d " + strings.Repeat("é", 999) + ".", "", nil},
		{"a word of 1001", threeSentences + "\na b c d " + strings.Repeat("é", 1000) + ".", threeSentences, "", nil},
		{"javascript", threeSentences + "\nPlease enable JavaScript in the browser.", threeSentences, "", nil},
		{"policy", threeSentences + "\nThis site Uses Cookies for all things.", threeSentences, "", nil},
		{"citations", strings.Replace(threeSentences, "it.", "it[12][citation needed][edit][].", 1) + "[3]", threeSentences, "", nil},
		{"lorem ipsum", threeSentences + "\nThis is the old Lorem Ipsum.", "", "lorem_ipsum", nil},
		{"lorem ipsum in a line that is left out", threeSentences + "\nLorem Ipsum", threeSentences, "", nil},
		{"curly bracket", threeSentences + "\nThis is f() { and so on.", "", "curly_bracket", nil},
		{"curly bracket in a line that is left out", threeSentences + "\nf() {", threeSentences, "", nil},
		{"curly bracket and javascript", threeSentences + "\nThis is javascript: f() { and so on.", threeSentences, "", nil},
		{"curly bracket and a policy", threeSentences + "\nThis is our privacy policy { and so on.", "", "curly_bracket", nil},
		{"a citation after the end", threeSentences + "\nThis one ends before the mark. [1]", threeSentences, "", nil},
		{"a citation is no word", threeSentences + "\n[1] These are four words.", threeSentences, "", nil},
		{"all off", "Use cookies {\nlorem ipsum javascript...", "Use cookies {\nlorem ipsum javascript...", "", off},
		{"lines are trimmed", "  " + strings.Replace(threeSentences, "\n", " \r\n\n\t", 1), threeSentences, "", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := filter(t, test.change, C4)
			failing(t, f, test.text, C4, test.failed)
			if got, _ := f.Evaluate(test.text); test.failed == "" && got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// Of scripts without spaces each letter is a word, with the marks and the punctuation behind it.
func TestWords(t *testing.T) {
	for text, want := range map[string][]string{
		"the end.":             {"the", "end."},
		"「中文。」好！":              {"「中", "文。」", "好！"},
		"3月5日":                 {"3月", "5日"},
		"用Go写 的":               {"用", "Go", "写", "的"},
		"ที่นี่ดี":             {"ที่", "นี่", "ดี"},
		"ラーメン":                 {"ラ", "ー", "メ", "ン"},
		"한국어 문장":               {"한국어", "문장"},
		"हिन्दी में":           {"हिन्दी", "में"},
		"می\u200cرود به":       {"می\u200cرود", "به"},
		" - … \u3000 a\u00a0b": {"-", "…", "a", "b"},
	} {
		var got []string
		for _, w := range appendWords(nil, text) {
			got = append(got, w.text)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: -want +got:\n%s", text, diff)
		}
		if n, _ := countWords(text); n != len(want) {
			t.Errorf("%q: counted %d", text, n)
		}
	}
}

// Texts of scripts without spaces do not fail for want of words. By hand: the Chinese sentence has 10 letters and 2 marks.
func TestWithoutSpaces(t *testing.T) {
	sentence := func(i int) string { return "这是第" + string(rune('一'+i)) + "个好句子，很好。" }
	text := repeat(5, sentence)
	chinese := func(c *transform.QualityFilter) {
		noRepetition(c)
		c.Gopher.StopWords = []string{"的", "这是", "很"}
	}
	for _, c := range []struct {
		name, text, set, failed string
		change                  func(*transform.QualityFilter)
	}{
		{"50 letters", text, Gopher, "", chinese},
		{"49 letters", strings.Replace(text, "很", "", 1), Gopher, "words", chinese},
		{"English stop words", text, Gopher, "stop_words", noRepetition},
		{"one stop word", strings.ReplaceAll(text, "这是", "那在"), Gopher, "stop_words", chinese},
		{"five sentences", text, C4, "", nil},
		{"two sentences", repeat(2, sentence), C4, "sentences", nil},
		{"four letters in a line", strings.Repeat("这个好的。\n", 2) + "好个好的。\n你好吗我。", C4, "sentences", nil},
		{"a long line of letters is no long word", strings.Repeat("这是一个句子。", 200), C4, "", nil},
		{"lines of more than 30", repeat(5, func(i int) string { return strings.Repeat("这是一个很长的句子", 4) + sentence(i) }), FineWeb, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := filter(t, c.change, c.set)
			failed := c.failed
			if failed != "" {
				failed = c.set + "/" + failed
			}
			if _, got := f.Evaluate(c.text); got != failed {
				t.Errorf("failed %q, want %q", got, failed)
			}
		})
	}
}

// The most frequent words in a row, by hand.
func TestTop(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		want int
	}{
		{"a b c d", 2, 0},
		{"a b x a b", 2, 6},               // "a b" twice
		{"aa bb cc aa bb dd cc d", 2, 10}, // "aa bb" twice; nothing else
		{"a b c c dd a b c dd", 2, 6},     // "a b", "b c" and "c dd" twice each: the first counts
		{"我们和我们", 2, 4},                   // without spaces
		{"我们 和 我们 都", 2, 4},
	} {
		g := newNgrams(c.text)
		g.prepare()
		if got := g.top(c.n); got != c.want {
			t.Errorf("%q: %d, want %d", c.text, got, c.want)
		}
		g.release()
	}
}

func TestSplitAtBreaks(t *testing.T) {
	for _, c := range []struct {
		text  string
		least int
		want  []string
	}{
		{"", 1, []string{""}},
		{"a\nb\n\nc\n", 1, []string{"a", "b", "c", ""}},
		{"\na", 1, []string{"", "a"}},
		{"a\nb\n\nc\n\n\nd", 2, []string{"a\nb", "c", "d"}},
		{"a\n \nb", 2, []string{"a\n \nb"}},
	} {
		if diff := cmp.Diff(c.want, splitAtBreaks(c.text, c.least)); diff != "" {
			t.Errorf("%q at %d: -want +got:\n%s", c.text, c.least, diff)
		}
	}
}

func TestSentences(t *testing.T) {
	for line, want := range map[string]int{
		"": 0, "...": 0, "One.": 1, "One": 1, "One. Two": 2, "One? Two! Three.": 3, `He said "no." Then he left.`: 2, "It costs 3.50 here.": 1, "Wait... what?!": 2,
		"(In brackets.) Yes.": 2, "Eins. ": 1, "你好。「是吗？」好": 3, "یہ ایک ہے۔ دو": 2, "यह है। वह": 2,
	} {
		if got := countSentences(line); got != want {
			t.Errorf("%q has %d sentences, want %d", line, got, want)
		}
	}
}

func TestFineWeb(t *testing.T) {
	long := "this line has more than thirty characters, number %03d and more"
	lines := func(n int, line string) string { // n of 100 lines
		return repeat(100, func(i int) string {
			if i < n {
				return fmt.Sprintf(line, i)
			}
			return fmt.Sprintf(long, i)
		})
	}
	dot := func(s string) string { return strings.ReplaceAll(s, "and more", "and more.") }
	// A duplicate line of n characters in a text of 1000, line breaks not counted.
	duplicate := func(n int) string {
		same := strings.Repeat("x ", n)[:n-1] + "."
		return same + "\n" + same + "\n" + strings.Repeat("a b c ", (1000-2*n)/6) + strings.Repeat("y", (1000-2*n)%6)
	}
	tests := []struct{ name, text, failed string }{
		{"12% punctuated", lines(12, long+"."), ""},
		{"11% punctuated", lines(11, long+"."), "punctuated_lines"},
		{"quotation marks do not count", lines(100, long+"\""), "punctuated_lines"},
		{"marks of other scripts do", lines(6, long+"。") + strings.Repeat("\n"+fmt.Sprintf(long, 0)+"۔", 7), ""},
		{"a space after the mark", lines(12, long+". "), "punctuated_lines"},
		{"empty lines do not count", strings.ReplaceAll(lines(13, long+strings.Repeat(" and one more word of it", 3)+"."), "\n", "\n\n \n"), ""},
		{"empty", "", "punctuated_lines"},
		{"67% short", dot(lines(67, "the thirty characters are  %03d")), ""},
		{"68% short", dot(lines(68, "the thirty characters are  %03d")), "short_lines"},
		{"68% of 31 characters", dot(lines(68, "the thirty-one characters: %03d.")), ""},
		{"10% duplicate", duplicate(100), ""},
		{"10.1% duplicate", duplicate(101), "duplicate_chars"},
		{"25% newlines", thirty(4), ""},
		{"30% newlines", newlines(3, 10), ""},
		{"31% newlines", newlines(31, 100), "newlines"},
		{"33% newlines", thirty(3), "newlines"},
		{"empty lines are newlines", strings.ReplaceAll(newlines(3, 18), "\n", "\n\n"), "newlines"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { failing(t, filter(t, nil, FineWeb), test.text, FineWeb, test.failed) })
	}
}

// newlines returns a text with so many line breaks and words, all in the last line but for one word before each break.
func newlines(breaks, words int) string {
	return repeat(breaks, func(i int) string { return fmt.Sprintf("averyveryveryverylongfirstword%d.", i) }) + "\n" +
		strings.Repeat("a ", words-breaks-1) + "last."
}

// thirty returns lines with thirty breaks between them, of n long words each.
func thirty(n int) string {
	return repeat(31, func(i int) string {
		return strings.TrimSpace(strings.Repeat(fmt.Sprintf("averyveryverylongword%d ", i), n)) + "."
	})
}

func TestNew(t *testing.T) {
	for want, c := range map[string]transform.QualityFilter{
		"at least one": {},
		"twice":        {Rules: []string{C4, C4}},
		"not one of":   {Rules: []string{"c5"}},
		"has 3 shares": {Rules: []string{Gopher}, Gopher: transform.GopherRules{MaxTopNgrams: []spec.Share{1}}},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
	f := filter(t, nil, C4, FineWeb)
	want := []string{
		"c4/curly_bracket", "c4/lorem_ipsum", "c4/sentences",
		"fineweb/punctuated_lines", "fineweb/short_lines", "fineweb/duplicate_chars", "fineweb/newlines",
	}
	if diff := cmp.Diff(want, f.Rules()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// The shares of repeated n-grams are what counting them one by one gives, also with tables that were used before.
func TestNgrams(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		words := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "bb", "ccc", "é"}), 0, 60).Draw(rt, "words")
		n := rapid.IntRange(2, 6).Draw(rt, "n")
		g := newNgrams(strings.Join(words, " "))
		defer g.release()
		g.prepare()
		wantTop, wantDuplicate := slowTop(words, n), slowDuplicate(words, n)
		if top, duplicate := g.top(n), g.duplicate(n); top != wantTop || duplicate != wantDuplicate {
			rt.Fatalf("got %d and %d, want %d and %d", top, duplicate, wantTop, wantDuplicate)
		}
	})
}

func slowTop(words []string, n int) int {
	counts := map[string]int{}
	var grams []string
	for i := 0; i+n <= len(words); i++ {
		gram := strings.Join(words[i:i+n], " ")
		if counts[gram]++; counts[gram] == 1 {
			grams = append(grams, gram)
		}
	}
	most, chars := 1, 0
	for _, gram := range grams {
		if counts[gram] > most {
			most, chars = counts[gram], utf8.RuneCountInString(gram)*counts[gram]
		}
	}
	return chars
}

func slowDuplicate(words []string, n int) int {
	seen := map[string]bool{}
	chars := 0
	for i := 0; i+n <= len(words); {
		gram := strings.Join(words[i:i+n], " ")
		if seen[gram] {
			chars += utf8.RuneCountInString(strings.Join(words[i:i+n], ""))
			i += n
			continue
		}
		seen[gram] = true
		i++
	}
	return chars
}

func FuzzJudge(f *testing.F) {
	f.Add(threeSentences)
	f.Add("[\xff\n\n…\u2028#")
	all := filter(f, func(c *transform.QualityFilter) { c.Gopher.MinWords, c.Gopher.MinStopWords = 1, 0 }, Gopher, C4, FineWeb)
	f.Fuzz(func(t *testing.T, text string) {
		edited, failed := all.Evaluate(text)
		if len(edited) > len(text) {
			t.Errorf("%q became longer: %q", text, edited)
		}
		if again, failedAgain := all.Evaluate(text); again != edited || failedAgain != failed {
			t.Errorf("%q: %q %q, and then %q %q", text, edited, failed, again, failedAgain)
		}
	})
}

func BenchmarkJudge(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	vocabulary := strings.Fields(prose(3000))
	var text strings.Builder
	for text.Len() < 2000 { // sentences of twelve words, a line each
		for i := range 12 {
			if i > 0 {
				text.WriteByte(' ')
			}
			text.WriteString(vocabulary[int(float64(len(vocabulary))*r.Float64()*r.Float64())])
		}
		text.WriteString(" and the.\n")
	}
	for _, rules := range [][]string{{Gopher}, {C4}, {FineWeb}, {Gopher, C4, FineWeb}} {
		f := filter(b, nil, rules...)
		if _, failed := f.Evaluate(text.String()); failed != "" {
			b.Fatalf("the text fails %s, so that not all is measured", failed)
		}
		b.Run(strings.Join(rules, "+"), func(b *testing.B) {
			b.SetBytes(int64(text.Len()))
			b.ReportAllocs()
			for b.Loop() {
				f.Evaluate(text.String())
			}
		})
	}
}
