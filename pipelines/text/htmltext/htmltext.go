// Package htmltext converts HTML to the text that a reader would see in a browser that runs scripts. It works on tokens, not on a tree, so
// time and memory are linear in the input, however deeply nested or malformed the markup is.
package htmltext

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"golang.org/x/text/width"
)

// Convert returns the text of an HTML document or fragment: entities decoded, white space collapsed as in a browser outside <pre>, block
// elements and <br> on lines of their own, table cells separated, and alternative texts in place of images. Scripts and their fallbacks,
// styles, templates, frames, text fields, comments and titles are omitted.
func Convert(source string) string {
	w := writer{}
	tokens := html.NewTokenizer(strings.NewReader(source))
	for {
		switch kind := tokens.Next(); kind {
		case html.ErrorToken: // the end: a strings.Reader has no other error, and the tokenizer accepts any input
			return strings.TrimSpace(w.out.String())
		case html.TextToken:
			if w.hidden == 0 {
				w.text(string(tokens.Text()))
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			w.start(tokens, kind == html.SelfClosingTagToken)
		case html.EndTagToken:
			name, _ := tokens.TagName()
			w.end(atom.Lookup(name))
		case html.CommentToken, html.DoctypeToken: // not shown
		}
	}
}

// writer collects text and the breaks between its pieces.
type writer struct {
	out strings.Builder
	// hidden is the open element whose text is omitted, and depth how often it is open: templates nest.
	hidden atom.Atom
	depth  int
	// foreign is the open <svg> or <math>, which follows the rules of XML. hiddenInside says that hidden is inside it.
	foreign      atom.Atom
	hiddenInside bool
	pre          bool
	// space and lines are pending breaks, written before the next text. newline says that the pending white space contains a line break of
	// the source.
	space, newline bool
	lines          int
	// last is the last character written.
	last rune
}

func (w *writer) start(tokens *html.Tokenizer, selfClosing bool) {
	name, hasAttr := tokens.TagName()
	tag := atom.Lookup(name)
	if w.inXML() && breaksOut(tag) {
		w.leaveForeign()
	}
	if w.inXML() {
		tokens.NextIsNotRawText()
		if selfClosing {
			return
		}
	} // in HTML the slash of <script/> has no meaning
	switch {
	case w.foreign == 0 && (tag == atom.Svg || tag == atom.Math):
		if !selfClosing {
			w.foreign = tag
		}
	case w.hidden != 0:
		if tag == w.hidden {
			w.depth++
		}
	case hides(tag, w.foreign):
		w.hidden, w.depth, w.hiddenInside = tag, 1, w.foreign != 0
	case tag == atom.Img && hasAttr:
		if alt := attribute(tokens, "alt"); alt != "" {
			w.text(" " + alt + " ")
		}
	case tag == atom.Br:
		w.lines++
	case tag == atom.Td || tag == atom.Th:
		w.space = true
	case isPre(tag):
		w.pre = true
		w.block(2)
	default:
		w.block(blockLines(tag))
	}
}

func (w *writer) end(tag atom.Atom) {
	if w.inXML() && (tag == w.foreign || breaksOut(tag)) {
		w.leaveForeign()
	}
	switch {
	case w.hidden != 0:
		if tag == w.hidden {
			w.depth--
		}
		if w.depth == 0 && !w.hiddenInside {
			w.foreign = 0 // the foreign element was inside the hidden one
		}
		if w.depth == 0 {
			w.hidden, w.hiddenInside = 0, false
		}
	case isPre(tag):
		w.pre = false
		w.block(2)
	default:
		w.block(blockLines(tag))
	}
}

// inXML reports whether the rules of XML apply. They do not in the titles and descriptions of an <svg>, which contain HTML.
func (w *writer) inXML() bool {
	return w.foreign != 0 && !(w.hiddenInside && (w.hidden == atom.Title || w.hidden == atom.Desc))
}

// leaveForeign closes the open <svg> or <math>.
func (w *writer) leaveForeign() {
	if w.hiddenInside {
		w.hidden, w.hiddenInside = 0, false
	}
	w.foreign = 0
}

// block requests at least n line breaks before the next text.
func (w *writer) block(n int) { w.lines = max(w.lines, n) }

// text writes visible text, after the pending breaks.
func (w *writer) text(s string) {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if w.pre {
		w.write(s)
		return
	}
	for s != "" {
		word := strings.TrimLeftFunc(s, collapses)
		white := s[:len(s)-len(word)]
		w.space = w.space || white != ""
		w.newline = w.newline || strings.Contains(white, "\n")
		if end := strings.IndexFunc(word, collapses); end >= 0 {
			word, s = word[:end], word[end:]
		} else {
			s = ""
		}
		w.write(word)
	}
}

// write writes text unchanged, after the pending breaks. Empty text leaves them pending.
func (w *writer) write(s string) {
	if s == "" {
		return
	}
	first, _ := utf8.DecodeRuneInString(s)
	w.breaks(first)
	w.out.WriteString(s)
	w.last, _ = utf8.DecodeLastRuneInString(s)
}

// maxLines bounds consecutive line breaks: a thousand <br> in spam carry no information.
const maxLines = 2

// breaks writes the pending breaks before a character: line breaks, or else a space. Between East Asian characters a line break of the
// source is not a space: CSS Text 3, section 4.1.3.
func (w *writer) breaks(next rune) {
	if w.out.Len() > 0 {
		switch {
		case w.lines > 0:
			w.out.WriteString("\n\n"[:min(w.lines, maxLines)])
		case w.space && !(w.newline && isWide(w.last) && isWide(next)):
			w.out.WriteByte(' ')
		}
	}
	w.space, w.newline, w.lines = false, false, 0
}

// isWide reports whether r is a wide East Asian character of a script without spaces, which excludes Hangul.
func isWide(r rune) bool {
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth, width.EastAsianHalfwidth:
		return !unicode.Is(unicode.Hangul, r)
	default:
		return false
	}
}

