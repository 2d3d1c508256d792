package pii

import (
	"net/netip"
	"strings"
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

// findEmails finds RFC 5322's dot-atom before an @ and a domain name of two labels or more after it.
func findEmails(text string, yield func(int, int, string)) {
	free := 0 // what lies before is part of a match
	for i := free; ; {
		next := strings.IndexByte(text[i:], '@')
		if next < 0 {
			return
		}
		middle := i + next
		i = middle + 1
		start := middle
		for start > free && isLocal(text[start-1]) {
			start--
		}
		end := domainEnd(text, i)
		if start == middle || end == i {
			continue
		}
		yield(start, end, strings.ToLower(text[start:end]))
		free, i = end, end
	}
}

// isLocal reports whether c may stand before the @ of an address without quotes.
func isLocal(c byte) bool { return isAlnum(c) || strings.IndexByte("!#$%&'*+/=?^_`{|}~.-", c) >= 0 }

func isLabel(c byte) bool { return isAlnum(c) || c == '-' }

// domainEnd returns the end of the domain name that starts at i, or i when none of two labels does.
func domainEnd(text string, i int) int {
	labels, end := 0, i
	for at := i; at < len(text) && isLabel(text[at]); at++ {
		for at < len(text) && isLabel(text[at]) {
			at++
		}
		labels, end = labels+1, at
		if at == len(text) || text[at] != '.' {
			break
		}
	}
	if labels < 2 {
		return i
	}
	return end
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
