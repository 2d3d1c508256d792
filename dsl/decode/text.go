package decode

import (
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
)

var (
	typographic   = regexp.MustCompile(`^[“”„‟‘’‚«]([^“”„‟‘’‚»]*)[“”‘’»]?$`)
	numberComment = regexp.MustCompile(`^#[0-9]`)
	invisible     = regexp.MustCompile("[\u00a0\u200b\u200c\u2060\ufeff]")
	dashOption    = regexp.MustCompile(`^[–—]+([A-Za-z][\w=./-]*)$`)
)

// checkText warns of a text without quotes of which YAML reads more, or less, than is meant.
func (d *Decoder) checkText(n *yaml.Node) {
	if n.Kind != yaml.ScalarNode || n.Style != 0 || n.Tag != "!!str" {
		return
	}
	if m := typographic.FindStringSubmatch(n.Value); m != nil {
		d.Source.Warnf(n, "text", "write \""+m[1]+"\"", "YAML knows straight quotes alone: these are part of the value")
	}
	if m := dashOption.FindStringSubmatch(n.Value); m != nil {
		d.Source.Warnf(n, "text", "write --"+m[1], "this begins with a dash, not with a hyphen, so a program does not read it as an option")
	}
	if hint := invisibleHint(n.Value); hint != "" && !strings.Contains(strings.Trim(n.Value, "\u00a0"), " ") && len(invisible.FindAllString(n.Value, -1)) < 3 {
		d.Source.Warnf(n, "text", hint, "%q holds a character that cannot be seen", n.Value)
	}
	if numberComment.MatchString(n.LineComment) {
		d.Source.Warnf(n, "text", "quote the value, or write a space after the `#`", "the value ends before `%s`, which YAML takes for a comment", n.LineComment)
	}
	if next := strings.TrimSpace(d.Source.Text(n.Line + 1)); strings.HasPrefix(next, "- ") && strings.Contains(n.Value, " "+next) {
		d.Source.Add(document.SeverityWarning, n.Line+1, 1+strings.Index(d.Source.Text(n.Line+1), "-"), "text", "indent it like the item above", "this is not an item of the list: it is indented more, so it continues the value above")
	}
}

// invisibleHint is a hint for a word in which a character stands that nobody sees; empty where there is none.
func invisibleHint(word string) string {
	if found := invisible.FindString(word); found != "" {
		return fmt.Sprintf("write %q: the character %U in it cannot be seen, and YAML does not treat it as a space", strings.TrimSpace(invisible.ReplaceAllString(word, "")), []rune(found)[0])
	}
	return ""
}

// checkSplit warns of items within [ ] of which two are the halves of a text that has a comma.
func (d *Decoder) checkSplit(items []*yaml.Node) {
	var begun *yaml.Node
	for _, item := range items {
		if item.Kind != yaml.ScalarNode || item.Style != 0 {
			begun = nil
			continue
		}
		open, closed := strings.Count(item.Value, "("), strings.Count(item.Value, ")")
		odd := strings.Count(item.Value, `"`)%2 == 1
		switch {
		case begun == nil && len(item.Value) > 1 && (odd || open > closed):
			begun = item
		case begun != nil && (odd || closed > open):
			d.Source.Warnf(begun, "text", "put the whole of it in quotes", "within [ ] YAML ends an item at each comma, and this is half of one")
			return
		}
	}
}
