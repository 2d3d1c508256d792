package htmltext

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"pgregory.net/rapid"
)

func TestConvert(t *testing.T) {
	tests := []struct{ name, source, want string }{
		{"text", "a &amp; b &#8364; &nbsp;c", "a & b € \u00a0c"},
		{"inline", "<b>bo</b>ld <i>it</i>", "bold it"},
		{"white space", "  a\n\t b  <b> c</b> ", "a b c"},
		{"lines of East Asia", "中文\n  <b>中文</b>\n，カナ\nABC\n한글\n中文 中文\n", "中文中文，カナ ABC 한글 中文 中文"},
		{"page", "<nav>a</nav><main>b<figure>c<figcaption>d</figcaption></figure><details><summary>e</summary>f</details></main>g", "a\nb\n\nc\nd\n\ne\nf\ng"},
		{"paragraphs", "<p>a</p><p>b<p>c", "a\n\nb\n\nc"},
		{"breaks", "a<br>b<br><br/><br>c", "a\nb\n\nc"},
		{"table", "<table><tr><td>a</td><td>b</td></tr><tr><td>c</table>", "a b\nc"},
		{"list", "<ul><li>a<li>b</ul>c", "a\nb\n\nc"},
		{"script and style", "a<script>if (1<2) x()</script><style>b{}</style>c", "ac"},
		{"title", "<html><head><title>t</title></head><body>b</body></html>", "b"},
		{"Google Tag Manager", `<body><noscript><iframe src="https://www.googletagmanager.com/ns.html?id=GTM-K5J2" height="0" width="0"
style="display:none;visibility:hidden"></iframe></noscript><h1>News</h1>`, "News"},
		{"Facebook's pixel", `<head><script>!function(f,b){f.fbq('init', '1')}(window,document);</script>
<noscript><img height="1" width="1" style="display:none" src="https://www.facebook.com/tr?id=1&ev=PageView&noscript=1" /></noscript></head><p>a`, "a"},
		{"self-closed script", `a<script src="x.js"/><div class="menu">if (a < b)</div></script><p>b`, "a\n\nb"},
		{"self-closed frame", `a<iframe src=x /><b>c</b></iframe>d`, "ad"},
		{"self-closed title", `<title/>t<b>u</b></title>c`, "c"},
		{"no noscript's end", `a<noscript><img src=x alt=y><p>b`, "a"},
		{"no template's end", `a<div><template><p>b</div><p>c`, "a"},
		{"template in a template", `<template>a<template>b</template>c</template>d`, "d"},
		{"template with a script", `<template><script>"</template>"</script>a</template>b`, "b"},
		{"no textarea's end", `a<textarea><b>c</b><p>d`, "a"},
		{"no title's end", `<title>a<body><p>b`, ""},
		{"xmp", `a<xmp><b>c</b>  &lt;</xmp>d`, "a\n\n<b>c</b>  &lt;\n\nd"},
		{"no xmp's end", `a<xmp><b>c</b>`, "a\n\n<b>c</b>"},
		{"plaintext", `a<plaintext><b>c</b></plaintext>d`, "a\n\n<b>c</b></plaintext>d"},
		{"icon", `a<svg viewBox="0 0 1 1"><title>close</title><desc>d</desc><style/><text>b</text><script>x</script><path d=""/></svg>c`, "abc"},
		{"self-closed in an icon", `a<svg><title/><script href=x /></svg><p>b</p>`, "a\n\nb"},
		{"no icon's end", `a<svg><style>t<p>b<title>c</title>d`, "a\n\nbd"},
		{"no icon's style's end", `a<svg><style>t</svg>b`, "ab"},
		{"icon in a template", `<template><svg><title/></template>a<title/>b</title>c`, "ac"},
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

// What is shown is what the standard's parser shows.
func TestAsParsed(t *testing.T) {
	tags := []string{"p", "b", "div", "pre", "table", "td", "template", "noscript", "script", "style", "title", "textarea", "iframe", "noembed", "noframes", "xmp"}
	var pieces []string
	for _, tag := range tags {
		pieces = append(pieces, "<"+tag+">", "</"+tag+">", "<"+tag+"/>", "<"+tag+" x=y />")
	}
	pieces = append(
		pieces, "<svg/>", "<svg><g>WORD</g></svg>", "<svg><title>WORD</title><text>WORD</svg>", "<svg><style/>WORD<script>WORD</svg>",
		"<svg>WORD<title/><p>WORD</p><title>WORD</title>", "<math><mi>WORD</math>", "<!-- WORD -->",
	)
	rapid.Check(t, func(rt *rapid.T) {
		var source strings.Builder
		for i := range rapid.IntRange(1, 12).Draw(rt, "n") {
			piece := rapid.SampledFrom(pieces).Draw(rt, "piece") + " WORD "
			for j := 0; strings.Contains(piece, "WORD"); j++ {
				piece = strings.Replace(piece, "WORD", fmt.Sprintf("word%dx%d", i, j), 1)
			}
			source.WriteString(piece)
		}
		root, err := html.ParseWithOptions(strings.NewReader(source.String()), html.ParseOptionEnableScripting(true))
		if err != nil {
			rt.Fatal(err)
		}
		want := slices.Sorted(slices.Values(shown(root)))
		got := slices.Sorted(slices.Values(word.FindAllString(Convert(source.String()), -1)))
		if !slices.Equal(got, want) {
			rt.Fatalf("%s: got %q, want %q", source.String(), got, want)
		}
	})
}

var word = regexp.MustCompile(`word\d+x\d+`)

// shown are the words in what is shown of a tree.
func shown(n *html.Node) []string {
	if n.Type == html.TextNode {
		return word.FindAllString(n.Data, -1)
	}
	var words []string
	if n.Type == html.ElementNode && hides(n.DataAtom, atom.Lookup([]byte(n.Namespace))) {
		return nil
	}
	for child := range n.ChildNodes() {
		words = append(words, shown(child)...)
	}
	return words
}

func BenchmarkConvert(b *testing.B) {
	page := strings.Repeat(`<div class="item"><a href="/x?y=1&amp;z=2"><img src="a.png" alt="A picture"></a><p>An <b>ordinary</b> sentence of some words &amp; an entity.</p>
<script>var a = "<b>" + 1;</script><svg viewBox="0 0 1 1"><path d="M0 0L1 1"/></svg><ul><li>one<li>two</ul></div>`, 50)
	b.SetBytes(int64(len(page)))
	for b.Loop() {
		Convert(page)
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
