package pii

import (
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func finderOf(t testing.TB, kinds []string, patterns map[string]string) *Finder {
	t.Helper()
	f, err := NewFinder(kinds, patterns)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// masked returns text with <KIND> for each match.
func masked(f *Finder, text string) string {
	return Replace(text, f.Find(text), func(m Match) string { return "<" + strings.ToUpper(m.Kind) + ">" })
}

func TestFind(t *testing.T) {
	tests := []struct{ kind, text, want string }{
		{"email", "<bob.b+x@mail.example.org>, a@b, @me, x@y.z.", "<<EMAIL>>, a@b, @me, <EMAIL>."},
		{"email", "a@b@c.de, x@y..z, q@-a.b", "a@<EMAIL>, x@y..z, <EMAIL>"},
		{"email", "mail me:ann@example.org", "mail me:<EMAIL>"},
		{"email", "anna@müller.de jörg@example.de jo\u0308rg@example.de, (иван.петров@пример.рф)", "<EMAIL> <EMAIL> <EMAIL>, (<EMAIL>)"},
		{"email", "علي@مثال.إختبار राम@उदाहरण.भारत νίκος@παράδειγμα.δοκιμή", "<EMAIL> <EMAIL> <EMAIL>"},
		{"email", "请联系anna@example.de谢谢。邮箱是123456@qq.com吗？用户@例子.中国 田中@例え.jp", "请联系<EMAIL>谢谢。邮箱是<EMAIL>吗？<EMAIL> <EMAIL>"},
		{"email", "€a@b.de “c@d.de” e@f.de…", "€<EMAIL> “<EMAIL>” <EMAIL>…"},
		{"email", `<"john doe"@example.com>, say "a" or "b"@c.de, "jörg@home"@x.org`, `<<EMAIL>>, say "a" or <EMAIL>, <EMAIL>`},
		{"email", `"john \"jd\" doe"@example.com, "\\"@a.de, {\"to\": \"ann lee\"@a.de\"}`, `<EMAIL>, <EMAIL>, {\"to\": \<EMAIL>\"}`},
		{"email", `"Berlin"@de . "colour"@en-GB ""@a.de "a"@b "`, `"Berlin"@de . "colour"@en-GB ""@a.de "a"@b "`},
		{"email", "\"a line\nand another\"@a.de", "\"a line\nand another\"@a.de"},
		{"email", "\"" + strings.Repeat("x ", 40) + "\"@a.de", "\"" + strings.Repeat("x ", 40) + "\"@a.de"},
		{"email", "連絡先：ａｎｎａ＠ｅｘａｍｐｌｅ．ｃｏｍ、anna＠example.com．よろしく。飲み会＠新宿。", "連絡先：<EMAIL>、<EMAIL>．よろしく。飲み会＠新宿。"},
		{"email", "anna@example.com．よろしく ＠user a＠b a@＠b.de", "<EMAIL>．よろしく ＠user a＠b a@＠b.de"},

		{"email", "메일은minsu@example.kr로 주세요", "메일은<EMAIL>로 주세요"},

		{"ip", "сервер١٩٢.١٦٨.٠.١، １９２．１６８．０．１。", "сервер<IP>، <IP>。"},
		{"ip", "from 192.168.0.1, 10.0.0.1:8080 and (8.8.8.8).", "from <IP>, <IP>:8080 and (<IP>)."},
		{"ip", "1.2.3, 1.2.3.4.5, 256.1.1.1, v1.2.3.4, 1.2.3.4a, 01.2.3.4", "1.2.3, 1.2.3.4.5, 256.1.1.1, v1.2.3.4, 1.2.3.4a, 01.2.3.4"},
		{"ip", "addr:1.2.3.4 feed:1.2.3.4 ip=1.2.3.4:", "addr:<IP> feed:<IP> ip=<IP>:"},
		{"ip", "2001:db8::1, [fe80::1]:80, 2001:0db8:0:0:0:0:0:1: x ::ffff:1.2.3.4", "<IP>, [<IP>]:80, <IP>: x <IP>"},
		{"ip", "std::vector a::b A::B 12:30:45 dead::beef :: ::1 00:1a:2b:3c:4d:5e", "std::vector a::b A::B 12:30:45 dead::beef :: ::1 00:1a:2b:3c:4d:5e"},

		{"card", "4111 1111 1111 1111, 5500-0000-0000-0004; 340000000000009", "<CARD>, <CARD>; <CARD>"},
		{"card", "3566002020360505 6011000000000004 30569309025904 2221000000000009 4222222222222", "<CARD> <CARD> <CARD> <CARD> <CARD>"},
		{"card", "4111111111111112 1234567812345670 41111111111111111 0.4111111111111111 x4111111111111111", "4111111111111112 1234567812345670 41111111111111111 0.4111111111111111 x4111111111111111"},
		{"card", "४१११ ११११ ११११ ११११ है, ۴۱۱۱-۱۱۱۱-۱۱۱۱-۱۱۱۱\xff 𝟜𝟙𝟙𝟙\u202f1111\u00a01111\u20101111", "<CARD> है, <CARD>\xff <CARD>"},
		{"card", "4111  1111 1111 1111", "4111  1111 1111 1111"},

		{"iban", "DE89 3704 0044 0532 0130 00 and GB82WEST12345698765432, no15 NO9386011117947", "<IBAN> and <IBAN>, no15 <IBAN>"},
		{"iban", "de89370400440532013000 MT84MALT011000012345MTLCAST001S", "<IBAN> <IBAN>"},
		{"iban", "DE89370400440532013001 DE8937040044053201300 XX89370400440532013000 DE893704004405320130000", "DE89370400440532013001 DE8937040044053201300 XX89370400440532013000 DE893704004405320130000"},

		{"phone", "+49 30 123456-78, 0044 20 7946 0958; +1 (212) 555-0123.", "<PHONE>, <PHONE>; <PHONE>."},
		{"phone", "call (212) 555-0123 or 212-555-0123 or 1.212.555.0123, Tel.+4930123456", "call <PHONE> or <PHONE> or <PHONE>, Tel.<PHONE>"},
		{"phone", "030 1234567, 2024-01-02, 123-456-7890, 1234567890, 3.14159265, a+4930123456, +123", "030 1234567, 2024-01-02, 123-456-7890, 1234567890, 3.14159265, a+4930123456, +123"},
		{"phone", "على +٩٦٦ ٥٠ ١٢٣ ٤٥٦٧ أو ٠٠٩٦٦٥٠١٢٣٤٥٦٧، ＋８１　（３）　１２３４－５６７８", "على <PHONE> أو <PHONE>، <PHONE>"},
		{"phone", "в 2024–2026 ١٬٢٣٤٬٥٦٧ ৩.১৪১৫৯২৬৫ ２０２６年１１月２３日 １，２３４，５６７", "в 2024–2026 ١٬٢٣٤٬٥٦٧ ৩.১৪১৫৯২৬৫ ２０２６年１１月２３日 １，２３４，５６７"},
		{"phone", "+4930123456789012345 is too long", "+4930123456789012345 is too long"},
	}
	for _, test := range tests {
		if got := masked(finderOf(t, []string{test.kind}, nil), test.text); got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.kind, got, test.want)
		}
	}
}

