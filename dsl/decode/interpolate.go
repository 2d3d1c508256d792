package decode

import (
	"strings"
	"unicode/utf8"
)

// part is a piece of a text: literal characters, or an expression.
type part struct {
	literal string
	expr    string // empty for characters
	// offset of the expression in the text, in characters.
	offset int
}

// splitError says where a text's interpolation is broken, in characters.
type splitError struct {
	offset  int
	message string
}

// splitText splits "a${x}b" into its parts. "$${" is a literal "${". An expression ends at the brace that closes it: braces of its
// own and those inside its strings do not.
func splitText(text string) ([]part, *splitError) {
	var parts []part
	var literal strings.Builder
	flush := func() {
		if literal.Len() > 0 {
			parts = append(parts, part{literal: literal.String()})
			literal.Reset()
		}
	}
	counted, offset := 0, 0 // bytes counted so far, and the characters in them
	for i := 0; i < len(text); {
		switch rest := text[i:]; {
		case strings.HasPrefix(rest, "$${"):
			literal.WriteString("${")
			i += 3
		case strings.HasPrefix(rest, "${"):
			flush()
			start := i + 2
			end := closingBrace(text, start)
			offset += utf8.RuneCountInString(text[counted:start])
			counted = start
			if end < 0 {
				return nil, &splitError{offset - 2, "this `${` has no closing `}`"}
			}
			if strings.TrimSpace(text[start:end]) == "" {
				return nil, &splitError{offset - 2, "`${}` is empty"}
			}
			parts = append(parts, part{expr: text[start:end], offset: offset})
			i = end + 1
		default:
			literal.WriteByte(text[i])
			i++
		}
	}
	flush()
	return parts, nil
}

// closingBrace returns the index of the brace that closes the expression starting at i, or -1.
func closingBrace(text string, i int) int {
	for depth := 0; i < len(text); {
		switch c := text[i]; {
		case c == '"' || c == '\'':
			i = stringEnd(text, i)
			continue
		case c == '{':
			depth++
		case c == '}' && depth == 0:
			return i
		case c == '}':
			depth--
		}
		i++
	}
	return -1
}

// stringEnd returns the index after the CEL string literal that begins at i. A backslash escapes, except in a raw string (r"...").
func stringEnd(text string, i int) int {
	quote := text[i : i+1]
	raw := i > 0 && (text[i-1] == 'r' || text[i-1] == 'R')
	if strings.HasPrefix(text[i:], strings.Repeat(quote, 3)) {
		quote = strings.Repeat(quote, 3)
	}
	for i += len(quote); i < len(text); i++ {
		switch {
		case strings.HasPrefix(text[i:], quote):
			return i + len(quote)
		case text[i] == '\\' && !raw:
			i++
		}
	}
	return len(text)
}
