package transform

import (
	"fmt"
	"strconv"

	"github.com/sluiceml/sluice/dsl/expr/value"
	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/pipelines/account"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// maxAsserted bounds the number of elements of an AssertEqual.
const maxAsserted = 10_000

// Assertion is a compiled AssertEqual: the expected rows, and how often each must occur. Each worker counts the rows that occur; whether
// they are complete is checked when the counts are added up.
type Assertion struct {
	name  string
	texts []string
	want  []int64
	index map[rows.Digest]int
}

// assertEqual compiles an AssertEqual.
func (c *Compiled) assertEqual(config transform.AssertEqual, _ Deps) error {
	if len(config.Elements) > maxAsserted {
		return fmt.Errorf("elements: %d are more than the maximum of %d; compare large datasets by their digests", len(config.Elements), maxAsserted)
	}
	a := &Assertion{name: c.name, index: map[rows.Digest]int{}}
	c.Assertion, c.Count = a, a.see
	for i, element := range config.Elements {
		r, err := rows.Decode(element)
		if err != nil {
			return fmt.Errorf("elements: number %d: %w", i+1, err)
		}
		text, err := rows.Encode(r)
		if err != nil {
			return err
		}
		key, err := rows.KeyOf(map[string]any(r))
		if err != nil {
			return err
		}
		at, ok := a.index[key]
		if !ok {
			at = len(a.texts)
			a.index[key] = at
			a.texts, a.want = append(a.texts, rows.Clip(string(text), rows.MaxMessage)), append(a.want, 0)
		}
		a.want[at]++
	}
	return nil
}

// see counts a row, or fails if it is not expected. Elements are JSON, so rows are compared as JSON.
func (a *Assertion) see(r rows.Row, count func(space, name string)) error {
	key, err := rows.KeyOf(value.JSON(map[string]any(r)))
	if err != nil {
		return err
	}
	at, ok := a.index[key]
	if !ok {
		text, err := rows.Encode(r)
		if err != nil {
			return err
		}
		return fault.Errorf(fault.User, "%s: the row %s is not among the elements", a.name, rows.Clip(string(text), rows.MaxMessage))
	}
	count(account.CountAsserted, a.counter(at))
	return nil
}

func (a *Assertion) counter(i int) string { return a.name + "/" + strconv.Itoa(i) }

// Check compares the counted rows with the expected ones.
func (a *Assertion) Check(got map[string]int64) error {
	for i, want := range a.want {
		if n := got[a.counter(i)]; n != want {
			return fault.Errorf(fault.User, "%s: the row %s occurs %d times, not %d", a.name, a.texts[i], n, want)
		}
	}
	return nil
}
