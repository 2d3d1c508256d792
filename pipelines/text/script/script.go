// Package script knows which scripts put spaces between words. It does no I/O.
package script

import "unicode"

// unspaced are the scripts without spaces between words: those of UAX #14's classes ID and SA, except for emoji.
var unspaced = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Bopomofo, unicode.Yi,
	unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar, unicode.Tai_Le, unicode.New_Tai_Lue, unicode.Tai_Tham, unicode.Tai_Viet, unicode.Ahom,
}

// Unspaced reports whether a letter, mark or number belongs to a script without spaces between words. Finding the words there would need a
// dictionary; without one, each letter with its marks is a word, as in UAX #29.
func Unspaced(r rune) bool {
	switch {
	case r < '\u0E00': // Thai is the first of them
		return false
	case '\u4E00' <= r && r <= '\u9FFF':
		return true
	case '\uAC00' <= r && r <= '\uD7A3': // Hangul, which has spaces
		return false
	case r == '\u3006', r == '\u303C', '\u3031' <= r && r <= '\u3035', r == '\u30FC', r == '\uFF70': // used in several scripts, all Japanese
		return true
	}
	return unicode.In(r, unspaced...)
}
