// Package mail parses e-mail as it occurs in practice: RFC 5322 headers, MIME parts (RFC 2045, 2046), encoded words (RFC 2047), and what
// twenty years of broken software made of them. It extracts as much as it can and rejects only input without a message in it.
//
// A message is text, not bytes: it comes from a JSON string. Text that was sent as 8-bit bytes has therefore been decoded by the producer
// of the JSON, and only quoted-printable, base64 and the 7-bit charsets (ISO-2022-JP) remain to be decoded.
package mail

import (
	"errors"
	"html"
	"mime"
	netmail "net/mail"
	"strings"
	"time"
)

// Message is the readable content of an e-mail. All its strings are valid UTF-8.
type Message struct {
	Subject string
	From    string
	// Date is the Date header in UTC, zero if it is missing or invalid.
	Date time.Time
	// Body is the text of the message: the plain one of several alternatives, and otherwise all parts that are text and not attachments.
	Body string
	// ContentType is text/plain or text/html. If the body has parts of both, it is HTML, with the plain parts escaped.
	ContentType string
}

// The errors of Decode.
var (
	ErrNoHeader  = errors.New("no header field at the start")
	ErrBadBase64 = errors.New("a text part declared as base64 is not base64")
	ErrTooDeep   = errors.New("parts nested more than 20 deep")
)

// maxDepth bounds how deeply parts may nest.
const maxDepth = 20

// Decode parses a raw message, which may begin with an mbox line ("From user date"). It returns one of the three errors above.
func Decode(raw string) (Message, error) {
	h, body := readHeader(toLF(raw))
	if len(h) == 0 {
		return Message{}, ErrNoHeader
	}
	parts, err := textParts(h, body, 0)
	if err != nil {
		return Message{}, err
	}
	m := Message{
		Subject: decodeWords(h.get("Subject")),
		From:    decodeWords(h.get("From")),
		Date:    parseDate(h.get("Date")),
	}
	m.Body, m.ContentType = join(parts)
	return m, nil
}

// part is one piece of readable text.
type part struct {
	text string
	html bool
}

// join joins the parts into one body.
func join(parts []part) (body, contentType string) {
	anyHTML := false
	for _, p := range parts {
		anyHTML = anyHTML || p.html
	}
	texts := make([]string, len(parts))
	for i, p := range parts {
		texts[i] = p.text
		if anyHTML && !p.html {
			texts[i] = "<pre>" + html.EscapeString(p.text) + "</pre>"
		}
	}
	if anyHTML {
		return strings.Join(texts, "\n"), "text/html"
	}
	return strings.Join(texts, "\n"), "text/plain"
}

// textParts returns the readable parts of the entity with the given header and body.
func textParts(h header, body string, depth int) ([]part, error) {
	if depth > maxDepth {
		return nil, ErrTooDeep
	}
	mediaType, params := h.contentType()
	switch {
	case depth > 0 && strings.EqualFold(disposition(h), "attachment"):
		return nil, nil
	case strings.HasPrefix(mediaType, "multipart/"):
		return multiparts(mediaType, params["boundary"], body, depth)
	case mediaType == "message/rfc822":
		inner, innerBody := readHeader(body)
		return textParts(inner, innerBody, depth+1)
	case !strings.HasPrefix(mediaType, "text/"):
		return nil, nil
	}
	text, err := decodeText(h.get("Content-Transfer-Encoding"), params["charset"], body)
	if err != nil {
		return nil, err
	}
	text = toLF(text) // base64 preserves the CRLF with which the text was sent
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	return []part{{text: text, html: mediaType == "text/html"}}, nil
}

// multiparts returns the readable parts of a multipart body. If its boundary never occurs, the body is taken as plain text, as it was
// displayed by the sender's program.
func multiparts(mediaType, boundary, body string, depth int) ([]part, error) {
	entities := splitParts(body, boundary)
	if entities == nil {
		if strings.TrimSpace(body) == "" {
			return nil, nil
		}
		return []part{{text: valid(body)}}, nil
	}
	var all []part
	for _, e := range entities {
		h, inner := readHeader(e)
		parts, err := textParts(h, inner, depth+1)
		if err != nil {
			return nil, err
		}
		if mediaType == "multipart/alternative" {
			all = better(all, parts)
			continue
		}
		all = append(all, parts...)
	}
	return all, nil
}

// better chooses between two alternatives: the plain one, or else the first.
func better(a, b []part) []part {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	case a[0].html && !b[0].html:
		return b
	}
	return a
}

// splitParts splits a multipart body at its boundary lines (RFC 2046 section 5.1.1) and discards preamble and epilogue. The last boundary
// may be missing. The result is nil if there is no boundary.
func splitParts(body, boundary string) []string {
	if boundary == "" {
		return nil
	}
	var parts []string
	start := -1
	for at := 0; at < len(body); {
		next := len(body)
		if i := strings.IndexByte(body[at:], '\n'); i >= 0 {
			next = at + i + 1
		}
		rest, found := strings.CutPrefix(body[at:next], "--"+boundary)
		rest = strings.TrimRight(rest, " \t\n")
		if found && (rest == "" || rest == "--") {
			if start >= 0 {
				parts = append(parts, strings.TrimSuffix(body[start:at], "\n"))
			}
			start = next
			if rest == "--" {
				return parts
			}
		}
		at = next
	}
	if start >= 0 && start < len(body) {
		parts = append(parts, body[start:])
	}
	return parts
}

// parseDate parses a Date header as defined by RFC 5322, including the comments and missing weekdays that net/mail supports.
func parseDate(s string) time.Time {
	t, err := netmail.ParseDate(strings.TrimSpace(s))
	if err != nil || t.Year() < 0 || t.UTC().Year() > 9999 {
		return time.Time{}
	}
	return t.UTC()
}

func disposition(h header) string {
	kind, _, _ := mime.ParseMediaType(h.get("Content-Disposition"))
	return kind
}

// toLF converts all line ends to LF, and invalid UTF-8 to U+FFFD.
func toLF(s string) string {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	return valid(strings.ReplaceAll(s, "\r", "\n"))
}

func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
