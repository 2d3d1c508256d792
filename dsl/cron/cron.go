package cron

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluiceml/sluice/internal/suggest"
)

// field is one field of a cron expression, with the rules of Temporal's schedules.
type field struct {
	name     string
	min, max int
	// words may be written for numbers, by at least their first `prefix` letters; the first stands for `first`.
	words  []string
	prefix int
	first  int
}

// fields are in the order they are written in.
var fields = []field{
	{name: "second", max: 59},
	{name: "minute", max: 59},
	{name: "hour", max: 23},
	{name: "day of month", min: 1, max: 31},
	{name: "month", min: 1, max: 12, prefix: 3, first: 1, words: []string{
		"january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december",
	}},
	{name: "day of week", max: 7, prefix: 2, words: []string{"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"}},
}

const (
	minuteField, hourField, dayField, monthField, weekdayField = 1, 2, 3, 4, 5 // of cronFields
)

var names = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0", "@daily": "0 0 * * *",
	"@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// Error says what is wrong at a character of a cron expression.
type Error struct {
	Offset        int
	Message, Hint string
}

// Expression is a cron expression that was read: its six fields as written, and the values each allows as bits.
type Expression struct {
	Fields [6]string
	values [6]uint64
}

// Parse reads a cron expression of five fields, of six with seconds first, or one of the names such as @daily.
func Parse(text string) (c Expression, err *Error) {
	words, offsets := splitWords(text)
	switch {
	case len(words) == 0:
		return c, &Error{0, "it is empty", "write five fields, such as 0 3 * * *"}
	case words[0] == "@every":
		return c, &Error{offsets[0], "`@every` is not supported in `cron`", "write `every: " + strings.Join(words[1:], "") + "` instead of `cron`"}
	case strings.HasPrefix(words[0], "TZ=") || strings.HasPrefix(words[0], "CRON_TZ="):
		return c, &Error{offsets[0], "a cron expression cannot set the time zone", "write `timezone: " + words[0][strings.Index(words[0], "=")+1:] + "`"}
	case strings.ContainsRune(words[0], '('):
		return c, &Error{offsets[0], "it is written as for AWS", "write five fields, such as 0 3 * * *; or `every: 5m` instead of `cron`"}
	case strings.HasPrefix(words[0], "@"):
		fields, ok := names[strings.ToLower(words[0])]
		if !ok || len(words) > 1 {
			return c, &Error{offsets[0], fmt.Sprintf("%q is not a time", text), suggest.Hint(words[0], []string{"@hourly", "@daily", "@weekly", "@monthly", "@yearly"})}
		}
		words, offsets = strings.Fields(fields), make([]int, 5)
	}
	switch len(words) {
	case 5:
		words, offsets = append([]string{"0"}, words...), append([]int{0}, offsets...)
	case 6:
	default:
		if names["@"+strings.ToLower(text)] != "" {
			return c, &Error{0, "names such as daily begin with `@`", "write `\"@" + strings.ToLower(text) + "\"`"}
		}
		if at, err := time.Parse("15:04", text); err == nil {
			return c, &Error{0, "this is a time of day", fmt.Sprintf("write \"%d %d * * *\" for each day at that time", at.Minute(), at.Hour())}
		}
		has := fmt.Sprintf("it has %d fields", len(words))
		if len(words) == 1 {
			has = "it has 1 field"
		}
		return c, &Error{
			0, has,
			"five fields are minute, hour, day of month, month, day of week; with six, seconds come first",
		}
	}
	for i, f := range fields {
		if c.values[i], err = f.parse(words[i]); err != nil {
			err.Offset += offsets[i]
			return c, err
		}
		c.Fields[i] = words[i]
	}
	c.values[weekdayField] |= c.values[weekdayField] >> 7 // Sunday is 0 and 7
	if !c.comes() {
		return c, &Error{offsets[dayField], "none of its months has such a day", ""}
	}
	return c, nil
}

// splitWords splits at white space and says where each word begins, in characters.
func splitWords(text string) (words []string, offsets []int) {
	at := 0
	for _, w := range strings.Fields(text) {
		i := at + strings.Index(text[at:], w)
		words, offsets = append(words, w), append(offsets, utf8.RuneCountInString(text[:i]))
		at = i + len(w)
	}
	return words, offsets
}