// However it is written, the same has the same value.
func TestValues(t *testing.T) {
	f := finderOf(t, Kinds(), nil)
	for text, want := range map[string]string{
		"Ann@Example.ORG": "ann@example.org", "Jo\u0308rg@MÜLLER.de": "jörg@müller.de", "Ａnn＠Example．ORG": "ann@example.org",
		`"Ann"@example.org`: "ann@example.org", `"ann\ lee"@example.org`: `"ann lee"@example.org`, "DE89 3704 0044 0532 0130 00": "DE89370400440532013000", "4111-1111-1111-1111": "4111111111111111",
		"2001:0DB8:0::1": "2001:db8::1", "(212) 555-0123": "12125550123", "+1 212 555 0123": "12125550123", "0049 30 123456": "4930123456", "+٤٩ ٣٠ ١٢٣٤٥٦": "4930123456",
		"ＤＥ８９\u00a03704\u00a00044\u00a00532\u00a00130\u00a000": "DE89370400440532013000",
	} {
		if got := f.Find("see " + text + " there"); len(got) != 1 || got[0].Value != want {
			t.Errorf("%s: got %+v, want the value %s", text, got, want)
		}
	}
}

// Of matches that overlap the first kind's is taken, and patterns go before all.
func TestOverlap(t *testing.T) {
	text := "ann@1.2.3.4 and DE89 3704 0044 0532 0130 00 of E-123456 bob@example.org"
	if got, want := masked(finderOf(t, Kinds(), nil), text), "<EMAIL> and <IBAN> of E-123456 <EMAIL>"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	f := finderOf(t, Kinds(), map[string]string{"employee": `E-\d{6} bob`, "b": "and"})
	if got, want := masked(f, text), "<EMAIL> <B> <IBAN> of <EMPLOYEE>@example.org"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if diff := cmp.Diff([]string{"b", "employee", "email", "iban", "card", "ip", "phone"}, f.Kinds()); diff != "" {
		t.Errorf("kinds: -want +got:\n%s", diff)
	}
}

