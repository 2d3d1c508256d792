package rows

import (
	"strings"
	"unicode/utf8"
)

// ReasonDamaged is the reason of the row of a file at which it cannot be read any further: what follows is lost.
const ReasonDamaged = "damaged"

// What is shown of a rejection is bounded, in bytes: the text of what is no row, and the message.
const (
	MaxText    = 64 << 10
	MaxMessage = 1 << 10
)

// Clip cuts s to n bytes at most, at a character's end.
func Clip(s string, n int) string {
	if len(s) <= n {
		return strings.ToValidUTF8(s, "\uFFFD")
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.ToValidUTF8(s[:n], "\uFFFD") + "…"
}
