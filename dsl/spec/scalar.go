package spec

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Expr is a CEL expression that is evaluated where its key's documentation says, never by interpolation.
type Expr string

// Duration is a span of time, written "90s", "1h30m".
type Duration time.Duration

// Share is a part of a whole between 0 and 1, written with a percent sign or as a number below 1: "10%" or "0.1".
type Share float64

// Size is a number of bytes, written "16GiB", "500MB" or as a plain number.
type Size int64

// ParseDuration reads the written form of a Duration. Negative ones are refused.
func ParseDuration(s string) (Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration: write %s", s, LikelyDuration(s))
	}
	if d < 0 {
		return 0, fmt.Errorf("%q is negative", s)
	}
	return Duration(d), nil
}

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

// LikelyDuration is how a duration is written that was written in another way, or examples where it is not known what was meant.
func LikelyDuration(s string) string {
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
	return Duration(total).String()
}

// String is the written form.
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalJSON writes the written form.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON reads the written form.
func (d *Duration) UnmarshalJSON(data []byte) error {
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("a duration is a string: %w", err)
	}
	v, err := ParseDuration(s)
	*d = v
	return err
}

// ParseShare reads the written form of a Share. A number without a percent sign is a part of 1. A bare 1 could be meant in percent too, and is
// refused.
func ParseShare(s string) (Share, error) {
	digits, percent := strings.CutSuffix(strings.TrimSpace(s), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	switch {
	case err != nil || math.IsNaN(v):
		return 0, fmt.Errorf("%q is not a share: write a percentage, such as 10%%, or a number below 1, such as 0.1", s)
	case v < 0 || percent && v > 100:
		return 0, fmt.Errorf("%q is not between 0%% and 100%%", s)
	case percent:
		return Share(v / 100), nil
	case v == 1 && !strings.Contains(s, "."):
		return 0, fmt.Errorf("%q may mean 1%% or 100%%: write it with the percent sign", s)
	case v > 1:
		return 0, fmt.Errorf("%q is not a share: if it is a percentage, write %s%%", s, s)
	}
	return Share(v), nil
}

// String is the written form.
func (s Share) String() string {
	return strconv.FormatFloat(math.Round(float64(s)*1e10)/1e8, 'f', -1, 64) + "%"
}

var (
	// SizeForm is how a Size is written.
	SizeForm  = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)$`)
	sizeUnits = map[string]float64{
		"": 1, "B": 1, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
		"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
	}
)

// ParseSize reads the written form of a Size.
func ParseSize(s string) (Size, error) {
	m := SizeForm.FindStringSubmatch(strings.TrimSpace(s))
	if m == nil {
		return 0, fmt.Errorf("%q is not a size: write 16GiB, 500MB or a number of bytes", s)
	}
	unit, ok := sizeUnits[m[2]]
	if !ok {
		return 0, fmt.Errorf("%q has no unit of size: write kB, MB, GB, TB, KiB, MiB, GiB or TiB", s)
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil || v*unit >= math.MaxInt64 {
		return 0, fmt.Errorf("%q is too large", s)
	}
	return Size(v * unit), nil
}

// String is the written form, rounded to a tenth of its unit.
func (s Size) String() string {
	for _, unit := range []string{"TiB", "GiB", "MiB", "KiB"} {
		if v := float64(s) / sizeUnits[unit]; v >= 1 {
			return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0") + unit
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// parseTimestamp reads a moment with its offset from UTC.
func parseTimestamp(s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return t, fmt.Errorf("%q is not a time: write 2026-05-01T08:00:00Z, or with an offset such as +02:00", s)
	}
	return t, nil
}
