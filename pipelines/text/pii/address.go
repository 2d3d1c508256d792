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

// at returns the byte of s at i, or 0 if i is out of range.
func at(s string, i int) byte {
	if i < 0 || i >= len(s) {
		return 0
	}
	return s[i]
}

// Full-width forms of @ and the dot, which are typed in East Asian text.
const (
	fullWidthAt  = "＠"
	fullWidthDot = "．"
)

// findEmails finds e-mail addresses: RFC 5322's dot-atom or quoted string before an @, and a domain name of at least two labels after it.
// Letters of all scripts are allowed, as in RFC 6531.
func findEmails(text string, yield func(int, int, string)) {
	free := 0             // text before it is part of a match
	plain, wide := -1, -1 // the next @ of each form
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

// indexFrom returns the index of part in text from i on, or len(text) if there is none.
func indexFrom(text, part string, i int) int {
	if n := strings.Index(text[i:], part); n >= 0 {
		return i + n
	}
	return len(text)
}

// localPart returns the local part of the address whose @ is at at, without unnecessary quotes, and where it begins. If there is none,
// start is at.
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

// unescaped removes the backslashes of a quoted string.
var unescaped = strings.NewReplacer(`\\`, `\`, `\`, "")

// maxLocal is the maximum length of a local part in bytes, by RFC 5321.
const maxLocal = 64

// quotedStart returns where the quoted string before the @ begins, or at if there is none. Either both quotes are preceded by a backslash,
// as in a JSON string, or neither is.
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
			return at // the quoted string is empty
		}
		return i
	}
	return at
}

// escaped reports whether the backslashes at the end of text escape the next character.
func escaped(text string) bool { return (len(text)-len(strings.TrimRight(text, `\`)))%2 == 1 }

// localStart returns where the unquoted local part before the @ begins, or at if there is none.
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

// isLocal reports whether c is allowed in an unquoted local part.
func isLocal(c rune) bool {
	return isWord(c) || c < utf8.RuneSelf && strings.IndexByte("!#$%&'*+/=?^_`{|}~.-", byte(c)) >= 0
}

// isWord reports whether c is a letter, a mark or a number.
func isWord(c rune) bool {
	if c < utf8.RuneSelf {
		return isAlnum(byte(c))
	}
	return unicode.In(c, unicode.L, unicode.M, unicode.N)
}

// withoutSpaces reports whether c belongs to a script that is written without spaces, or that attaches endings to words of other scripts,
// as Hangul does. Next to an address in another script, such characters belong to the surrounding sentence.
func withoutSpaces(c rune) bool {
	return c >= utf8.RuneSelf && unicode.In(c, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// domainEnd returns the end of the domain name that starts at i, or i if there is none of two labels. After a full-width @, the dots may be
// full-width, too, but not mixed with ASCII dots: "．" may end a sentence.
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

// labelEnd returns the length of the domain label at the start of text.
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

// maxIP is the length of the longest address.
const maxIP = len("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255")

// findIPs finds IPv4 and IPv6 addresses that are whole words.
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
		if text[start] == ':' && at(text, start+1) != ':' { // the colon of "from:1.2.3.4"
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

// isIP reports whether c can occur in an address.
func isIP(c byte) bool {
	return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' || c == ':' || c == '.'
}

// ipIn parses the address in text[start:end], without a word before it and a port or punctuation after it.
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

// likelyIPv6 distinguishes addresses from names in programs (a::b) and times: it requires a digit, and a group of three characters or more.
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
