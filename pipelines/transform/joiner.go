package transform

import (
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Characters that are invisible but change how their neighbors look.
const (
	zwnj                    = '\u200C'
	zwj                     = '\u200D'
	mongolianVowelSeparator = '\u180E'
	blackFlag               = '\U0001F3F4'
)

// cursive are the scripts whose letters join (UAX #44, Joining_Type), except for historic ones.
var cursive = []*unicode.RangeTable{
	unicode.Adlam, unicode.Arabic, unicode.Hanifi_Rohingya, unicode.Mandaic, unicode.Mongolian, unicode.Nko, unicode.Phags_Pa, unicode.Syriac,
}

// joins reports whether a joiner has an effect between two characters; -1 stands for the start or end of the text. It covers what UAX #31,
// section 2.3.1, allows in identifiers (A1: in cursive scripts; A2 and B: at a virama), and three more common uses: a joiner before a
// virama (Bengali ya after ra), ZWNJ between a cursive letter and a digit or a letter of another script (the Persian plural of "PDF"), and
// ZWJ at the end of a word, which shows the form that a letter has inside words. In emoji sequences it is UTS #51's ED-16.
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

// inWord reports whether a character can be part of a word.
func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r) }

// isVirama reports whether a mark removes the vowel of the preceding consonant, so that the consonant may join the next one.
func isVirama(r rune) bool {
	const virama = 9 // UAX #44, Canonical_Combining_Class
	return unicode.IsMark(r) && norm.NFC.PropertiesString(string(r)).CCC() == virama
}

// isEmoji reports whether a character can be next to a ZWJ in an emoji sequence: a pictograph, even one that Unicode will only add later,
// or a skin tone or variation selector.
func isEmoji(r rune) bool {
	const first, variation16 = '\u203C', '\uFE0F'
	return r >= first && unicode.In(r, unicode.So, unicode.Sm) || 0x1F000 <= r && r <= 0x1FAFF || r == variation16
}

// maxHidden bounds the search for a joiner's neighbor: a text may consist only of joiners.
const maxHidden = 16

// firstVisible returns the first character of s that is visible or a space, or -1 if there is none nearby.
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

// leadingTags returns the length of the tag characters at the start of s, and whether they turn a black flag into the flag of a region (UTS
// #51, ED-14a). Other tag characters are invisible, and whole texts can be hidden in them.
func leadingTags(s string) (n int, region bool) {
	const tag, end = '\U000E0000', '\U000E007F'
	letters := 0 // such as gbsct: two for the country, and one to three for its region
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
