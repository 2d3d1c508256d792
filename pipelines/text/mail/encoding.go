package mail

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
)

// decodeText decodes a transfer encoding (RFC 2045 section 6) and a charset. An unknown transfer encoding is treated as none.
func decodeText(transfer, charset, body string) (string, error) {
	switch strings.ToLower(strings.TrimSpace(transfer)) {
	case "quoted-printable":
		return decodeCharset(charset, decodeQuotedPrintable(body)), nil
	case "base64":
		decoded, footer, err := decodeBase64(body)
		if err != nil {
			return "", err
		}
		return decodeCharset(charset, decoded) + footer, nil
	}
	if isASCII(body) {
		// Pure ASCII may still be ISO-2022-JP or HZ, which shift between charsets by escape sequences.
		return decodeCharset(charset, []byte(body)), nil
	}
	return body, nil
}

// decodeQuotedPrintable decodes RFC 2045 section 6.7. Invalid escapes are left unchanged, as the RFC recommends.
func decodeQuotedPrintable(s string) []byte {
	out := make([]byte, 0, len(s))
	for line := range strings.Lines(s) {
		text, ended := strings.CutSuffix(line, "\n")
		text = strings.TrimRight(text, " \t")
		soft := strings.HasSuffix(text, "=")
		if soft {
			text = text[:len(text)-1]
		}
		for i := 0; i < len(text); i++ {
			if text[i] == '=' && i+2 < len(text) {
				if decoded, err := hex.AppendDecode(out, []byte(text[i+1:i+3])); err == nil {
					out = decoded
					i += 2
					continue
				}
			}
			out = append(out, text[i])
		}
		if ended && !soft {
			out = append(out, '\n')
		}
	}
	return out
}

// decodeBase64 decodes lines of base64 up to the first line that is not base64. Mailing lists append their footer to bodies whatever the
// encoding: text after the base64 is returned unchanged.
func decodeBase64(s string) (decoded []byte, footer string, err error) {
	var digits strings.Builder
	rest := s
	for rest != "" {
		line, after, _ := strings.Cut(rest, "\n")
		line = strings.TrimSpace(line)
		if !base64Line(line) {
			break
		}
		rest = after
		digits.WriteString(strings.TrimRight(line, "="))
		if strings.HasSuffix(line, "=") {
			break
		}
	}
	text := digits.String()
	if len(text)%4 == 1 { // a single digit does not make a byte: the part is truncated
		text = text[:len(text)-1]
	}
	decoded, err = base64.RawStdEncoding.DecodeString(text)
	if err != nil || (len(decoded) == 0 && strings.TrimSpace(s) != "") {
		return nil, "", ErrBadBase64
	}
	if footer = strings.TrimSpace(rest); footer != "" {
		footer = "\n" + footer
	}
	return decoded, footer, nil
}

func base64Line(line string) bool {
	digits := strings.TrimRight(line, "=")
	if len(line)-len(digits) > 2 {
		return false
	}
	for i := range len(digits) {
		c := digits[i]
		if (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '+' && c != '/' {
			return false
		}
	}
	return true
}

// charsetAliases are names used in real mail that the WHATWG index lacks.
var charsetAliases = map[string]string{
	"chinesebig5":    "big5",
	"gb2312_charset": "gbk",
	"iso8859-1":      "windows-1252",
	"cp1252":         "windows-1252",
}

// decodeCharset converts bytes in a charset to UTF-8. If the charset is unknown, ASCII or UTF-8, the bytes are taken as UTF-8 if they are
// valid, and otherwise as windows-1252, in which nearly all mail without a usable charset was written.
func decodeCharset(name string, b []byte) string {
	name = strings.ToLower(strings.Trim(name, " \t\"'"))
	if alias, ok := charsetAliases[name]; ok {
		name = alias
	}
	enc, err := htmlindex.Get(name)
	if err != nil || enc == encoding.Replacement || name == "us-ascii" || name == "ascii" || name == "utf-8" {
		if utf8.Valid(b) {
			return string(b)
		}
		enc, _ = htmlindex.Get("windows-1252")
	}
	decoded, err := enc.NewDecoder().Bytes(b)
	if err != nil {
		return valid(string(b))
	}
	return valid(string(decoded))
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
