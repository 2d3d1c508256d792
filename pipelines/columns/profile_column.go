package columns

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"

	"github.com/sluiceml/sluice/dsl/expr/value"
	"github.com/sluiceml/sluice/dsl/spec"
)

// Column describes the values of a field or a computed column. The measure of a value is a number itself, the seconds since 1970 of a
// time, the seconds of a duration, the length of a string in characters and of bytes in bytes, 1 or 0 for a bool, or the number of items of a list
// or an object. NaN and infinities are counted and have no measure.
type Column struct {
	// Types counts values by the names of value.TypeName.
	Types map[string]int64
	// Computed columns are in the profile but not in the rows.
	Computed bool

	measures Histogram
	min, max float64
	sum      ExactSum
	values   values
}

// number returns the number of values, with or without nulls.
func (c *Column) number(nulls bool) (n int64) {
	for typ, count := range c.Types {
		if typ != typeNull || nulls {
			n += count
		}
	}
	return n
}

const typeNull = "null"

func (c *Column) add(v any) error {
	if c.Types == nil {
		c.Types = map[string]int64{}
	}
	c.Types[value.TypeName(v)]++
	switch v := v.(type) {
	case nil:
	case bool:
		n := int64(0)
		if v {
			n = 1
		}
		c.measureInt(n)
		c.values.add(hashNumber('b', uint64(n)), 1, func() string { return strconv.FormatBool(v) })
	case int64:
		c.measureInt(v)
		c.values.add(hashNumber('i', uint64(v)), 1, func() string { return strconv.FormatInt(v, 10) })
	case float64:
		v += 0 // -0 becomes 0
		c.measureFloat(v)
		if n, whole := asInt(v); whole { // 1.0 and 1 are the same value
			c.values.add(hashNumber('i', uint64(n)), 1, func() string { return strconv.FormatInt(n, 10) })
		} else {
			c.values.add(hashNumber('n', math.Float64bits(v)), 1, func() string { return strconv.FormatFloat(v, 'g', -1, 64) })
		}
	case uint64:
		c.measure(float64(v))
		c.sum.AddUint(v)
		c.values.add(hashNumber('i', v), 1, func() string { return strconv.FormatUint(v, 10) })
	case value.Decimal:
		c.measureFloat(v.Float())
		c.addTyped(v)
	case time.Time:
		c.measureFloat(float64(v.Unix()) + float64(v.Nanosecond())/1e9)
		c.addTyped(v)
	case time.Duration:
		c.measureFloat(v.Seconds())
		c.addTyped(v)
	case []byte:
		c.measureInt(int64(len(v)))
		c.addTyped(v)
	case string:
		c.measureInt(int64(utf8.RuneCountInString(v)))
		c.values.add(xxhash.Sum64String(v), 1, func() string { return v })
	case []any:
		return c.addNested(len(v), v)
	case map[string]any:
		return c.addNested(len(v), v)
	default:
		return fmt.Errorf("a profile has no place for a %T", v)
	}
	return nil
}

func (c *Column) addNested(size int, v any) error {
	text, err := json.Marshal(value.JSON(v))
	if err != nil {
		return err
	}
	c.measureInt(int64(size))
	c.values.add(xxhash.Sum64(append(text, value.TypeName(v)[0])), 1, func() string { return string(text) })
	return nil
}

// addTyped counts a value that JSON has no form for.
func (c *Column) addTyped(v any) {
	text, _ := value.Text(v)
	if d, ok := v.(value.Decimal); ok {
		text = d.Reduced()
	}
	c.values.add(xxhash.Sum64String(value.TypeName(v)+" "+text), 1, func() string { return text })
}

func (c *Column) measureFloat(f float64) {
	if value.Finite(f) {
		c.measure(f)
		c.sum.AddFloat(f)
	}
}

func (c *Column) measureInt(n int64) {
	c.measure(float64(n))
	c.sum.AddInt(n)
}

func (c *Column) measure(x float64) {
	if len(c.measures.buckets) == 0 {
		c.min, c.max = x, x
	}
	c.min, c.max = min(c.min, x), max(c.max, x)
	c.measures.Add(x, 1)
}

func hashNumber(kind byte, bits uint64) uint64 {
	return xxhash.Sum64(binary.BigEndian.AppendUint64([]byte{kind, 0}, bits))
}

// asInt returns a number as an integer, if it is one that a float64 represents exactly.
func asInt(f float64) (n int64, whole bool) {
	n = int64(f)
	return n, float64(n) == f && math.Abs(f) < 1<<53
}

func (c *Column) merge(o *Column) {
	if c.Types == nil {
		c.Types = map[string]int64{}
	}
	for typ, n := range o.Types {
		c.Types[typ] += n
	}
	c.Computed = c.Computed || o.Computed
	if len(o.measures.buckets) > 0 {
		if len(c.measures.buckets) == 0 {
			c.min, c.max = o.min, o.max
		}
		c.min, c.max = min(c.min, o.min), max(c.max, o.max)
	}
	c.measures.Merge(&o.measures)
	c.sum.merge(&o.sum)
	c.values.merge(&o.values)
}

