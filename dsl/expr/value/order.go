package value

import (
	"bytes"
	"cmp"
	"math/big"
	"strings"
	"time"
)

// order returns the place of a value's type in the order of values; -1 if it has none.
func order(v any) int {
	switch v.(type) {
	case nil:
		return 0
	case bool:
		return 1
	case int64, uint64, float64, Decimal:
		return 2
	case time.Time:
		return 3
	case time.Duration:
		return 4
	case string:
		return 5
	case []byte:
		return 6
	}
	return -1
}

// Ordered reports whether Compare takes a value.
func Ordered(v any) bool { return order(v) >= 0 }

// Compare orders values: null, bools, numbers, times, durations, strings, bytes. Numbers are compared exactly, and NaN comes after all others.
func Compare(a, b any) int {
	if c := cmp.Compare(order(a), order(b)); c != 0 {
		return c
	}
	switch a := a.(type) {
	case nil:
		return 0
	case bool:
		switch {
		case a == b:
			return 0
		case a:
			return 1
		}
		return -1
	case time.Time:
		return a.Compare(b.(time.Time))
	case time.Duration:
		return cmp.Compare(a, b.(time.Duration))
	case string:
		return strings.Compare(a, b.(string))
	case []byte:
		return bytes.Compare(a, b.([]byte))
	}
	return compareExactly(a, b)
}

// compareExactly compares numbers: not every 64-bit integer is a double, and few decimals are.
func compareExactly(a, b any) int {
	switch x := a.(type) {
	case int64:
		if y, ok := b.(int64); ok {
			return cmp.Compare(x, y)
		}
	case Decimal:
		if y, ok := b.(Decimal); ok {
			return x.Compare(y)
		}
	}
	f, isF := a.(float64)
	g, isG := b.(float64)
	if isF && isG || !Finite(f) || !Finite(g) { // f and g of other types are 0, which compares with infinities and NaN as they do
		return -cmp.Compare(-f, -g) // the negation puts NaN last
	}
	return exactly(a).Cmp(exactly(b))
}

func exactly(v any) *big.Rat {
	if f, ok := v.(float64); ok {
		return new(big.Rat).SetFloat64(f)
	}
	d, _ := Exact(v)
	return d.Rat()
}
