package pipelines

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/pipelines/htmltext"
	"github.com/sluiceml/sluice/pipelines/mail"
)

// mailReasons are the reasons DecodeMail rejects a row for.
var mailReasons = map[error]string{
	mail.ErrNoHeader:  "no_header",
	mail.ErrBadBase64: "bad_base64",
	mail.ErrTooDeep:   "too_deep",
}

// compileDecodeMail parses raw messages.
func compileDecodeMail(c dsl.DecodeMail, _ map[string]any) (rowFunc, error) {
	if c.Field == "" {
		return nil, errors.New("field: name the field that holds the raw message")
	}
	return func(r row) error {
		raw, ok := r[c.Field].(string)
		if !ok {
			return reject("not_text", "field %s holds no text", c.Field)
		}
		m, err := mail.Decode(raw)
		if err != nil {
			return reject(mailReasons[err], "%v", err)
		}
		delete(r, c.Field)
		r["subject"], r["from"], r["body"], r["content_type"] = m.Subject, m.From, m.Body, m.ContentType
		r["date"] = nil
		if !m.Date.IsZero() {
			r["date"] = m.Date.Format(time.RFC3339)
		}
		return nil
	}, nil
}

// compileHTMLToText converts HTML fields.
func compileHTMLToText(c dsl.HTMLToText, params map[string]any) (rowFunc, error) {
	convert, err := mapText(c.Fields, htmltext.Convert)
	if err != nil || c.When == "" {
		return convert, err
	}
	when, err := compileCondition("when", c.When, params)
	if err != nil {
		return nil, err
	}
	return func(r row) error {
		ok, err := when(r)
		if err != nil || !ok {
			return err
		}
		return convert(r)
	}, nil
}

// compileNormalize makes equal text equal bytes.
func compileNormalize(c dsl.NormalizeText, _ map[string]any) (rowFunc, error) {
	form, err := oneOf("form", c.Form, "NFC", "NFKC")
	if err != nil {
		return nil, err
	}
	whitespace, err := oneOf("whitespace", c.Whitespace, "collapse", "keep")
	if err != nil {
		return nil, err
	}
	letters, err := oneOf("case", c.Case, "keep", "lower")
	if err != nil {
		return nil, err
	}
	normal := norm.NFC
	if form == "NFKC" {
		normal = norm.NFKC
	}
	return mapText(c.Fields, func(s string) string {
		s = strings.ReplaceAll(s, "\r\n", "\n")
		s = normal.String(strings.Map(visible, s))
		if letters == "lower" {
			// Both ways round, because NFKC makes capitals (of ℂ, say) and lower case can undo a normal form.
			s = normal.String(strings.ToLower(s))
		}
		if whitespace == "collapse" {
			s = collapse(s)
		}
		return s
	})
}

// visible maps line separators to LF and removes control and invisible format characters, which only serve to make equal text
// look different to a program.
func visible(r rune) rune {
	switch {
	case r == '\n' || r == '\t':
		return r
	case r == '\r' || r == '\v' || r == '\f' || r == '\u0085' || r == '\u2028' || r == '\u2029':
		return '\n'
	case unicode.Is(unicode.Cc, r), unicode.Is(unicode.Cf, r):
		return -1
	}
	return r
}

// collapse makes runs of spaces one space, trims lines, and keeps at most one empty line in a row and none at the ends.
func collapse(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	empty := 0
	for line := range strings.SplitSeq(s, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 {
			empty++
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\n\n"[:min(empty+1, 2)])
		}
		empty = 0
		for i, word := range words {
			if i > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(word)
		}
	}
	return b.String()
}

// masks replace personal data by kind.
var masks = map[string]struct {
	pattern *regexp.Regexp
	with    string
}{
	// RFC 5322's dot-atom before the @, a domain name of two labels or more after it.
	"email": {regexp.MustCompile("[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]+@[A-Za-z0-9-]+(?:\\.[A-Za-z0-9-]+)+"), "<EMAIL>"},
}

// compileMask masks personal data.
func compileMask(c dsl.MaskPII, _ map[string]any) (rowFunc, error) {
	kinds := slices.Clone(c.Kinds)
	if len(kinds) == 0 {
		for kind := range masks {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	for _, kind := range kinds {
		if _, ok := masks[kind]; !ok {
			return nil, fmt.Errorf("kinds: %q is no kind of personal data this version masks: email", kind)
		}
	}
	return mapText(c.Fields, func(s string) string {
		for _, kind := range kinds {
			s = masks[kind].pattern.ReplaceAllLiteralString(s, masks[kind].with)
		}
		return s
	})
}
