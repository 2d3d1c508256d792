package secret

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestMaskText(t *testing.T) {
	const value = "s3cr3t/+ word"
	long := strings.Repeat(value, 12)
	encodedLong := base64.StdEncoding.EncodeToString([]byte(long))
	tests := []struct {
		name         string
		values       []string
		before, want string
	}{
		{"nothing", []string{value}, "all is well", "all is well"},
		{"as it is", []string{value}, "token=s3cr3t/+ word;", "token=***;"},
		{"one too short", []string{"", "a", "abc"}, "abc", "abc"},
		{"twice", []string{value}, value + value, "******"},
		{"base64", []string{value}, base64.StdEncoding.EncodeToString([]byte(value)), "***"},
		{"base64 for URLs", []string{value}, "t=" + base64.RawURLEncoding.EncodeToString([]byte(value)) + "&", "t=***&"},
		{"base64 in lines", []string{long}, "a\n" + lines(encodedLong, 76, "\n") + "\nb", "a\n***\nb"},
		{"base64 in lines of mail", []string{long}, lines(encodedLong, 64, "\r\n"), "***"},
		{"base64 in indented lines", []string{long}, "key: |\n  " + lines(encodedLong, 40, "\n  "), "key: |\n  ***"},
		{"base64 in lines in JSON", []string{long}, quoted(t, lines(encodedLong, 76, "\n")), `"***"`},
		{"base64 across a break", []string{value}, "eHl6czNjc\njN0LysgxxxxIHdvcmQ=", "eHl6czNjc\njN0LysgxxxxIHdvcmQ="},
		{"base64 in words", []string{"abcdef"}, "YWJj ZGVm", "YWJj ZGVm"},
		{"in a query", []string{value}, "?t=" + url.QueryEscape(value) + "&x=1", "?t=***&x=1"},
		{"in a path", []string{value}, "/" + url.PathEscape(value) + "/x", "/***/x"},
		{"by Python's quote", []string{value}, "s3cr3t/%2B%20word!", "***!"},
		{"in lower case", []string{value}, "s3cr3t%2f%2b%20word!", "***!"},
		{"by encodeURIComponent", []string{"it's (me)"}, "it's%20(me)!", "***!"},
		{"in JSON", []string{`a"b\c<d`}, quoted(t, `a"b\c<d`), `"***"`},
		{"in JSON of Python", []string{"Mü<ße/😀"}, `"M\u00fc<\u00dfe/\ud83d\ude00"`, `"***"`},
		{"in JSON of PHP", []string{"Mü<ße/😀"}, `"M\u00fc<\u00dfe\/\ud83d\ude00"`, `"***"`},
		{"in JSON of .NET", []string{`Mü+ß"e`}, `"M\u00FC\u002B\u00DF\u0022e"`, `"***"`},
		{"in JSON with some of HTML's escaped", []string{"a<b&c>d"}, `"a\u003cb\u0026c>d"`, `"***"`},
		{"in JSON with separators", []string{"abc\u2028d\x01"}, quoted(t, "abc\u2028d\x01"), `"***"`},
		{"the longer of two", []string{"abcd", "abcdefgh"}, "abcdefghi abcdx", "***i ***x"},
		{"two that overlap", []string{"abcd", "cdef"}, "abcdefg", "***g"},
		{"lines of a key", []string{"-----BEGIN KEY-----\nMIIEpAIBAAKC\nab\n"}, "log: MIIEpAIBAAKC; ab", "log: ***; ab"},
		{"cut off after half of it", []string{"0123456789"}, "x 01234", "x ***"},
		{"cut off before half of it", []string{"0123456789"}, "x 0123", "x 0123"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := NewMask(tt.values...).Text(tt.before); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// lines breaks a text into lines of a length.
func lines(text string, length int, end string) string {
	var all []string
	for piece := range slices.Chunk([]byte(text), length) {
		all = append(all, string(piece))
	}
	return strings.Join(all, end)
}

func quoted(t *testing.T, s string) string {
	t.Helper()
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestMaskHolds(t *testing.T) {
	m := NewMask("swordfish", "12345678", "9007199254740993")
	for v, want := range map[any]bool{
		"the swordfish swims": true, "fish": false, 12345678.0: true, 112345678.0: false, 12345678.5: false, 1234.0: false, true: false,
		int64(12345678): true, int64(9007199254740993): true, int64(9007199254740992): false,
	} {
		if got := m.Holds(v); got != want {
			t.Errorf("%v: %v", v, got)
		}
	}
	for v, want := range map[string]bool{
		`{"step": 1, "by": ["a", "swordfish"]}`: true, `{"swordfish": 1}`: true, `{"step": 12345678}`: true, `{"step": 1234567, "x": null}`: false,
	} {
		var value any
		if err := json.Unmarshal([]byte(v), &value); err != nil {
			t.Fatal(err)
		}
		if got := m.Holds(value); got != want {
			t.Errorf("%s: %v", v, got)
		}
	}
	var none *Mask
	if none.Holds("swordfish") || none.Holds(12345678.0) || none.Holds(int64(12345678)) {
		t.Error("a nil mask knows secrets")
	}
}

func TestMaskCut(t *testing.T) {
	m := NewMask("a key of twenty bytes")
	for text, want := range map[string]bool{"by a key of twenty byte": true, "by a key of twenty": false, "a key of twenty or so": false, "": false} {
		if got := m.Cut(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	if (*Mask)(nil).Cut("a key of twenty byte") {
		t.Error("a nil mask knows secrets")
	}
}

// TestMaskBasicAuth: a password as curl -v shows it, after users' names of any length.
func TestMaskBasicAuth(t *testing.T) {
	const password = "correct horse"
	m := NewMask(password)
	for _, user := range []string{"", "a", "ab", "abc"} {
		for _, code := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding} {
			sent := code.EncodeToString([]byte(user + ":" + password + ":tail"))
			if got := m.Text(sent); !strings.Contains(got, mark) || len(got) > len(sent)-len(password) {
				t.Errorf("user %q: %q became %q", user, sent, got)
			}
		}
	}
}

func TestNilMask(t *testing.T) {
	var m *Mask
	var out bytes.Buffer
	w := m.Writer(&out)
	if _, err := fmt.Fprint(w, "text"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil || out.String() != "text" || m.Text("text") != "text" || m.In("text") {
		t.Errorf("got %q, %v", out.String(), err)
	}
}

// TestWriterHoldsLittle: what cannot be a part of a secret comes through at once, and an endless run of beginnings takes no memory.
func TestWriterHoldsLittle(t *testing.T) {
	var out bytes.Buffer
	w := NewMask("abab").Writer(&out).(*writer)
	write := func(s string) {
		t.Helper()
		if n, err := w.Write([]byte(s)); n != len(s) || err != nil {
			t.Fatalf("wrote %d, %v", n, err)
		}
	}
	write("hello\n")
	if got := out.String(); got != "hello\n" {
		t.Errorf("after a line: %q", got)
	}
	for range 1000 {
		write("ab")
		if len(w.stream.held) > 3 {
			t.Fatalf("%d bytes are held", len(w.stream.held))
		}
	}
	write("!")
	write("Y\nYWJh\n" + strings.Repeat(" ", 100)) // begins as the base64 of abab
	if len(w.stream.held) > 0 {
		t.Errorf("%q is held", w.stream.held)
	}
	out.Truncate(len("hello\n***!"))
	if got := out.String(); got != "hello\n***!" {
		t.Errorf("in the end: %q", got)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestWriterTellsOfErrors(t *testing.T) {
	w := NewMask("secret").Writer(full{})
	if _, err := w.Write([]byte("text")); err == nil {
		t.Error("the error of Write is lost")
	}
	w = NewMask("secret").Writer(full{})
	if _, err := w.Write([]byte("sec")); err != nil {
		t.Errorf("what is held back has no error yet: %v", err)
	}
	if err := w.Close(); err == nil {
		t.Error("the error of Close is lost")
	}
}

// TestMaskHowever: however a text is cut into writes, it comes out the same, and no secret is in it.
func TestMaskHowever(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.StringMatching(`[ab+/ ]{4,9}`), 1, 3).Draw(t, "secrets")
		piece := rapid.OneOf(rapid.SampledFrom(values), rapid.StringMatching(`[ab+/ c\n]{0,6}`), rapid.Map(rapid.SampledFrom(values),
			func(v string) string { return base64.StdEncoding.EncodeToString([]byte(v)) }))
		pieces := rapid.SliceOfN(piece, 1, 8).Draw(t, "text")
		text := strings.Join(pieces, "")
		m := NewMask(values...)
		var out bytes.Buffer
		w := m.Writer(&out)
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "write")
			if _, err := w.Write([]byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if got, want := out.String(), m.Text(text); got != want {
			t.Fatalf("%q in pieces became %q, whole %q", text, got, want)
		}
		for _, v := range values {
			if strings.Contains(out.String(), v) {
				t.Fatalf("%q became %q, which holds %q", text, out.String(), v)
			}
		}
		if has := m.In(text); has && out.String() == text {
			t.Fatalf("%q holds a secret and came out as it was", text)
		}
	})
}

func FuzzMask(f *testing.F) {
	f.Add("secret", "a secret in a text", 5)
	f.Add("a\nbcdefghij\n", "bcdefghij", 3)
	f.Add("\xff\x00\xff\x00", "\xff\x00\xff\x00\xff\x00", 1)
	f.Fuzz(func(t *testing.T, value, text string, cut int) {
		if len(value) < minLength {
			t.Skip()
		}
		m := NewMask(value)
		var out bytes.Buffer
		w := m.Writer(&out)
		cut = min(max(cut, 0), len(text))
		for _, part := range []string{text[:cut], text[cut:]} {
			if _, err := w.Write([]byte(part)); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); got != m.Text(text) || (strings.Contains(got, value) && !strings.Contains(value, "*")) {
			t.Errorf("%q became %q", text, got)
		}
	})
}
