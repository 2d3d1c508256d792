package transform

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// The characters that are not seen themselves, and change how those beside them look.
const (
	zwnj                    = '\u200C'
	zwj                     = '\u200D'
	mongolianVowelSeparator = '\u180E'
	blackFlag               = '\U0001F3F4'
)

// cursive are the scripts whose letters join (UAX #44, Joining_Type), but for those nobody writes any more.
var cursive = []*unicode.RangeTable{
	unicode.Adlam, unicode.Arabic, unicode.Hanifi_Rohingya, unicode.Mandaic, unicode.Mongolian, unicode.Nko, unicode.Phags_Pa, unicode.Syriac,
}

// joins reports whether a joiner does something between two characters, of which either is -1 where the text begins or ends. It is what
// UAX #31, section 2.3.1, allows in identifiers (A1: in cursive scripts; A2 and B: at a virama), and three things more that people write: a
// joiner before a virama (Bengali ya after ra), ZWNJ between a cursive letter and a digit or a letter of another script (the Persian plural
// of "PDF"), and ZWJ at the end of a word, which shows the form of a letter that is within words. In an emoji sequence it is UTS #51's
// ED-16.
func joins(r, before, after rune) bool {
	if r == zwj && isEmoji(before) && isEmoji(after) {
		return true
	}
	if isVirama(after) && unicode.IsLetter(before) {
		return true
	}
	joinable := inWord(before) && inWord(after)
	switch {
	case isVirama(before):
		return r == zwj || joinable
	case r == zwj:
		return unicode.In(before, cursive...) && inWord(before) || unicode.In(after, cursive...) && inWord(after)
	}
	return joinable && (unicode.In(before, cursive...) || unicode.In(after, cursive...))
}

// inWord reports whether words have that character.
func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r) }

// isVirama reports whether a mark takes the vowel from the consonant before, so that it may join the next one.
func isVirama(r rune) bool {
	const virama = 9 // UAX #44, Canonical_Combining_Class
	return unicode.IsMark(r) && norm.NFC.PropertiesString(string(r)).CCC() == virama
}

// isEmoji reports whether a character can stand at a ZWJ of an emoji sequence: a picture, also one that Unicode will only have later, the
// skin tone or the variation selector after one.
func isEmoji(r rune) bool {
	const first, variation16 = '\u203C', '\uFE0F'
	return r >= first && unicode.In(r, unicode.So, unicode.Sm) || 0x1F000 <= r && r <= 0x1FAFF || r == variation16
}

// maxHidden bounds how far a joiner's neighbour is looked for: a text may be nothing but joiners.
const maxHidden = 16

// firstVisible returns the first character of s that is seen or is a space, -1 when there is none nearby.
func firstVisible(s string) rune {
	passed := 0
	for _, r := range s {
		if !hidden(r) || unicode.IsSpace(r) {
			return r
		}
		if passed++; passed == maxHidden {
			break
		}
	}
	return -1
}

// leadingTags returns the length of the tags that s begins with, and whether they make a black flag one of a part of a country (UTS #51,
// ED-14a). Other tags are never seen, and whole texts can be hidden in them.
func leadingTags(s string) (n int, region bool) {
	const tag, end = '\U000E0000', '\U000E007F'
	letters := 0 // gbsct: those of the country, and one to three of its part
	for _, r := range s {
		switch {
		case tag+'a' <= r && r <= tag+'z' || tag+'0' <= r && r <= tag+'9':
			letters++
		case r == end:
			return n + utf8.RuneLen(r), 3 <= letters && letters <= 5
		default:
			return n, false
		}
		n += utf8.RuneLen(r)
	}
	return n, false
}
