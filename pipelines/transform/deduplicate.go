package transform

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"time"

	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/expr/value"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/pipelines/rows"
	"github.com/sluiceml/sluice/pipelines/spill"
)

// ranking is what the methods of a compiled Deduplicate have in common: the fields, and the order that decides which of several rows comes
// first.
type ranking struct {
	Name   string
	fields []string
	order  *expr.RowProgram // nil: by content only
}

// Deduplicate is a compiled Deduplicate with the method exact.
type Deduplicate struct{ ranking }

func compileDedup(t spec.Transform, params map[string]any) (End, error) {
	c, err := rows.DecodeConfig[transform.Deduplicate](t)
	if err != nil {
		return nil, err
	}
	method, err := rows.OneOf("method", c.Method, "exact", "minhash")
	if err != nil {
		return nil, err
	}
	r := ranking{Name: t.Name, fields: slices.Sorted(slices.Values(c.Fields))}
	if c.OrderBy != "" {
		if r.order, err = expr.CompileRow(c.OrderBy, params); err != nil {
			return nil, fmt.Errorf("order_by: %w", err)
		}
	}
	if method == "minhash" {
		return compileNearDedup(c, r)
	}
	return &Deduplicate{r}, nil
}

// rank returns the text of a row, and a mark with its sort key.
func (d *ranking) rank(to []byte, r rows.Row) (text []byte, m spill.Mark, err error) {
	if text, err = rows.Pack(to, r); err != nil {
		return nil, m, err
	}
	m.Tie = rows.DigestOf(text)
	if d.order == nil {
		return text, m, nil
	}
	v, err := d.order.Eval(r)
	if err != nil {
		return nil, m, rows.RejectEval("order_by", err)
	}
	m.Order, err = orderBytes(v)
	return text, m, err
}

// Take implements End. Rows that must be equal are in the same group.
func (d *Deduplicate) Take(to []byte, r rows.Row) (text []byte, group string, m spill.Mark, err error) {
	if text, m, err = d.rank(to, r); err != nil {
		return nil, "", m, err
	}
	m.Key, err = d.key(r, text, m.Tie)
	return text, strconv.Itoa(m.Key.Bucket(CutGroups)), m, err
}

// key returns the digest of the fields that must be equal. whole is the digest of text, and the capacity behind text is used as a buffer.
func (d *Deduplicate) key(r rows.Row, text []byte, whole rows.Digest) (rows.Digest, error) {
	switch {
	case len(d.fields) == 0 && (bytes.Contains(text, wholeFraction) || rows.Typed(r)):
		return rows.KeyOf(map[string]any(r))
	case len(d.fields) == 0:
		return whole, nil
	}
	key := text[len(text):]
	for _, name := range d.fields {
		v, ok := r[name]
		if !ok {
			return whole, rows.Reject("missing_field", "the row has no field %s", name)
		}
		var err error
		if key, err = rows.AppendComparable(append(key, ','), v); err != nil {
			return whole, fmt.Errorf("encode a row: %w", err)
		}
	}
	return rows.DigestOf(key), nil
}

// wholeFraction occurs in the text of every row with a number such as 1.0.
var wholeFraction = []byte(".0")

// maxOrder is how many bytes of a string are used to order it.
const maxOrder = 256

// orderBytes returns bytes that sort like value.Compare, but null comes last.
func orderBytes(v any) ([]byte, error) {
	switch v := v.(type) {
	case bool:
		if v {
			return []byte{1, 1}, nil
		}
		return []byte{1, 0}, nil
	case int64:
		return orderNumber(float64(v), v), nil
	case uint64:
		d, _ := value.Exact(v)
		return orderDecimal(d), nil
	case float64:
		text := orderNumber(v, nearestInt(v))
		if v >= 1<<63 { // above the largest int64, which has the same double
			text = append(text, '1')
		}
		return text, nil
	case value.Decimal:
		return orderDecimal(v), nil
	case time.Time:
		return binary.BigEndian.AppendUint32(orderInt(3, v.Unix()), uint32(v.Nanosecond())), nil
	case time.Duration:
		return orderInt(4, int64(v)), nil
	case string:
		return append([]byte{5}, v[:min(len(v), maxOrder)]...), nil
	case []byte:
		return append([]byte{6}, v[:min(len(v), maxOrder)]...), nil
	case nil:
		return []byte{7}, nil
	}
	return nil, rows.Reject("expression", "order_by: a value of type %s cannot be ordered; use a number, a time, a duration, a string, bytes or a bool", value.TypeName(v))
}

func orderInt(kind byte, n int64) []byte {
	return binary.BigEndian.AppendUint64([]byte{kind}, uint64(n)^1<<63)
}

// orderNumber returns bytes that sort like the number: the nearest double, and then the integer, since neighboring integers beyond 2^53
// have the same double.
func orderNumber(f float64, i int64) []byte {
	bits := math.Float64bits(f + 0) // + 0 turns -0 into 0
	switch {
	case f != f: // NaN is the largest
		bits = math.MaxUint64
	case bits>>63 == 1: // bits sort like the numbers if all bits of negative ones, and the sign bit of others, are flipped
		bits = ^bits
	default:
		bits |= 1 << 63
	}
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64([]byte{2}, bits), uint64(i)^1<<63)
}

// orderDecimal is orderNumber for a decimal: after the integer below it come the digits of the rest, or, beyond 64 bits, all digits.
func orderDecimal(d value.Decimal) []byte {
	whole, fraction := d.Split()
	if whole.IsInt64() {
		return append(orderNumber(d.Float(), whole.Int64()), fraction...)
	}
	// The number plus 10^MaxDigits is positive, and has the same number of digits for all.
	shifted := new(big.Int).Exp(big.NewInt(10), big.NewInt(value.MaxDigits), nil)
	f := d.Float()
	return fmt.Appendf(orderNumber(f, nearestInt(f)), "%0*s%s", value.MaxDigits+1, shifted.Add(shifted, whole), fraction)
}

// nearestInt returns the integer that a double is equal to. For other doubles the result does not matter: no integer has the same nearest
// double.
func nearestInt(f float64) int64 {
	switch {
	case f >= 1<<63:
		return math.MaxInt64
	case f < -1<<63:
		return math.MinInt64
	}
	return int64(f)
}
