package transform

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"

	"github.com/sluiceml/sluice/pipelines/profile"
	"github.com/sluiceml/sluice/pipelines/rowjson"
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

// sumOf computes a sum or mean. The sum of integers is an integer; Value fails if it does not fit 64 bits.
type sumOf struct {
	mean, fraction bool
	n              int64
	total          profile.ExactSum
}

func (s *sumOf) Check(v any) error {
	switch v.(type) {
	case int64, float64, nil:
		return nil
	}
	return fmt.Errorf("a %T is not a number", v)
}

func (s *sumOf) Add(v any) {
	s.n++
	switch v := v.(type) {
	case int64:
		s.total.AddInt(v)
	case float64:
		s.fraction = true
		s.total.AddFloat(v)
	}
}

func (s *sumOf) Value() (any, error) {
	if s.n == 0 {
		return nil, nil
	}
	sum := s.total.Mean(s.n)
	if !s.mean {
		total := s.total.Total()
		if whole, exact := total.Int64(); !s.fraction && exact == big.Exact {
			return whole, nil
		} else if !s.fraction {
			return nil, fmt.Errorf("the sum of the integers is %.0f, which has more than 64 bits; use double(...) to get the nearest number", total)
		}
		sum, _ = total.Float64()
	}
	if math.IsInf(sum, 0) {
		return nil, errors.New("the sum is beyond the range of a double")
	}
	return sum, nil
}

// extreme finds the minimum or maximum: bools come before numbers, and numbers before strings.
type extreme struct {
	sign int
	best any
}

func (e *extreme) Check(v any) error {
	if kindOrder(v) < 0 {
		return fmt.Errorf("a %T cannot be ordered; use a number, a string or a bool", v)
	}
	return nil
}

func (e *extreme) Add(v any) {
	if e.best == nil || compareValues(v, e.best)*e.sign > 0 {
		e.best = v
	}
}

func (e *extreme) Value() (any, error) { return e.best, nil }

func kindOrder(v any) int {
	switch v.(type) {
	case nil:
		return 0
	case bool:
		return 1
	case int64, float64:
		return 2
	case string:
		return 3
	}
	return -1
}

// compareValues compares values that can be ordered.
func compareValues(a, b any) int {
	if c := cmp.Compare(kindOrder(a), kindOrder(b)); c != 0 {
		return c
	}
	switch a := a.(type) {
	case bool:
		if a == b {
			return 0
		}
		if a {
			return 1
		}
		return -1
	case string:
		return strings.Compare(a, b.(string))
	}
	return numberOf(a).Cmp(numberOf(b))
}

// numberOf returns the exact value of a number: not every 64-bit integer is a double.
func numberOf(v any) *big.Float {
	if i, ok := v.(int64); ok {
		return new(big.Float).SetInt64(i)
	}
	return big.NewFloat(v.(float64))
}

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
		return fmt.Errorf("a %T is not a bool", v)
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
	text, err := rowjson.Append(nil, v)
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