// collapses reports whether r is ASCII white space as HTML defines it; no-break spaces are text.
func collapses(r rune) bool {
	return r == ' ' || r == '\t' || r == '\n' || r == '\r' || r == '\f'
}

// hides reports whether an element's text is not shown, in HTML or inside an <svg> or <math>.
func hides(tag, foreign atom.Atom) bool {
	switch tag {
	case atom.Script, atom.Style, atom.Title:
		return true
	case atom.Desc:
		return foreign != 0
	case atom.Template, atom.Noscript, atom.Noembed, atom.Noframes, atom.Iframe, atom.Textarea:
		return foreign == 0
	default:
		return false
	}
}

// isPre reports whether an element's white space is kept. The content of <xmp> and <plaintext> is not markup, either.
func isPre(tag atom.Atom) bool { return tag == atom.Pre || tag == atom.Xmp || tag == atom.Plaintext }

// breaksOut reports whether an element cannot be inside an <svg> or <math>, and closes it: section 13.2.6.5 of the standard.
func breaksOut(tag atom.Atom) bool {
	switch tag {
	case atom.B, atom.Big, atom.Blockquote, atom.Body, atom.Br, atom.Center, atom.Code, atom.Dd, atom.Div, atom.Dl, atom.Dt, atom.Em,
		atom.Embed, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6, atom.Head, atom.Hr, atom.I, atom.Img, atom.Li, atom.Listing,
		atom.Menu, atom.Meta, atom.Nobr, atom.Ol, atom.P, atom.Pre, atom.Ruby, atom.S, atom.Small, atom.Span, atom.Strong, atom.Strike,
		atom.Sub, atom.Sup, atom.Table, atom.Tt, atom.U, atom.Ul, atom.Var:
		return true
	default:
		return false
	}
}

// blockLines returns how many line breaks surround an element: 0 for inline elements.
func blockLines(tag atom.Atom) int {
	switch tag {
	case atom.P, atom.Blockquote, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6, atom.Ul, atom.Ol, atom.Dl, atom.Dir, atom.Menu,
		atom.Figure:
		return 2
	case atom.Div, atom.Li, atom.Tr, atom.Table, atom.Hr, atom.Center, atom.Dt, atom.Dd, atom.Form, atom.Option, atom.Body,
		atom.Section, atom.Article, atom.Header, atom.Footer, atom.Address, atom.Caption, atom.Fieldset, atom.Aside, atom.Details,
		atom.Dialog, atom.Figcaption, atom.Hgroup, atom.Legend, atom.Listing, atom.Main, atom.Nav, atom.Optgroup, atom.Search, atom.Summary:
		return 1
	default:
		return 0
	}
}

func attribute(tokens *html.Tokenizer, name string) string {
	for {
		key, value, more := tokens.TagAttr()
		if string(key) == name {
			return string(value)
		}
		if !more {
			return ""
		}
	}
}
