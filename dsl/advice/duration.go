package advice

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// otherUnits are units of time as people write them, each with how many of ours it is.
var otherUnits = map[string]struct {
	count int64
	unit  string
}{
	"": {1, "s"}, "sec": {1, "s"}, "second": {1, "s"}, "min": {1, "m"}, "minute": {1, "m"}, "hr": {1, "h"}, "hour": {1, "h"},
	"d": {24, "h"}, "day": {24, "h"}, "w": {168, "h"}, "week": {168, "h"}, "month": {720, "h"},
}

var (
	otherDuration = regexp.MustCompile(`^([0-9]{1,6})\s*([a-z]*?)s?$`)
	durationParts = regexp.MustCompile(`^([0-9]{1,6}(?:\.[0-9]{1,3})?)\s*([a-z]*?)s?(?:[\s,]+|$|([0-9].*)$)`)
	clockDuration = regexp.MustCompile(`^([0-9]{1,3}):([0-9]{2}):([0-9]{2})$`)
)

// Duration is how a duration is written that was written in another way, or examples where it is not known what was meant.
func Duration(s string) string {
	if m := otherDuration.FindStringSubmatch(strings.ToLower(strings.TrimSpace(s))); m != nil {
		if other, ok := otherUnits[m[2]]; ok {
			n, _ := strconv.ParseInt(m[1], 10, 64)
			return strconv.FormatInt(n*other.count, 10) + other.unit
		}
	}
	if m := clockDuration.FindStringSubmatch(s); m != nil {
		s = m[1] + "h" + m[2] + "m" + m[3] + "s"
	}
	var total time.Duration
	unit, smaller := "", map[string]string{"": "s", "h": "m", "m": "s"}
	for rest := strings.TrimPrefix(strings.ToLower(strings.TrimSpace(s)), "pt"); rest != ""; {
		m := durationParts.FindStringSubmatch(rest)
		if m == nil {
			return "90s, 5m or 1h30m"
		}
		if m[2] == "" && !strings.Contains(m[0], "s") {
			m[2] = smaller[unit] // 1h30
		}
		other, ok := otherUnits[m[2]]
		one, err := time.ParseDuration("1" + cmp.Or(other.unit, m[2]))
		if err != nil {
			return "90s, 5m or 1h30m"
		}
		if !ok {
			other.count = 1
		}
		count, _ := strconv.ParseFloat(m[1], 64)
		total += time.Duration(count * float64(other.count) * float64(one))
		unit, rest = m[2], rest[len(m[0])-len(m[3]):]
	}
	return strings.NewReplacer("h0m0s", "h", "m0s", "m").Replace(total.String())
}
