// Package rowjson reads and writes rows as JSON: it is encoding/json for values of few types, several times as fast, since cleaning does
// little else than to read and write JSON. It is pure.
//
// The values are nil, bool, int64, float64, string, []any and map[string]any. What is accepted, what is written and how text that is no
// Unicode is mended are as in encoding/json, but for numbers: one without a fraction or an exponent is an int64, and a float64 has one. So
// what is written is read as the same values. What could only be read as another value is said.
package rowjson

import "math/bits"

// The eight bytes of a word are looked at together: in each of these words every byte is the same.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special has a high bit set for each byte of w that stands for something else than itself in a JSON string: a control character, a
// quotation mark or a backslash. Bits above the lowest that is set may be set wrongly.
func special(w uint64) uint64 {
	quote, backslash := w^ones*'"', w^ones*'\\'
	return ((w-ones*0x20)&^w | (quote-ones)&^quote | (backslash-ones)&^backslash) & highs
}

// plain returns how many bytes text has before the first special one, and whether they are all ASCII.
func plain[T string | []byte](text T) (n int, ascii bool) {
	var seen uint64
	for ; n+8 <= len(text); n += 8 {
		b := text[n : n+8]
		w := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
			uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
		if at := special(w); at != 0 {
			before := bits.TrailingZeros64(at) / 8
			seen |= w & (1<<(8*before) - 1)
			return n + before, seen&highs == 0
		}
		seen |= w
	}
	for ; n < len(text); n++ {
		c := text[n]
		if c < 0x20 || c == '"' || c == '\\' {
			break
		}
		seen |= uint64(c)
	}
	return n, seen&highs == 0
}
