package pii

import "strings"

// startsNumber reports whether a number begins at i: no letter, digit or part of a longer number precedes it.
func startsNumber(text string, i int) bool {
	before := at(text, i-1)
	return !isAlnum(before) && before != '_' && !(strings.IndexByte(".,-/", before) >= 0 && before != 0 && isDigit(at(text, i-2)))
}

// endsNumber reports the same about what follows.
func endsNumber(text string, end int) bool {
	after := at(text, end)
	return !isAlnum(after) && after != '_' && !(strings.IndexByte(".,-/", after) >= 0 && after != 0 && isDigit(at(text, end+1)))
}

// The lengths of card numbers.
const (
	minCard = 12
	maxCard = 19
)

// findCards finds numbers of payment cards: a prefix that a network issues, its length, and the check digit (ISO/IEC 7812).
func findCards(text string, yield func(int, int, string)) {
	for i := 0; i < len(text); i++ {
		if !isDigit(text[i]) || !startsNumber(text, i) {
			continue
		}
		digits, end := cardAt(text, i)
		if digits != "" {
			yield(i, end, digits)
		}
		i = end - 1
	}
}

// cardAt reads the longest card number that starts at i, with single spaces or hyphens between groups of digits. If there is none, digits
// is empty and end is after the first group.
func cardAt(text string, i int) (digits string, end int) {
	var b []byte
	for at := i; at < len(text) && len(b) < maxCard; at++ {
		if !isDigit(text[at]) {
			return digits, end
		}
		b = append(b, text[at])
		if at+1 < len(text) && isDigit(text[at+1]) {
			continue
		}
		if end == 0 {
			end = at + 1
		}
		if isCard(string(b)) && endsNumber(text, at+1) {
			digits, end = string(b), at+1
		}
		if at+1 < len(text) && (text[at+1] == ' ' || text[at+1] == '-') {
			at++
		}
	}
	if end == 0 { // the first group is too long
		end = i + len(text[i:]) - len(strings.TrimLeft(text[i:], "0123456789"))
	}
	return digits, end
}

// isCard reports whether digits is a card number.
func isCard(digits string) bool {
	return len(digits) >= minCard && len(digits) <= maxCard && issued(digits) && luhn(digits)
}

// issued reports whether a network issues numbers with this prefix and length.
func issued(digits string) bool {
	n, four := len(digits), 0
	for _, c := range digits[:4] {
		four = 10*four + int(c-'0')
	}
	two := four / 100
	switch {
	case four/1000 == 4: // Visa
		return n == 13 || n == 16 || n == 19
	case two >= 51 && two <= 55, four >= 2221 && four <= 2720: // Mastercard
		return n == 16
	case two == 34, two == 37: // American Express
		return n == 15
	case two == 36, two == 38, two == 39, four >= 3000 && four <= 3059: // Diners Club
		return n >= 14
	case four >= 3528 && four <= 3589: // JCB
		return n >= 16
	case four == 6011, two == 65, four/10 >= 644 && four/10 <= 649, two == 62: // Discover, UnionPay
		return n >= 16
	case two == 50, two >= 56 && two <= 69: // Maestro
		return n >= minCard
	}
	return false
}

// luhn verifies the check digit: every second digit from the right is doubled, and the sum of all digits must be divisible by 10.
func luhn(digits string) bool {
	sum := 0
	for i := range len(digits) {
		d := int(digits[len(digits)-1-i] - '0')
		if i%2 == 1 {
			d *= 2
		}
		sum += d/10 + d%10
	}
	return sum%10 == 0
}

// The number of digits of a telephone number with its country code (E.164).
const (
	minPhone = 8
	maxPhone = 15
)

// findPhones finds telephone numbers that are recognizable as such: with + or 00 and the country code, or in North American format
// (212-555-0123, (212) 555-0123). Other national numbers look like any number and are left alone.
func findPhones(text string, yield func(int, int, string)) {
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c != '+' && c != '(' && !isDigit(c) || !startsNumber(text, i) || c != '+' && at(text, i-1) == '+' {
			continue
		}
		start := i
		digits, end := international(text, i)
		if digits == "" {
			digits, end = northAmerican(text, i)
		}
		if digits != "" && endsNumber(text, end) {
			yield(start, end, digits)
		}
		if end > i {
			i = end - 1
		}
	}
}

// international reads a number at i that starts with + or 00. If there is none, digits is empty, and end is after the digits there.
func international(text string, i int) (digits string, end int) {
	var from int
	switch {
	case text[i] == '+':
		from = i + 1
	case strings.HasPrefix(text[i:], "00"):
		from = i + 2
	default:
		return "", i
	}
	if from < len(text) && text[from] == ' ' && text[i] != '+' {
		from++
	}
	if c := at(text, from); c < '1' || c > '9' {
		return "", from
	}
	digits, end = phoneRun(text, from)
	if len(digits) < minPhone || len(digits) > maxPhone {
		return "", end
	}
	return digits, end
}

// phoneRun reads the digits of a number as people group them, with at most two other bytes in a row, such as ") ".
func phoneRun(text string, i int) (string, int) {
	var b []byte
	end, open := i, false
	for ; i < len(text) && len(b) <= maxPhone; i++ {
		switch c := text[i]; {
		case isDigit(c):
			b = append(b, c)
			end = i + 1
		case i-end >= 2, strings.IndexByte(" .-/()", c) < 0, c == '(' && open, c == ')' && !open:
			return string(b), end
		case c == '(', c == ')':
			open = c == '('
		}
	}
	return string(b), end
}

// northAmerican reads (212) 555-0123, 212-555-0123 or 1-212-555-0123 at i. Area code and exchange begin with 2 to 9. The result includes
// the country code.
func northAmerican(text string, i int) (digits string, end int) {
	at := i
	if strings.HasPrefix(text[at:], "1-") || strings.HasPrefix(text[at:], "1 ") || strings.HasPrefix(text[at:], "1.") {
		at += 2
	}
	open := strings.HasPrefix(text[at:], "(")
	if open {
		at++
	}
	area, ok := group(text, at, 3)
	if !ok || area[0] < '2' {
		return "", i
	}
	at += 3
	if open {
		rest, closed := strings.CutPrefix(text[at:], ")")
		if !closed {
			return "", i
		}
		at = len(text) - len(strings.TrimPrefix(rest, " "))
	} else if at >= len(text) || strings.IndexByte(" .-", text[at]) < 0 {
		return "", i
	} else {
		at++
	}
	exchange, ok := group(text, at, 3)
	if !ok || exchange[0] < '2' || at+3 >= len(text) || strings.IndexByte(" .-", text[at+3]) < 0 {
		return "", i
	}
	at += 4
	line, ok := group(text, at, 4)
	if !ok {
		return "", i
	}
	return "1" + area + exchange + line, at + 4
}

// group returns the n digits at i.
func group(text string, i, n int) (string, bool) {
	if i+n > len(text) {
		return "", false
	}
	for _, c := range []byte(text[i : i+n]) {
		if !isDigit(c) {
			return "", false
		}
	}
	return text[i : i+n], true
}
