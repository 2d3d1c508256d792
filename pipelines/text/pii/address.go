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

// Forms of @ and of a dot that are typed among letters of East Asia.
const (
	fullWidthAt  = "＠"
	fullWidthDot = "．"
)

// findEmails finds RFC 5322's dot-atom or quoted string before an @ and a domain name of two labels or more after it, all with the
// letters of all scripts, as RFC 6531 has them.
func findEmails(text string, yield func(int, int, string)) {
	free := 0             // what lies before is part of a match
	plain, wide := -1, -1 // where the next of each @ is
	for i := free; ; {
		if plain < i {
			plain = indexFrom(text, "@", i)
		}
		if wide < i {
			wide = indexFrom(text, fullWidthAt, i)
		}
		middle := min(plain, wide)
		if middle == len(text) {
			return
		}
		i = middle + 1
		if middle == wide {
			i = middle + len(fullWidthAt)
		}
		local, start := localPart(text, free, middle)
		end := domainEnd(text, i, middle == wide)
		if start == middle || end == i {
			continue
		}
		yield(start, end, strings.ToLower(norm.NFKC.String(local+"@"+text[i:end])))
		free, i = end, end
	}
}

// indexFrom returns where part is in text from i on, or the length of text.
func indexFrom(text, part string, i int) int {
	if n := strings.Index(text[i:], part); n >= 0 {
		return i + n
	}
	return len(text)
}

// localPart returns the part of an address that ends at the @, without quotes that it does not need, and where it begins; the @ itself
// when there is none.
func localPart(text string, free, at int) (local string, start int) {
	if start = localStart(text, free, at); start < at {
		return text[start:at], start
	}
	if start = quotedStart(text, free, at); start == at {
		return "", at
	}
	content := unescaped.Replace(text[start+1 : at-1])
	if localStart(content, 0, len(content)) == 0 {
		return content, start
	}
	return `"` + content + `"`, start
}

// unescaped takes the backslashes of a quoted string away.
var unescaped = strings.NewReplacer(`\\`, `\`, `\`, "")

// maxLocal is how many bytes RFC 5321 allows before the @.
const maxLocal = 64

// quotedStart returns where the quoted string begins that ends at the @; the @ itself when there is none. Its quotes are both after a
// backslash, as in a string of JSON, or neither is.
func quotedStart(text string, free, at int) int {
	if at-1 < free || text[at-1] != '"' {
		return at
	}
	closing := at - 1
	for i := closing - 1; i >= max(free, closing-1-maxLocal) && text[i] >= ' '; i-- {
		if text[i] != '"' || escaped(text[free:i]) != escaped(text[free:closing]) {
			continue
		}
		if i == closing-1 {
			return at // nothing is quoted
		}
		return i
	}
	return at
}

// escaped reports whether what comes after text is escaped by its last backslash.
func escaped(text string) bool { return (len(text)-len(strings.TrimRight(text, `\`)))%2 == 1 }

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

// withoutSpaces reports whether c is of a script that is written without spaces, or puts endings to words of other letters, as Hangul does:
// what stands beside an address of other letters is then no part of it, but the sentence around it.
func withoutSpaces(c rune) bool {
	return c >= utf8.RuneSelf && unicode.In(c, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// domainEnd returns the end of the domain name that starts at i, or i when none of two labels does. One after a full-width @ may have
// full-width dots, too, but not dots of both kinds: "．" may end a sentence.
func domainEnd(text string, i int, wide bool) int {
	labels, end, dot := 0, i, "."
	for at := i; ; at = end + len(dot) {
		n := labelEnd(text[at:])
		if n == 0 {
			break
		}
		labels, end = labels+1, at+n
		if wide && labels == 1 && strings.HasPrefix(text[end:], fullWidthDot) {
			dot = fullWidthDot
		}
		if !strings.HasPrefix(text[end:], dot) {
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