func TestNewFinder(t *testing.T) {
	for pattern, want := range map[string]string{"(": "missing closing", "a*": "empty string"} {
		if _, err := NewFinder(nil, map[string]string{"x": pattern}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", pattern, err, want)
		}
	}
	if _, err := NewFinder([]string{"name"}, nil); err == nil || !strings.Contains(err.Error(), "name") {
		t.Errorf("got %v", err)
	}
	if _, err := NewFinder(nil, map[string]string{"email": "x"}); err == nil {
		t.Error("a pattern may be called like a kind")
	}
}

// The regular expression that addresses were found by at first says the same, slower.
func TestEmailsByPattern(t *testing.T) {
	pattern := regexp.MustCompile("[\\pL\\pM\\pN!#$%&'*+/=?^_`{|}~.-]+[@＠][\\pL\\pM\\pN-]+(?:\\.[\\pL\\pM\\pN-]+)+")
	f := finderOf(t, []string{"email"}, nil)
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringOf(rapid.RuneFrom([]rune("ab.@＠- <é\u0308+€ж"))).Draw(rt, "text")
		if got, want := masked(f, text), pattern.ReplaceAllLiteralString(text, "<EMAIL>"); got != want {
			rt.Fatalf("%q: got %q, want %q", text, got, want)
		}
	})
}

// Of an address whose first part is quoted nothing stays, whatever that is.
func TestQuotedEmails(t *testing.T) {
	f := finderOf(t, []string{"email"}, nil)
	escapes := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	rapid.Check(t, func(rt *rapid.T) {
		local := escapes.Replace(rapid.StringOfN(rapid.RuneFrom([]rune(`ab ."\<é例,+`)), 1, -1, 30).Draw(rt, "local"))
		if got := masked(f, `to "`+local+`"@example.org.`); got != "to <EMAIL>." {
			rt.Fatalf("%s: got %q", local, got)
		}
	})
}

// Each decimal digit of Unicode stands for one of ASCII, which are in tens from 0 on.
func TestDigits(t *testing.T) {
	zero := rune(-10)
	for r := range unicode.MaxRune {
		if !unicode.Is(unicode.Nd, r) || r < utf8.RuneSelf {
			continue
		}
		if r >= zero+10 {
			zero = r
		}
		if got, want := inASCII(r), '0'+byte(r-zero); got != want {
			t.Errorf("%q: got %q, want %q", r, got, want)
		}
	}
}

func FuzzFind(f *testing.F) {
	for _, seed := range []string{
		"ann@example.org", "+49 (30) 1234-56", "2001:db8::1", "4111 1111 1111 1111", "DE89 3704 0044 0532 0130 00", "1-(212)555-0123", `"a \"b"@c.de`, "ａ＠ｂ．ｃ", "é@\xff.::1", "00 1 ", "(212", "+٩٦٦\xff٥٠ ١٢٣ ٤٥٦٧", "４１１１－1111 1111 1111",
	} {
		f.Add(seed)
	}
	finder, err := NewFinder(Kinds(), map[string]string{"x": `x\d+`})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		matches := finder.Find(text)
		at, between := 0, 0
		for _, m := range matches {
			if m.Start < at || m.End <= m.Start || m.End > len(text) || m.Value == "" {
				t.Fatalf("%q: %+v", text, matches)
			}
			between += m.Start - at
			at = m.End
		}
		// What is not a match stays, byte for byte.
		rest := Replace(text, matches, func(Match) string { return "" })
		if len(rest) != between+len(text)-at {
			t.Errorf("%q became %q", text, rest)
		}
		if again := Replace(text, matches, func(m Match) string { return text[m.Start:m.End] }); again != text {
			t.Errorf("%q became %q", text, again)
		}
	})
}

func BenchmarkFind(b *testing.B) {
	text := strings.Repeat("An ordinary sentence of 12 words, from 2024-01-02 on, that costs 3.50 here. ", 26) + "Write to ann@example.org or call +49 30 123456."
	f := finderOf(b, Kinds(), nil)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		f.Find(text)
	}
}
