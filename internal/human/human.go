// Package human writes quantities the way people read them, alike in the terminal and in reports.
package human

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/dustin/go-humanize"
	"golang.org/x/text/width"
)

// Duration writes a span with two units at most: "0.4 s", "12.3 s", "1m 02s", "2h 05m", "3d 04h".
func Duration(d time.Duration) string {
	switch {
	case d < 0:
		return "0.0 s"
	case d < time.Minute-50*time.Millisecond:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	case d < time.Hour-500*time.Millisecond:
		s := int64(d.Round(time.Second) / time.Second)
		return fmt.Sprintf("%dm %02ds", s/60, s%60)
	case d < 24*time.Hour-30*time.Second:
		m := int64(d.Round(time.Minute) / time.Minute)
		return fmt.Sprintf("%dh %02dm", m/60, m%60)
	default:
		h := int64(d.Round(time.Hour) / time.Hour)
		return fmt.Sprintf("%dd %02dh", h/24, h%24)
	}
}

// Seconds is Duration of a number of seconds.
func Seconds(s float64) string { return Duration(time.Duration(s * float64(time.Second))) }

// Memory writes how much memory, which is made in powers of two: "4.8 GiB", "40 GiB".
func Memory(n int64) string {
	v := float64(n) / (1 << 30)
	if v < 9.95 {
		return strconv.FormatFloat(v, 'f', 1, 64) + " GiB"
	}
	return strconv.FormatFloat(v, 'f', 0, 64) + " GiB"
}

// Bytes writes a size in decimal units: "0 B", "812 B", "4.1 kB", "41 MB".
func Bytes(n int64) string {
	if n < 1000 {
		return strconv.FormatInt(n, 10) + " B"
	}
	v, unit := float64(n)/1000, 0
	for v >= 999.5 && unit < 4 {
		v, unit = v/1000, unit+1
	}
	digits := 0
	if v < 9.95 {
		digits = 1
	}
	return strconv.FormatFloat(v, 'f', digits, 64) + " " + []string{"kB", "MB", "GB", "TB", "PB"}[unit]
}

// Count writes a whole number with its thousands apart: "6,046".
func Count(n int64) string { return humanize.Comma(n) }

// Number writes a measured number with four significant digits; whole numbers are written whole, and what is not whole gets as many
// digits more as it takes not to look so: a gate that wants 1 and saw 0.99999 must not seem to have seen 1.
func Number(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return strings.ToLower(strconv.FormatFloat(v, 'g', -1, 64))
	case v == math.Trunc(v) && math.Abs(v) < 1e15:
		return Count(int64(v))
	case math.Abs(v) >= 1e6 || math.Abs(v) < 1e-4:
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	digits := max(0, 3-int(math.Floor(math.Log10(math.Abs(v)))))
	s := strconv.FormatFloat(v, 'f', digits, 64)
	for rounded, _ := strconv.ParseFloat(s, 64); rounded == math.Trunc(rounded) && digits < 9; rounded, _ = strconv.ParseFloat(s, 64) {
		digits++
		s = strconv.FormatFloat(v, 'f', digits, 64)
	}
	whole, fraction, _ := strings.Cut(s, ".")
	if n, err := strconv.ParseInt(whole, 10, 64); err == nil && n != 0 { // not -0
		whole = Count(n)
	}
	return strings.TrimSuffix(whole+"."+strings.TrimRight(fraction, "0"), ".")
}

// Percent writes a share: "97.5%".
func Percent(share float64) string { return Number(math.Round(share*1e4)/100) + "%" }

// Value writes a value out of JSON on one line, cut short when it is long. Text is written as it is, without quotes.
func Value(v any) string {
	const most = 60
	var s string
	switch v := v.(type) {
	case float64:
		s = Number(v)
	case int64:
		s = Count(v)
	case int:
		s = Count(int64(v))
	case nil:
		s = "nothing"
	case string:
		s = text(v)
	default:
		if all, _ := v.([]any); len(all) > 0 {
			if _, isObject := all[0].(map[string]any); isObject { // such as the instances of a step
				return "a list of " + Count(int64(len(all)))
			}
		}
		raw, err := json.Marshal(v)
		if err != nil {
			return fmt.Sprint(v)
		}
		s = string(raw)
	}
	return Cut(s, most)
}

// Precise is Value with six digits of a number that is not whole, for what a condition saw: what was just missed must not look as if it
// was reached.
func Precise(v any) string {
	if f, ok := v.(float64); ok && f != math.Trunc(f) && math.Abs(f) < 1e5 {
		return fmt.Sprintf("%.6g", f)
	}
	return Value(v)
}

// Cut shortens s to so many cells of a terminal, with dots for what is left out.
func Cut(s string, most int) string {
	switch {
	case Width(s) <= most:
		return s
	case most < 1:
		return ""
	}
	room := most - 1
	for i, r := range s {
		if room -= cells(r); room < 0 {
			return s[:i] + "…"
		}
	}
	return s
}

// Width is how many cells of a terminal s takes, or more: what is drawn as one sign, such as a family of emoji, counts by its parts, so that a
// line that fits by this measure is never too long.
func Width(s string) int {
	n := 0
	for _, r := range s {
		n += cells(r)
	}
	return n
}

// cells are those of one character: an emoji or an East Asian one takes two, and what is drawn over the one before it none. A sign that is only
// an emoji with U+FE0F after it is as wide as one.
func cells(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case r == '\uFE0F':
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	}
	if k := width.LookupRune(r).Kind(); k == width.EastAsianWide || k == width.EastAsianFullwidth {
		return 2
	}
	return 1
}

// text is the first line of s, marked when there are more; what would not be seen is quoted.
func text(s string) string {
	line, whole := Line(s), strings.TrimSpace(s)
	switch {
	case line == "":
		return strconv.Quote(s)
	case line != Printable(whole):
		return line + " …"
	}
	return line
}

// Plural writes a count with its noun: "1 node", "2 nodes".
func Plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Count(n) + " " + noun + "s"
}

// Line is the first line of s that has any text, without control characters: safe to print on a terminal. A tab, whose width depends on
// where it stands, is a space.
func Line(s string) string {
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(strings.ReplaceAll(Printable(line), "\t", " ")); line != "" {
			return line
		}
	}
	return ""
}

// Printable replaces control characters, but for line ends and tabs, so that text from elsewhere cannot drive a terminal.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r < ' ' || r >= 0x7f && r < 0xa0:
			return '\uFFFD'
		}
		return r
	}, s)
}
