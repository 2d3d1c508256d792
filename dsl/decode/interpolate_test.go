package decode

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzSplitText: the parts of a text put together again are the text.
func FuzzSplitText(f *testing.F) {
	for _, s := range []string{"", "a", "${a}", "x${a}y${b}", "$${a}", "${'}'}", `${"\"}"}`, "${{'a': 1}['a']}", `${r"\"}`, "${'''a'}'''}", "${", "$", "$$", "ü${é}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		parts, err := splitText(s)
		if err != nil {
			return
		}
		var b strings.Builder
		for _, p := range parts {
			if p.expr == "" {
				b.WriteString(strings.ReplaceAll(p.literal, "${", "$${"))
				continue
			}
			before := string([]rune(s)[:p.offset])
			if utf8.ValidString(s) && !strings.HasSuffix(before, "${") {
				t.Errorf("offset %d of %q is not behind a brace", p.offset, s)
			}
			b.WriteString("${" + p.expr + "}")
		}
		if b.String() != s {
			t.Errorf("%q became %q", s, b.String())
		}
	})
}