// topValues is how many of the most frequent values a summary has.
const topValues = 10

// summary returns the column as expressions see it, except for the number of nulls, which only the profile knows.
func (c *Column) summary() spec.ColumnProfile {
	out := spec.ColumnProfile{Types: []string{}, Distinct: c.values.distinct(), Top: []spec.TopValue{}}
	for _, typ := range slices.Sorted(maps.Keys(c.Types)) {
		if typ != typeNull {
			out.Types = append(out.Types, typ)
		}
	}
	for _, v := range c.values.sorted()[:min(topValues, len(c.values.counts))] {
		out.Top = append(out.Top, spec.TopValue{Value: v.Text, Count: v.Count})
	}
	n := c.measures.Count()
	if n == 0 {
		return out
	}
	mean := c.sum.Mean(n)
	out.Min, out.Mean, out.Max = &c.min, &mean, &c.max
	q := c.measures.Quantiles(0.01, 0.05, 0.25, 0.50, 0.75, 0.95, 0.99)
	for i := range q {
		q[i] = min(max(q[i], c.min), c.max)
	}
	out.P01, out.P05, out.P25, out.P50, out.P75, out.P95, out.P99 = &q[0], &q[1], &q[2], &q[3], &q[4], &q[5], &q[6]
	return out
}

// ExactSum adds numbers without rounding, so that their order does not matter.
type ExactSum struct {
	whole int64 // part of the sum, for fast addition of integers
	rest  *big.Float
}

// exactBits is enough for the sum of 2^63 float64 values of any size, from 2^-1074 to 2^1024.
const exactBits = 1074 + 1024 + 63 + 1

// maxWhole is the absolute value above which the integer part is moved to rest.
const maxWhole = 1 << 61

// AddInt adds an integer.
func (s *ExactSum) AddInt(n int64) {
	if n > maxWhole || n < -maxWhole {
		s.addBig(new(big.Float).SetInt64(n))
		return
	}
	s.whole += n
	if s.whole > maxWhole || s.whole < -maxWhole {
		s.addBig(new(big.Float).SetInt64(s.whole))
		s.whole = 0
	}
}

// AddUint adds an unsigned integer.
func (s *ExactSum) AddUint(n uint64) { s.addBig(new(big.Float).SetUint64(n)) }

// AddFloat adds a finite number.
func (s *ExactSum) AddFloat(x float64) { s.addBig(new(big.Float).SetFloat64(x)) }

func (s *ExactSum) addBig(x *big.Float) {
	if s.rest == nil {
		s.rest = new(big.Float).SetPrec(exactBits)
	}
	s.rest.Add(s.rest, x)
}

func (s *ExactSum) merge(o *ExactSum) {
	s.AddInt(o.whole)
	if o.rest != nil {
		s.addBig(o.rest)
	}
}

// Total returns the sum.
func (s *ExactSum) Total() *big.Float {
	sum := new(big.Float).SetPrec(exactBits).SetInt64(s.whole)
	if s.rest != nil {
		sum.Add(sum, s.rest)
	}
	return sum
}

// Mean returns the sum divided by n.
func (s *ExactSum) Mean(n int64) float64 {
	total := s.Total()
	mean, _ := total.Quo(total, new(big.Float).SetInt64(n)).Float64()
	return mean
}

// columnJSON is the JSON form of a column.
type columnJSON struct {
	Types    map[string]int64 `json:"types"`
	Computed bool             `json:"computed,omitempty"`
	Min      float64          `json:"min"`
	Max      float64          `json:"max"`
	Sum      *big.Float       `json:"sum"`
	Measures *histogramJSON   `json:"measures,omitempty"`
	Values   []*counted       `json:"values,omitempty"`
	Ranks    []byte           `json:"ranks,omitempty"`
}

// MarshalJSON implements json.Marshaler. Columns with the same content have the same bytes.
func (c *Column) MarshalJSON() ([]byte, error) {
	return json.Marshal(columnJSON{
		Types: c.Types, Computed: c.Computed, Min: c.min, Max: c.max, Sum: c.sum.Total(), Measures: c.measures.encode(),
		Values: c.values.sorted(), Ranks: c.values.ranks,
	})
}

var errColumn = errors.New("not a column of a profile")

// UnmarshalJSON implements json.Unmarshaler.
func (c *Column) UnmarshalJSON(text []byte) error {
	in := columnJSON{Sum: new(big.Float).SetPrec(exactBits)}
	if err := json.Unmarshal(text, &in); err != nil {
		return err
	}
	if in.Sum == nil || in.Sum.IsInf() {
		return errColumn
	}
	*c = Column{Types: in.Types, Computed: in.Computed, min: in.Min, max: in.Max, sum: ExactSum{rest: in.Sum}}
	if err := c.measures.decode(in.Measures); err != nil {
		return err
	}
	for _, v := range in.Values {
		if v == nil {
			return errValues
		}
	}
	return c.values.decode(in.Values, in.Ranks)
}
