// Package mojibake repairs the most common encoding accident: UTF-8 that was decoded as Windows-1252 or ISO 8859-1, so that "é" became
// "Ã©".
package mojibake

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
)

// maxRounds is how many times in succession a text may have been misdecoded.
const maxRounds = 3

// Repair returns s as it was before it was misdecoded, or s itself. It is strict: it repairs a text as a whole or not at all, and only if
// all its characters exist in the wrong encoding, their bytes are valid UTF-8, and the result contains less of what is rare in real text.
// What real text can contain ("CAFÉ™", whose last two characters are the UTF-8 of "ə") stays.
func Repair(s string) string {
	for range maxRounds {
		// The lead byte of a multi-byte character is misread as one of Â to ô, whose own first byte is C3.
		if strings.IndexByte(s, 0xC3) < 0 {
			return s
		}
		before, ok := unread(s)
		if !ok || badness(before) >= badness(s) {
			return s
		}
		s = before
	}
	return s
}

// unread returns the bytes that s was decoded from, if they are valid UTF-8.
func unread(s string) (string, bool) {
	b := make([]byte, 0, len(s))
	for _, r := range s {
		c, ok := byteOf(r)
		if !ok {
			return "", false
		}
		b = append(b, c)
	}
	return string(b), utf8.Valid(b)
}

// byteOf returns the byte that Windows-1252 decodes to r. The five bytes that it leaves undefined, and the control characters of ISO
// 8859-1, map to themselves.
func byteOf(r rune) (byte, bool) {
	if r < 0x100 {
		return byte(r), true
	}
	return charmap.Windows1252.EncodeRune(r)
}

// badness counts what is common in misdecoded text and rare in real text: control characters, sequences that look like the bytes of one
// UTF-8 character, characters of rare blocks, and a lower-case letter with an accent after two capitals.
func badness(s string) int {
	n := 0
	var before [2]rune
	for i, r := range s {
		switch {
		case r < utf8.RuneSelf:
		case r < 0xA0, isLead(r) && followed(s[i+utf8.RuneLen(r):], r), rare(r), unicode.IsUpper(before[0]) && unicode.IsUpper(before[1]) && unicode.IsLower(r):
			n++
		}
		before = [2]rune{before[1], r}
	}
	return n
}

// isLead reports whether r is a misdecoded first byte of a UTF-8 character.
func isLead(r rune) bool { return r >= 0xC2 && r <= 0xF4 }

// followed reports whether rest begins with as many misdecoded continuation bytes as the misdecoded lead byte requires.
func followed(rest string, lead rune) bool {
	want := 1
	if lead >= 0xE0 {
		want = 2
	}
	if lead >= 0xF0 {
		want = 3
	}
	for _, r := range rest {
		if c, ok := byteOf(r); !ok || c < 0x80 || c > 0xBF {
			return false
		}
		if want--; want == 0 {
			return true
		}
	}
	return false
}

// rare reports whether r is from no script or block that running text uses: phonetic letters, modifiers, private use, unassigned.
func rare(r rune) bool {
	switch {
	case r >= 0x180 && r < 0x218, r >= 0x21C && r < 0x370, r >= 0x1D00 && r < 0x1E00:
		return !unicode.Is(unicode.Mn, r)
	}
	return r == utf8.RuneError || !unicode.IsPrint(r) && !unicode.IsSpace(r) && !unicode.Is(unicode.Cf, r)
}
