package transform

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"time"

	"github.com/sluiceml/sluice/dsl/expr/value"
	"github.com/sluiceml/sluice/pipelines/columns"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// Aggregate computes one result of a Combine.
type Aggregate interface {
	// Check returns an error for a value that Add does not accept. It accepts null.
	Check(v any) error
	// Add adds a value. Nulls are skipped by the caller, except when counting rows.
	Add(v any)
	// Value returns the result.
	Value() (any, error)
}

// Aggregates has the constructors of the aggregates by the name of their function.
var Aggregates = map[string]func() Aggregate{
	"sum":   func() Aggregate { return &sumOf{} },
	"mean":  func() Aggregate { return &sumOf{mean: true} },
	"min":   func() Aggregate { return &extreme{sign: -1} },
	"max":   func() Aggregate { return &extreme{sign: 1} },
	"count": func() Aggregate { return &countOf{} },
	"any":   func() Aggregate { return &quantifier{decides: true} },
	"all":   func() Aggregate { return &quantifier{decides: false} },
	"group": func() Aggregate { return &listOf{} },
}

// sumOf computes a sum or mean. The sum of integers is an integer, that of decimals (and integers) a decimal, and that of durations a duration; Value
// fails if it does not fit 64 bits. The mean is a double, or a duration.
type sumOf struct {
	mean                                bool
	n                                   int64
	total                               columns.ExactSum
	exact                               value.Decimal // sum of the decimals
	fraction, decimal, duration, number bool          // which were added
	odd                                 float64       // sum of NaN and infinities
}

func (s *sumOf) Check(v any) error {
	switch v.(type) {
	case int64, uint64, float64, value.Decimal, time.Duration, nil:
		return nil
	}
	return fmt.Errorf("a value of type %s is not a number", value.TypeName(v))
}

func (s *sumOf) Add(v any) {
	s.n++
	switch v := v.(type) {
	case int64:
		s.number = true
		s.total.AddInt(v)
	case uint64:
		s.number = true
		s.total.AddUint(v)
	case float64:
		s.number, s.fraction = true, true
		if value.Finite(v) {
			s.total.AddFloat(v)
		} else {
			s.odd += v
		}
	case value.Decimal:
		s.number, s.decimal = true, true
		s.exact = s.exact.Plus(v)
	case time.Duration:
		s.duration = true
		s.total.AddInt(int64(v))
	}
}

func (s *sumOf) Value() (any, error) {
	switch {
	case s.n == 0:
		return nil, nil
	case s.duration && s.number:
		return nil, errors.New("numbers and durations cannot be added")
	case s.odd != 0: // NaN is not 0 either
		return s.odd, nil
	}
	total := s.total.Total()
	whole, accuracy := total.Int64()
	switch {
	case s.duration && s.mean:
		return time.Duration(math.Round(s.total.Mean(s.n))), nil
	case s.mean || s.fraction:
		return s.double()
	case s.decimal:
		sum, _ := total.Int(nil) // of integers
		return s.exact.Plus(value.BigDecimal(sum, 0)), nil
	case accuracy != big.Exact:
		if sum, accuracy := total.Uint64(); accuracy == big.Exact && !s.duration {
			return sum, nil
		}
		return nil, fmt.Errorf("the sum of the integers is %.0f, which has more than 64 bits; use double(...) to get the nearest number", total)
	case s.duration:
		return time.Duration(whole), nil
	}
	return whole, nil
}

// double returns the sum or the mean as the nearest double.
func (s *sumOf) double() (any, error) {
	all := s.exact.Rat()
	rest, _ := s.total.Total().Rat(nil)
	all.Add(all, rest)
	if s.mean {
		all.Quo(all, new(big.Rat).SetInt64(s.n))
	}
	sum, _ := all.Float64()
	if math.IsInf(sum, 0) {
		return nil, errors.New("the sum is beyond the range of a double")
	}
	return sum, nil
}

// extreme finds the minimum or maximum, in the order of value.Compare.
type extreme struct {
	sign int
	best any
}

func (e *extreme) Check(v any) error {
	if !value.Ordered(v) {
		return fmt.Errorf("a value of type %s cannot be ordered; use a number, a time, a duration, a string, bytes or a bool", value.TypeName(v))
	}
	return nil
}

func (e *extreme) Add(v any) {
	if e.best == nil || value.Compare(v, e.best)*e.sign > 0 {
		e.best = v
	}
}

func (e *extreme) Value() (any, error) { return e.best, nil }

type countOf struct{ n int64 }

func (*countOf) Check(any) error       { return nil }
func (c *countOf) Add(any)             { c.n++ }
func (c *countOf) Value() (any, error) { return c.n, nil }

// quantifier computes any or all; decides is the value that determines the result.
type quantifier struct {
	decides bool
	got     any
}

func (q *quantifier) Check(v any) error {
	if _, ok := v.(bool); !ok && v != nil {
		return fmt.Errorf("a value of type %s is not a bool", value.TypeName(v))
	}
	return nil
}

func (q *quantifier) Add(v any) {
	if q.got != q.decides {
		q.got = v
	}
}

func (q *quantifier) Value() (any, error) { return q.got, nil }

// listOf lists the values, as long as a row has place for them.
type listOf struct {
	list []any
	size int
}

func (*listOf) Check(any) error { return nil }

func (l *listOf) Add(v any) {
	if l.size > rows.MaxSize {
		return // value says so
	}
	text, err := rows.AppendTypedValue(nil, v)
	if err != nil {
		l.size = rows.MaxSize // a value that came out of a row can be written
	}
	l.list = append(l.list, v)
	l.size += len(text) + 1
}

func (l *listOf) Value() (any, error) {
	if l.size > rows.MaxSize {
		return nil, fmt.Errorf("the list of the values of a group has more than %d bytes, the limit of a row", rows.MaxSize)
	}
	return l.list, nil
}
