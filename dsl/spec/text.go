package spec

import "strconv"

// FormatDouble writes a number: a whole one without a point or an exponent, where it is not too large for that.
func FormatDouble(f float64) string {
	if f == float64(int64(f)) && f < 1e15 && f > -1e15 {
		return strconv.FormatInt(int64(f), 10)
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// Article puts "a" or "an" in front of a noun.
func Article(noun string) string {
	if noun == "anything" {
		return "of any type"
	}
	switch noun[0] {
	case 'a', 'e', 'i', 'o', 'u':
		return "an " + noun
	}
	return "a " + noun
}
