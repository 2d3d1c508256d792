package pii

import (
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
func isAlnum(c byte) bool { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'z' }

// at returns the byte of s at i, or 0 when there is none.
func at(s string, i int) byte {
	if i < 0 || i >= len(s) {
		return 0
	}
	return s[i]
}

// findEmails finds RFC 5322's dot-atom before an @ and a domain name of two labels or more after it, both with the letters of all
// scripts, as RFC 6531 has them.
func findEmails(text string, yield func(int, int, string)) {
	free := 0 // what lies before is part of a match
	for i := free; ; {
		next := strings.IndexByte(text[i:], '@')
		if next < 0 {
			return
		}
		middle := i + next
		i = middle + 1
		start, end := localStart(text, free, middle), domainEnd(text, i)
		if start == middle || end == i {
			continue
		}
		yield(start, end, strings.ToLower(norm.NFC.String(text[start:end])))
		free, i = end, end
	}
}

// localStart returns where the part of an address begins that ends at the @; the @ itself when there is none.
func localStart(text string, free, at int) int {
	start, spaced := at, false
	for start > free {
		c, n := rune(text[start-1]), 1
		if c >= utf8.RuneSelf {
			c, n = utf8.DecodeLastRuneInString(text[free:start])
		}
		if !isLocal(c) || spaced && withoutSpaces(c) {
			break
		}
		start -= n
		spaced = spaced || isWord(c) && !withoutSpaces(c)
	}
	return start
}

// isLocal reports whether c may stand before the @ of an address without quotes.
func isLocal(c rune) bool {
	return isWord(c) || c < utf8.RuneSelf && strings.IndexByte("!#$%&'*+/=?^_`{|}~.-", byte(c)) >= 0
}

// isWord reports whether c is a letter, a mark on one, or a digit.
func isWord(c rune) bool {
	if c < utf8.RuneSelf {
		return isAlnum(byte(c))
	}
	return unicode.In(c, unicode.L, unicode.M, unicode.N)
}

// withoutSpaces reports whether c is of a script that is written without spaces: what stands beside an address of other letters is then
// no part of it, but the sentence around it.
func withoutSpaces(c rune) bool {
	return c >= utf8.RuneSelf && unicode.In(c, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// domainEnd returns the end of the domain name that starts at i, or i when none of two labels does.
func domainEnd(text string, i int) int {
	labels, end := 0, i
	for at := i; ; at = end + 1 {
		n := labelEnd(text[at:])
		if n == 0 {
			break
		}
		labels, end = labels+1, at+n
		if end == len(text) || text[end] != '.' {
			break
		}
	}
	if labels < 2 {
		return i
	}
	return end
}

// labelEnd returns the length of the label that text begins with.
func labelEnd(text string) int {
	spaced := false
	for i, c := range text {
		if c != '-' && !isWord(c) || spaced && withoutSpaces(c) {
			return i
		}
		spaced = spaced || c != '-' && !withoutSpaces(c)
	}
	return len(text)
}

// maxIP is the longest text of an address.
const maxIP = len("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255")

// findIPs finds addresses of IPv4 and IPv6, each as a whole word.
func findIPs(text string, yield func(int, int, string)) {
	for i := 0; i < len(text); {
		if !isIP(text[i]) {
			i++
			continue
		}
		start, colons, dots := i, 0, 0
		for i < len(text) && isIP(text[i]) {
			switch text[i] {
			case ':':
				colons++
			case '.':
				dots++
			}
			i++
		}
		if text[start] == ':' && at(text, start+1) != ':' { // that of "from:1.2.3.4"
			start, colons = start+1, colons-1
		}
		if colons < 2 && dots < 3 || isAlnum(at(text, start-1)) || isAlnum(at(text, i)) {
			continue
		}
		if from, to, addr := ipIn(text, start, i, colons); addr.IsValid() {
			yield(from, to, addr.String())
		}
	}
}

// isIP reports whether c can be in an address.
func isIP(c byte) bool {
	return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' || c == ':' || c == '.'
}

// ipIn reads the address that is text[start:end] but for punctuation and a port after it or a word before it.
func ipIn(text string, start, end, colons int) (from, to int, addr netip.Addr) {
	for end > start && (text[end-1] == '.' || text[end-1] == ':' && at(text, end-2) != ':') {
		end--
	}
	if before, after, cut := strings.Cut(text[start:end], ":"); cut && colons == 1 {
		if strings.Count(before, ".") == 3 {
			end = start + len(before)
		} else {
			start = end - len(after)
		}
	}
	word := text[start:end]
	if len(word) > maxIP {
		return start, end, addr
	}
	addr, err := netip.ParseAddr(word)
	if err != nil || addr.Is6() && !likelyIPv6(word) {
		return start, end, netip.Addr{}
	}
	return start, end, addr
}

// likelyIPv6 tells addresses from the names of programs (a::b) and from times: there is a digit, and a group of three or more.
func likelyIPv6(s string) bool {
	if !strings.ContainsAny(s, "0123456789") {
		return false
	}
	for group := range strings.SplitSeq(s, ":") {
		if len(group) >= 3 {
			return true
		}
	}
	return false
}
