package htmltext

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestConvert(t *testing.T) {
	tests := []struct{ name, source, want string }{
		{"text", "a &amp; b &#8364; &nbsp;c", "a & b € \u00a0c"},
		{"inline", "<b>bo</b>ld <i>it</i>", "bold it"},
		{"white space", "  a\n\t b  <b> c</b> ", "a b c"},
		{"paragraphs", "<p>a</p><p>b<p>c", "a\n\nb\n\nc"},
		{"breaks", "a<br>b<br><br/><br>c", "a\nb\n\nc"},
		{"table", "<table><tr><td>a</td><td>b</td></tr><tr><td>c</table>", "a b\nc"},
		{"list", "<ul><li>a<li>b</ul>c", "a\nb\n\nc"},
		{"script and style", "a<script>if (1<2) x()</script><style>b{}</style>c", "ac"},
		{"title", "<html><head><title>t</title></head><body>b</body></html>", "b"},
		{"comment", "a<!-- x > y -->b<!-->c", "abc"},
		{"image", `<img src=x alt="a  cat">now<img>`, "a cat now"},
		{"preformatted", "x<pre>a\n  b &lt;</pre>y z", "x\n\na\n  b <\n\ny z"},
		{"unclosed", "<p>a<b>c<table><td>d", "ac\nd"},
		{"broken tag", "a < b <1 <x y='", "a < b <1"},
		{"no end of comment", "a<!-- b", "a"},
		{"nothing", "", ""},
		{"broken entity", "&bogus; &#xFFFFFFFF; &", "&bogus; \uFFFD &"},
	}
	for _, test := range tests {
		if got := Convert(test.source); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

// Depth costs nothing: a tree would overflow or take quadratic time.
func TestDeep(t *testing.T) {
	const n = 200_000
	if got := Convert(strings.Repeat("<div><b>", n) + "x" + strings.Repeat("</b></div>", n)); got != "x" {
		t.Errorf("got %.40q, want x", got)
	}
}

func FuzzConvert(f *testing.F) {
	f.Add("<p>a<b>c</p>&lt;")
	f.Add("<pre>\n<td><script>")
	f.Add("<img alt='x'><!--")
	f.Fuzz(func(t *testing.T, source string) {
		got := Convert(source)
		if !utf8.ValidString(got) {
			t.Errorf("%q is not valid UTF-8", got)
		}
		if len(got) > 4*len(source)+16 {
			t.Errorf("%d bytes of text from %d of HTML", len(got), len(source))
		}
		if strings.TrimSpace(got) != got {
			t.Errorf("%q has white space around it", got)
		}
	})
}
