package mail

import (
	"io"
	"mime"
	"strings"
)

// header holds the fields of a header block by lower-case name. Of a repeated field it has the first.
type header map[string]string

func (h header) get(name string) string { return h[strings.ToLower(name)] }

// maxField is the size in bytes from which on a field's continuation lines are ignored.
const maxField = 64 << 10

// readHeader splits an entity into its unfolded header fields and its body. An mbox line and lines that are not fields are skipped. An
// entity that does not begin with a header is all body.
func readHeader(entity string) (header, string) {
	h := header{}
	name := "" // of the field that continuation lines belong to, if any
	var value strings.Builder
	end := func() {
		if name != "" {
			h[name] = value.String()
		}
		name = ""
		value.Reset()
	}
	defer end()
	rest := entity
	for first := true; rest != ""; first = false {
		line, after, _ := strings.Cut(rest, "\n")
		if line == "" {
			return h, after
		}
		rest = after
		if first && (strings.HasPrefix(line, "From ") || strings.HasPrefix(line, ">From ")) {
			continue
		}
		if line[0] == ' ' || line[0] == '\t' {
			if name != "" && value.Len() < maxField {
				value.WriteString(" " + strings.TrimSpace(line))
			}
			continue
		}
		end()
		begin, text, found := strings.Cut(line, ":")
		begin = strings.ToLower(strings.TrimSpace(begin))
		switch {
		case !found || !fieldName(begin):
			if len(h) == 0 {
				return h, entity
			}
		case h[begin] == "": // otherwise it is repeated, and its continuation lines do not belong to the first
			name = begin
			value.WriteString(strings.TrimSpace(text))
		}
	}
	return h, rest
}

// fieldName reports whether s is a valid field name: printable ASCII without spaces and colons (RFC 5322 section 3.6.8).
func fieldName(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return s != ""
}

// contentType returns the lower-case media type and its parameters. Without a valid one it is text/plain (RFC 2045 section 5.2). Parameters
// that mime.ParseMediaType rejects (unquoted boundaries with special characters, missing semicolons) are parsed by hand.
func (h header) contentType() (string, map[string]string) {
	value := h.get("Content-Type")
	mediaType, params, err := mime.ParseMediaType(value)
	if err == nil && strings.Contains(mediaType, "/") {
		return mediaType, params
	}
	fields := strings.FieldsFunc(value, func(r rune) bool { return r == ';' || r == ' ' || r == '\t' })
	params = map[string]string{}
	for _, f := range fields {
		if name, v, found := strings.Cut(f, "="); found {
			params[strings.ToLower(name)] = strings.Trim(v, `"'`)
		}
	}
	if len(fields) == 0 || !strings.Contains(fields[0], "/") || strings.Contains(fields[0], "=") {
		return "text/plain", params
	}
	return strings.ToLower(fields[0]), params
}

// words decodes encoded words in the charsets that decodeCharset knows.
var words = mime.WordDecoder{CharsetReader: func(charset string, input io.Reader) (io.Reader, error) {
	b, err := io.ReadAll(input)
	if err != nil {
		return nil, err
	}
	return strings.NewReader(decodeCharset(charset, b)), nil
}}

// decodeWords decodes the encoded words in a field; other text is unchanged.
func decodeWords(s string) string {
	decoded, err := words.DecodeHeader(s)
	if err != nil {
		return s
	}
	return valid(decoded)
}
