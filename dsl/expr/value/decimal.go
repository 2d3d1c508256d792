package value

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/shopspring/decimal"
)

// MaxDigits bounds the digits of a decimal. Parquet and Avro have no limit; databases and Arrow support at most 76 or fewer.
const MaxDigits = 1000

// Decimal is an exact decimal number. Its scale, the number of digits after the point, is part of the value: 1.50 has the scale 2. Decimals are compared
// by Compare, not by ==.
type Decimal struct{ number decimal.Decimal }

// DecimalType is the type of decimals in CEL.
var DecimalType = types.NewOpaqueType("decimal")

// NewDecimal returns unscaled / 10^scale.
func NewDecimal(unscaled int64, scale int) Decimal {
	return Decimal{decimal.New(unscaled, -int32(scale))}
}

// BigDecimal is NewDecimal for any unscaled number.
func BigDecimal(unscaled *big.Int, scale int) Decimal {
	return Decimal{decimal.NewFromBigInt(unscaled, -int32(scale))}
}

// ParseDecimal parses digits with an optional sign, point and exponent: -12.50, 1e-3.
func ParseDecimal(text string) (Decimal, error) {
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		if n, err := strconv.Atoi(text[at+1:]); err != nil || n < -MaxDigits || n > MaxDigits {
			return Decimal{}, fmt.Errorf("%.40q is not a decimal of at most %d digits", text, MaxDigits)
		}
	}
	if strings.ContainsAny(text, "_") || len(text) > 2*MaxDigits {
		return Decimal{}, fmt.Errorf("%.40q is not a decimal of at most %d digits", text, MaxDigits)
	}
	n, err := decimal.NewFromString(text)
	if err != nil {
		return Decimal{}, fmt.Errorf("%.40q is not a decimal", text)
	}
	if n.Exponent() > 0 {
		n = decimal.NewFromBigInt(n.BigInt(), 0)
	}
	return Decimal{n}, nil
}

// Scale returns the number of digits after the point.
func (d Decimal) Scale() int { return -int(d.number.Exponent()) }

// Unscaled returns the number without its point.
func (d Decimal) Unscaled() *big.Int { return d.number.Coefficient() }

// Digits returns the number of digits of the unscaled number.
func (d Decimal) Digits() int { return d.number.NumDigits() }

// String returns all digits, also zeros at the end.
func (d Decimal) String() string { return d.number.StringFixed(int32(d.Scale())) }

// exactPowers are the powers of ten that a double represents exactly.
var exactPowers = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// Float returns the nearest double, which is infinite for a number beyond the range.
func (d Decimal) Float() float64 {
	if n := d.number.Coefficient(); n.IsInt64() && d.Scale() < len(exactPowers) {
		if small := n.Int64(); -1<<53 <= small && small <= 1<<53 {
			return float64(small) / exactPowers[d.Scale()] // both are exact, so the quotient is rounded once
		}
	}
	f, _ := strconv.ParseFloat(d.String(), 64) // an error leaves an infinity
	return f
}

// Rat returns the exact number.
func (d Decimal) Rat() *big.Rat { return d.number.Rat() }

// Rescale returns the same number with another scale. ok is false if it has more digits after the point than that.
func (d Decimal) Rescale(scale int) (_ Decimal, ok bool) {
	if d.Scale() == scale {
		return d, true
	}
	n := d.number.Truncate(int32(scale))
	if !n.Equal(d.number) {
		return d, false
	}
	if missing := scale - -int(n.Exponent()); missing > 0 {
		power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(missing)), nil)
		return BigDecimal(power.Mul(power, n.Coefficient()), scale), true
	}
	return Decimal{n}, true
}

// Compare compares two decimals by their numbers: 1.5 equals 1.50.
func (d Decimal) Compare(other Decimal) int { return d.number.Cmp(other.number) }