// comes reports whether any year has a day the expression names.
func (c Expression) comes() bool {
	day := bits.TrailingZeros64(c.values[dayField])
	for month := 1; month <= 12; month++ {
		longest := []int{31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}[month-1]
		if c.values[monthField]&(1<<month) != 0 && day <= longest {
			return true
		}
	}
	return false
}

// RestrictsBothDays reports whether days of the month and of the week are both restricted: a day must then be both.
func (c Expression) RestrictsBothDays() bool {
	return !strings.HasPrefix(c.Fields[dayField], "*") && !strings.HasPrefix(c.Fields[weekdayField], "*")
}

// TooOften names the unit of time of which every one starts something although only some of the next larger are named, which is seldom
// meant, and an expression that starts it once in each of those. It is empty for any other.
func (c Expression) TooOften() (unit, once string) {
	isExact := func(field int) bool { return !strings.ContainsAny(c.Fields[field], "*-/") }
	fields := c.Fields
	switch {
	case fields[0] == "*" && (fields[minuteField] != "*" || isExact(hourField)):
		unit, fields[0] = "second", "0"
		if fields[minuteField] == "*" {
			fields[minuteField] = "0"
		}
	case isExact(0) && fields[minuteField] == "*" && isExact(hourField):
		unit, fields[minuteField] = "minute", "0"
	default:
		return "", ""
	}
	return unit, strings.TrimPrefix(strings.Join(fields[:], " "), "0 ")
}

// parse reads a field: values, a-b ranges and /n steps, separated by commas.
func (f field) parse(text string) (values uint64, err *Error) {
	offset := 0
	for part := range strings.SplitSeq(text, ",") {
		low, high, step, err := f.parsePart(part)
		if err != nil {
			err.Offset += offset
			return 0, err
		}
		for v := low; v <= high; v += step {
			values |= 1 << v
		}
		offset += utf8.RuneCountInString(part) + 1
	}
	return values, nil
}

func (f field) parsePart(part string) (low, high, step int, err *Error) {
	bad := func(offset int, format string, args ...any) (int, int, int, *Error) {
		return 0, 0, 0, &Error{offset, fmt.Sprintf(format, args...), f.help()}
	}
	span, steps, hasStep := strings.Cut(part, "/")
	low, high, step = f.min, f.max, 1
	if hasStep {
		n, failed := strconv.Atoi(steps)
		if failed != nil || n < 1 || n > f.max {
			return 0, 0, 0, &Error{
				utf8.RuneCountInString(span) + 1, fmt.Sprintf("%q is not a step of the %s", steps, f.name), fmt.Sprintf("a step is 1 to %d", f.max),
			}
		}
		step = n
	}
	if span == "*" {
		return low, high, step, nil
	}
	from, to, isRange := strings.Cut(span, "-")
	var ok bool
	if from == "?" {
		return 0, 0, 0, &Error{0, "a field cannot be `?`", "write `*`"}
	}
	if low, ok = f.value(from); !ok {
		return bad(0, "%q is not a valid %s", from, f.name)
	}
	switch {
	case isRange:
		if high, ok = f.value(to); !ok {
			return bad(utf8.RuneCountInString(from)+1, "%q is not a valid %s", to, f.name)
		}
		if high < low {
			return 0, 0, 0, &Error{0, fmt.Sprintf("the range %s ends before it begins", span), fmt.Sprintf("write %s-%d,%d-%s", from, f.max, f.min, to)}
		}
	case !hasStep:
		high = low
	}
	return low, high, step, nil
}

// value reads a number or a word.
func (f field) value(s string) (int, bool) {
	if len(s) >= f.prefix && f.prefix > 0 {
		if i := slices.IndexFunc(f.words, func(w string) bool { return strings.HasPrefix(w, strings.ToLower(s)) }); i >= 0 {
			return i + f.first, true
		}
	}
	n, err := strconv.Atoi(s)
	return n, err == nil && n >= f.min && n <= f.max
}

func (f field) help() string {
	hint := fmt.Sprintf("write %d to %d", f.min, f.max)
	if len(f.words) > 0 {
		hint += ", or a name such as " + f.words[1][:3]
	}
	return hint + "; a list a,b, a range a-b, a step */n"
}
