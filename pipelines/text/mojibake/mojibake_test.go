package mojibake

import (
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
	"pgregory.net/rapid"
)

// misread returns s as it looks when its UTF-8 is read as Windows-1252.
func misread(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		r := charmap.Windows1252.DecodeByte(c)
		if r == utf8.RuneError {
			r = rune(c)
		}
		b.WriteRune(r)
	}
	return b.String()
}

func TestRepair(t *testing.T) {
	for _, s := range []string{
		"Ein schöner Gruß", "L’été à la plage", "“quoted” – and so on…", "100 €", "Привет, мир", "Καλημέρα", "日本語のテキスト", "שלום", "مرحبا",
		"Zażółć gęślą jaźń", "naïve café ☕", "😀 smile", "École", "ÉCOLE", "Ça va", "Čeština", "a\u00a0b", "©2024 Müller", "n° 5", "½ cup",
	} {
		if got := Repair(misread(s)); got != s {
			t.Errorf("%q was not repaired: got %q, want %q", misread(s), got, s)
		}
		if got := Repair(misread(misread(s))); got != s {
			t.Errorf("%q, misread twice, was not repaired: got %q", s, got)
		}
		if got := Repair(s); got != s {
			t.Errorf("%q was right, and became %q", s, got)
		}
	}
	if got := Repair("L\u00e2\u0080\u0099\u00c3\u00a9t\u00c3\u00a9"); got != "L’été" {
		t.Errorf("read as ISO 8859-1: got %q", got)
	}
}

// What is real text stays, also where a part of it could be misread UTF-8.
func TestRepairStrict(t *testing.T) {
	for _, s := range []string{
		"", "plain", "CAFÉ™", "«CAFÉ»", "“AMANHÃ”", "NÃO", "SÃO PAULO", "Ã", "â€", "IRMÃ®", "Ã© and é", "Ã©\u4e16", "Â", "Ð", "3 × 4", "ÀÉÎ", "Ã Â", "ÅÄÖ", "ñandú",
	} {
		if got := Repair(s); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
}

func TestRepairProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := rapid.String().Draw(rt, "text")
		once := Repair(s)
		if !utf8.ValidString(once) {
			rt.Fatalf("%q became %q, which is not UTF-8", s, once)
		}
		if once != s && badness(once) >= badness(s) {
			rt.Fatalf("%q became %q, which is no better", s, once)
		}
	})
	rapid.Check(t, func(rt *rapid.T) { // of the letters of one alphabet everything comes back
		s := rapid.StringOf(rapid.RuneFrom([]rune("abc ABC.,äöüßéèêçñÄÖÜ"))).Draw(rt, "text")
		if Repair(s) != s {
			rt.Fatalf("%q was right, and became %q", s, Repair(s))
		}
	})
}

func FuzzRepair(f *testing.F) {
	f.Add("Ã©")
	f.Add("â€™\xff")
	f.Fuzz(func(t *testing.T, s string) {
		if got := Repair(s); utf8.ValidString(s) && !utf8.ValidString(got) {
			t.Errorf("%q became %q", s, got)
		}
	})
}

func BenchmarkRepair(b *testing.B) {
	for name, s := range map[string]string{
		"ascii": strings.Repeat("nothing to see here. ", 100), "right": strings.Repeat("schöne Grüße an alle. ", 100),
		"misread": misread(strings.Repeat("schöne Grüße an alle. ", 100)),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(s)))
			for b.Loop() {
				Repair(s)
			}
		})
	}
}
