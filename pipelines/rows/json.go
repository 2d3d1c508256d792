package rows

import "math/bits"

// Eight bytes are examined together, as one word. In each of these words all bytes are the same.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special has the high bit set of each byte of w that does not stand for itself in a JSON string: control characters, quotation marks and
// backslashes. Only the lowest bit set is reliable; those above it may be wrong.
func special(w uint64) uint64 {
	quote, backslash := w^ones*'"', w^ones*'\\'
	return ((w-ones*0x20)&^w | (quote-ones)&^quote | (backslash-ones)&^backslash) & highs
}

// plain returns the number of bytes before the first special one, and whether they are all ASCII.
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
