package format

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"

	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// What a reader does with bytes that are invalid in a file's encoding.
const (
	invalidRejects  = "reject"
	invalidReplaces = "replace"
)

// charset decodes the text of a file.
type charset struct {
	name string
	// encoding is nil for UTF-8.
	encoding encoding.Encoding
	// width is the size of a code unit in bytes, and bigEndian its byte order.
	width     int
	bigEndian bool
	// replace says to replace invalid bytes by U+FFFD. Otherwise the row is rejected.
	replace bool
}

var (
	utf8Charset = charset{name: "UTF-8", width: 1}
	utf16LE     = charset{name: "UTF-16LE", encoding: unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM), width: 2}
	utf16BE     = charset{name: "UTF-16BE", encoding: unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM), width: 2, bigEndian: true}
)

// byteOrderMarks are the byte order marks that a text may begin with, and the encodings they indicate.
var byteOrderMarks = []struct {
	mark    []byte
	charset charset
}{
	{[]byte("\xef\xbb\xbf"), utf8Charset},
	{[]byte("\xff\xfe"), utf16LE},
	{[]byte("\xfe\xff"), utf16BE},
}

// compileCharset returns the encoding that a reader declares.
func compileCharset(name, onInvalid string) (charset, error) {
	onInvalid, err := rows.OneOf("on_invalid", onInvalid, invalidRejects, invalidReplaces)
	if err != nil {
		return charset{}, err
	}
	c, err := charsetNamed(name)
	c.replace = onInvalid == invalidReplaces
	return c, err
}

func charsetNamed(name string) (charset, error) {
	switch strings.ToUpper(name) {
	case "", "UTF-8", "UTF8", "US-ASCII", "ASCII": // ASCII is a subset of UTF-8
		return utf8Charset, nil
	case "UTF-16", "UTF-16BE": // RFC 2781: big endian unless a byte order mark says otherwise
		return utf16BE, nil
	case "UTF-16LE":
		return utf16LE, nil
	}
	e, err := transform.TextEncoding(name)
	if err != nil {
		return charset{}, fmt.Errorf("encoding: %w", err)
	}
	return charset{name: name, encoding: e, width: 1}, nil
}

// detect returns the encoding of a text that begins with head, and the length of its byte order mark.
func (c charset) detect(head []byte) (charset, int) {
	for _, b := range byteOrderMarks {
		if bytes.HasPrefix(head, b.mark) {
			found := b.charset
			found.replace = c.replace
			return found, len(b.mark)
		}
	}
	return c, 0
}

// decode returns raw, which begins at an offset of the file, in UTF-8. Its errors are rejections; the text then has U+FFFD for invalid
// bytes, or ends before them.
func (c charset) decode(raw []byte, offset int64) ([]byte, error) {
	if c.encoding == nil {
		if utf8.Valid(raw) {
			return raw, nil
		}
		return bytes.ToValidUTF8(raw, []byte(string(utf8.RuneError))), c.invalid(raw, firstInvalid(raw), offset)
	}
	text, err := c.encoding.NewDecoder().Bytes(raw)
	if err != nil {
		return text, rows.Reject(rows.ReasonEncoding, "not valid %s: %v", c.name, err)
	}
	if !bytes.ContainsRune(text, utf8.RuneError) {
		return text, nil
	}
	at := c.firstInvalid(raw)
	if at < 0 {
		return text, nil
	}
	return text, c.invalid(raw, at, offset)
}

func (c charset) invalid(raw []byte, at int, offset int64) error {
	if c.replace {
		return nil
	}
	return rows.Reject(rows.ReasonEncoding, "byte 0x%02x at offset %d is not valid %s", raw[at], offset+int64(at), c.name)
}

// firstInvalid returns the index of the first byte that is not valid UTF-8.
func firstInvalid(raw []byte) int {
	at := 0
	for at < len(raw) {
		r, n := utf8.DecodeRune(raw[at:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		at += n
	}
	return at
}

// maxCharBytes is more than any encoding needs for one character, including escape sequences.
const maxCharBytes = 16

// firstInvalid returns the index of the first character of raw that decodes to U+FFFD without being an encoded U+FFFD, or -1.
func (c charset) firstInvalid(raw []byte) int {
	decoder := c.encoding.NewDecoder().Transformer
	genuine, err := c.encoding.NewEncoder().Bytes([]byte(string(utf8.RuneError)))
	var dst [64]byte
	for at := 0; at < len(raw); {
		wrote, read := 0, 0
		for n := 1; n <= maxCharBytes && at+n <= len(raw) && read == 0; n++ {
			wrote, read, _ = decoder.Transform(dst[:], raw[at:at+n], at+n == len(raw))
		}
		if bytes.ContainsRune(dst[:wrote], utf8.RuneError) && (err != nil || !bytes.HasPrefix(raw[at:], genuine)) {
			return at
		}
		at += max(read, 1)
	}
	return -1
}
