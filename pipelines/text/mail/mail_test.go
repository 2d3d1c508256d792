package mail

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestDecode(t *testing.T) {
	tests := []struct {
		name, raw string
		want      Message
	}{
		{
			"plain, after an mbox line", "From a@b  Thu Aug 22 12:36:23 2002\nSubject: Hello\n  World\nFrom: A <a@b.c>\n" +
				"Date: Thu, 22 Aug 2002 18:26:25 +0700\n\nBody\nText\n",
			Message{"Hello World", "A <a@b.c>", time.Date(2002, 8, 22, 11, 26, 25, 0, time.UTC), "Body\nText\n", "text/plain"},
		},
		{"CRLF", "Subject: a\r\n\r\nx\r\ny", Message{Subject: "a", Body: "x\ny"}},
		{"a date nobody can read", "Date: yesterday\n\nx", Message{Body: "x"}},
		{"no empty line", "Subject: only a header", Message{Subject: "only a header"}},
		{"a line that is no field", "Subject: a\nthis is no field\n more of it\nX: y\n\nx", Message{Subject: "a", Body: "x"}},
		{"the first of two", "Subject: a\nSubject: b\n c\n\nx", Message{Subject: "a", Body: "x"}},
		{"encoded words", "Subject: =?iso-8859-1?Q?gr=FC=DFe?= =?utf-8?B?w7w=?= x\n\nx", Message{Subject: "grüßeü x", Body: "x"}},
		{"encoded word in an unknown charset", "Subject: =?nonsense?Q?caf=E9?=\n\nx", Message{Subject: "café", Body: "x"}},
		{"broken encoded word", "Subject: =?utf-8?B?!!!?=\n\nx", Message{Subject: "=?utf-8?B?!!!?=", Body: "x"}},
		{"GB2312 subject", "Subject: =?GB2312?B?1tC5+g==?=\n\nx", Message{Subject: "中国", Body: "x"}},

		{"quoted-printable", header1("quoted-printable", "utf-8") + "na=C3=AFve =\nline=20\nend  ", Message{Body: "naïve line \nend"}},
		{"broken quoted-printable", header1("quoted-printable", "") + "a=ZZ=3 b=\n=", Message{Body: "a=ZZ=3 b"}},
		{"latin-1 that is windows-1252", header1("quoted-printable", "iso-8859-1") + "=93quoted=94", Message{Body: "“quoted”"}},
		{"UTF-8 that is none", header1("quoted-printable", "utf-8") + "caf=E9", Message{Body: "café"}},
		{"unknown charset, UTF-8", header1("quoted-printable", "default_charset") + "caf=C3=A9", Message{Body: "café"}},
		{"unknown charset, windows-1252", header1("quoted-printable", "unknown-8bit") + "caf=E9", Message{Body: "café"}},
		{"no charset", header1("quoted-printable", "") + "caf=E9", Message{Body: "café"}},
		{"us-ascii with 8 bits", header1("quoted-printable", "us-ascii") + "caf=E9", Message{Body: "café"}},
		{"big5 by another name", header1("base64", "chinesebig5") + "pKSk5Q==", Message{Body: "中文"}},
		{"korean", header1("base64", "ks_c_5601-1987") + "x9GxuQ==", Message{Body: "한국"}},
		{"cyrillic", header1("base64", "koi8-r") + "8NLJ18XU", Message{Body: "Привет"}},
		{"ISO-2022-JP without transfer encoding", header1("7bit", "iso-2022-jp") + "\x1b$BF|K\\\x1b(B", Message{Body: "日本"}},
		{"8 bit text is text already", header1("8bit", "iso-8859-1") + "caf\u00e9 \uFFFD", Message{Body: "café \uFFFD"}},
		{"unknown transfer encoding", header1("8-bits", "") + "=41", Message{Body: "=41"}},

		{"base64 with a list's footer", header1("base64", "") + "SGVsbG8s\nIHdvcmxkIQ==\n\n_____\nlist@example.org", Message{Body: "Hello, world!\n_____\nlist@example.org"}},
		{"base64 of lines", header1("base64", "utf-8") + "YQ0KYg0NCmM=", Message{Body: "a\nb\n\nc"}},
		{"quoted-printable of line ends", header1("quoted-printable", "utf-8") + "a=0D=0Ab=0D", Message{Body: "a\nb\n"}},
		{"base64 cut off", header1("base64", "") + "SGVsbG8sI", Message{Body: "Hello,"}},
		{"empty base64", header1("base64", ""), Message{}},

		{"alternatives", multi("multipart/alternative", "text/html", "<b>x</b>", "text/plain", "x"), Message{Body: "x"}},
		{"alternatives, plain empty", multi("multipart/alternative", "text/plain", " ", "text/html", "<b>x</b>"), Message{Body: "<b>x</b>", ContentType: "text/html"}},
		{"mixed", multi("multipart/mixed", "text/plain", "x", "image/png", "iVBO", "text/plain", "y"), Message{Body: "x\ny"}},
		{"mixed kinds", multi("multipart/mixed", "text/plain", "a < b", "text/html", "<i>y</i>"), Message{Body: "<pre>a &lt; b</pre>\n<i>y</i>", ContentType: "text/html"}},
		{"attachment", multi("multipart/mixed", "text/plain", "x", "text/plain\nContent-Disposition: attachment; filename=a.txt", "y"), Message{Body: "x"}},
		{"forwarded", multi("multipart/mixed", "message/rfc822", "Subject: inner\n\ninside"), Message{Body: "inside"}},
		{"last boundary missing", strings.TrimSuffix(multi("multipart/mixed", "text/plain", "x"), "--b--\n"), Message{Body: "x\n"}},
		{"boundary never comes", "Content-Type: multipart/mixed; boundary=b\n\nx", Message{Body: "x"}},
		{"no boundary", "Content-Type: multipart/mixed\n\nx", Message{Body: "x"}},
		{"boundary that needs quotes", "Content-Type: multipart/mixed; boundary=a/b:c\n\n--a/b:c\n\nx\n--a/b:c--", Message{Body: "x"}},
		{"charset without semicolon", "Content-Type: text/plain charset=koi8-r\nContent-Transfer-Encoding: base64\n\n8NLJ18XU", Message{Body: "Привет"}},
		{"an image only", "Content-Type: image/gif\nContent-Transfer-Encoding: base64\n\nR0lG", Message{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := Decode(test.raw)
			if err != nil {
				t.Fatal(err)
			}
			if test.want.ContentType == "" {
				test.want.ContentType = "text/plain"
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// header1 is the header of a plain text in these encodings.
func header1(transfer, charset string) string {
	return "Content-Type: text/plain; charset=\"" + charset + "\"\nContent-Transfer-Encoding: " + transfer + "\n\n"
}

// multi is a message of parts, given by content type and body in turn.
func multi(contentType string, parts ...string) string {
	var b strings.Builder
	b.WriteString("Content-Type: " + contentType + "; boundary=\"b\"\n\npreamble\n")
	for i := 0; i < len(parts); i += 2 {
		b.WriteString("--b\nContent-Type: " + parts[i] + "\n\n" + parts[i+1] + "\n")
	}
	b.WriteString("--b--\n")
	return b.String()
}

func TestDecodeRefuses(t *testing.T) {
	deep := "Content-Type: message/rfc822\n\n"
	tests := []struct {
		name, raw string
		want      error
	}{
		{"nothing", "", ErrNoHeader},
		{"no header", "just text\n\nmore", ErrNoHeader},
		{"an empty line first", "\nSubject: x\n\ny", ErrNoHeader},
		{"base64 that is none", header1("base64", "") + "¡this is no base64!", ErrBadBase64},
		{"too deep", strings.Repeat(deep, maxDepth+2), ErrTooDeep},
	}
	for _, test := range tests {
		if _, err := Decode(test.raw); !errors.Is(err, test.want) {
			t.Errorf("%s: got %v, want %v", test.name, err, test.want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("Subject: =?utf-8?q?=C3?=\n\nx")
	f.Add(header1("quoted-printable", "iso-2022-jp") + "=1b$B=")
	f.Add(header1("base64", "utf-16") + "AAAA=")
	f.Add(multi("multipart/alternative", "text/html", "x", "multipart/mixed; boundary=b", "--b\n\ny"))
	f.Fuzz(func(t *testing.T, raw string) {
		m, err := Decode(raw)
		if err != nil {
			if !errors.Is(err, ErrNoHeader) && !errors.Is(err, ErrBadBase64) && !errors.Is(err, ErrTooDeep) {
				t.Fatalf("an error nobody knows: %v", err)
			}
			return
		}
		for name, s := range map[string]string{"subject": m.Subject, "from": m.From, "body": m.Body} {
			if !utf8.ValidString(s) {
				t.Errorf("%s %q is not valid UTF-8", name, s)
			}
			// Escaping for <pre> makes five bytes of one, charsets three.
			if len(s) > 16*len(raw)+64 {
				t.Errorf("%s has %d bytes, of a message of %d", name, len(s), len(raw))
			}
		}
		if m.ContentType != "text/plain" && m.ContentType != "text/html" {
			t.Errorf("content type %q", m.ContentType)
		}
	})
}