// ConvertToNative implements ref.Val.
func (d Decimal) ConvertToNative(to reflect.Type) (any, error) {
	if to == reflect.TypeFor[Decimal]() {
		return d, nil
	}
	return nil, fmt.Errorf("a decimal is not a %v", to)
}

// ConvertToType implements ref.Val.
func (d Decimal) ConvertToType(to ref.Type) ref.Val {
	switch to {
	case types.StringType:
		return types.String(d.String())
	case types.DoubleType:
		return types.Double(d.Float())
	case types.IntType:
		if n := d.number.Truncate(0).BigInt(); n.IsInt64() {
			return types.Int(n.Int64())
		}
		return types.NewErr("the decimal %s has more than 64 bits", d)
	case types.UintType:
		if n := d.number.Truncate(0).BigInt(); n.IsUint64() {
			return types.Uint(n.Uint64())
		}
		return types.NewErr("the decimal %s does not fit an unsigned integer of 64 bits", d)
	case types.TypeType:
		return DecimalType
	}
	return types.NewErr("a decimal cannot be converted to %s", to.TypeName())
}

// Equal implements ref.Val.
func (d Decimal) Equal(other ref.Val) ref.Val {
	c, ok := compareNumbers(d, other)
	return types.Bool(ok && c == 0)
}

// Type implements ref.Val.
func (Decimal) Type() ref.Type { return DecimalType }

// Value implements ref.Val.
func (d Decimal) Value() any { return d }

// Exact returns a number that is not a double as a decimal.
func Exact(v any) (_ Decimal, ok bool) {
	switch v := v.(type) {
	case Decimal:
		return v, true
	case int64:
		return NewDecimal(v, 0), true
	case uint64:
		return BigDecimal(new(big.Int).SetUint64(v), 0), true
	}
	return Decimal{}, false
}

// asFloat returns the nearest double of a number.
func asFloat(v ref.Val) (float64, bool) {
	switch v := v.(type) {
	case Decimal:
		return v.Float(), true
	case types.Int:
		return float64(v), true
	case types.Uint:
		return float64(v), true
	case types.Double:
		return float64(v), true
	}
	return math.NaN(), false
}

// compareNumbers compares a decimal with another number: exactly, or with a double as doubles, so that the decimal 9.99 equals the literal.
func compareNumbers(a, b ref.Val) (c int, ok bool) {
	x, xok := Exact(a.Value())
	y, yok := Exact(b.Value())
	if xok && yok {
		return x.Compare(y), true
	}
	f, fok := asFloat(a)
	g, gok := asFloat(b)
	return cmp.Compare(f, g), fok && gok && f == f && g == g
}

// Plus returns the sum of two decimals.
func (d Decimal) Plus(other Decimal) Decimal { return Decimal{d.number.Add(other.number)} }

// Split returns the largest integer that is not above the number, and the digits of the rest after the point, without zeros at the end.
func (d Decimal) Split() (whole *big.Int, fraction string) {
	below := d.number.Floor()
	rest := d.number.Sub(below).StringFixed(int32(d.Scale()))
	_, fraction, _ = strings.Cut(rest, ".")
	return below.BigInt(), strings.TrimRight(fraction, "0")
}

// Plain returns the integer or the double that equals the number. ok is false if there is none.
func (d Decimal) Plain() (_ any, ok bool) {
	if whole, ok := d.Rescale(0); ok {
		if n := whole.Unscaled(); n.IsInt64() {
			return n.Int64(), true
		} else if n.IsUint64() {
			return n.Uint64(), true
		}
	}
	f := d.Float()
	if !Finite(f) {
		return nil, false
	}
	same, err := ParseDecimal(strconv.FormatFloat(f, 'f', -1, 64))
	return f, err == nil && same.Compare(d) == 0
}

// Reduced returns the digits without zeros at the end after the point, so that equal decimals have equal texts.
func (d Decimal) Reduced() string {
	text := d.String()
	if d.Scale() <= 0 {
		return text
	}
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}
