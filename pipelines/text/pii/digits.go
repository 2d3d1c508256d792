package pii

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// shift says that text at or after a position was by bytes further on.
type shift struct{ at, by int }

// plainText returns text with the digits, spaces and hyphens of all scripts replaced by ASCII, for finders of numbers. shifts maps
// positions back to text.
func plainText(text string) (plain string, shifts []shift) {
	if strings.IndexFunc(text, func(r rune) bool { return inASCII(r) != 0 }) < 0 {
		return text, nil
	}
	b := make([]byte, 0, len(text))
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		if c := inASCII(r); c != 0 {
			b = append(b, c)
			shifts = append(shifts, shift{len(b), i + size - len(b)})
		} else {
			b = append(b, text[i:i+size]...)
		}
		i += size
	}
	return string(b), shifts
}

// before maps a position in the plain text to the original text.
func before(shifts []shift, at int) int {
	if n, _ := slices.BinarySearchFunc(shifts, at+1, func(s shift, at int) int { return cmp.Compare(s.at, at) }); n > 0 {
		return at + shifts[n-1].by
	}
	return at
}

// inASCII returns the ASCII character that r stands for in numbers, or 0 if r is ASCII or does not occur in numbers. It covers decimal
// digits of all scripts, full-width letters and signs, spaces that keep a number together, hyphens and dashes.
func inASCII(r rune) byte {
	switch {
	case r < utf8.RuneSelf, '\u3040' <= r && r < '\ua620', '\uac00' <= r && r < '\uff00': // ranges without digits
		return 0
	case 'Ａ' <= r && r <= 'Ｚ', 'ａ' <= r && r <= 'ｚ', strings.ContainsRune("（）＋－．／：", r):
		return byte(r - '！' + '!')
	case r == '\u00a0', r == '\u2007', r == '\u2009', r == '\u202f', r == '\u3000':
		return ' '
	case '\u2010' <= r && r <= '\u2013', r == '\u2212':
		return '-'
	}
	for _, digits := range unicode.Nd.R16 { // each range begins with a zero
		if r < rune(digits.Lo) {
			return 0
		}
		if r <= rune(digits.Hi) {
			return '0' + byte(r-rune(digits.Lo))%10
		}
	}
	for _, digits := range unicode.Nd.R32 {
		if uint32(r) >= digits.Lo && uint32(r) <= digits.Hi {
			return '0' + byte(uint32(r)-digits.Lo)%10
		}
	}
	return 0
}
