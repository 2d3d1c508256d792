package spec

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/sluiceml/sluice/dsl/advice"
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
		return 0, fmt.Errorf("%q is not a duration: write %s", s, advice.Duration(s))
	}
	if d < 0 {
		return 0, fmt.Errorf("%q is negative", s)
	}
	return Duration(d), nil
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
