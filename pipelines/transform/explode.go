package transform

import (
	"errors"
	"maps"

	"github.com/sluiceml/sluice/dsl/expr/value"
	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// maxExploded bounds the number of rows made from one row.
const maxExploded = 1_000_000

// explodeFunc calls yield for each row made from a row. It may reject the row before the first of them.
type explodeFunc func(r rows.Row, yield func(rows.Row) error) error

// explode compiles an Explode, which makes rows from the items of lists.
func (c *Compiled) explode(config transform.Explode, _ Deps) error {
	if len(config.Fields) == 0 {
		return errors.New("fields: name at least one")
	}
	c.Explode = func(r rows.Row, yield func(rows.Row) error) error {
		lists := make([][]any, len(config.Fields))
		for i, name := range config.Fields {
			v, ok := r[name]
			if !ok {
				return rows.Reject("missing_field", "the row has no field %s", name)
			}
			if lists[i], ok = v.([]any); !ok {
				return rows.Reject("not_list", "field %s is of type %s, not a list", name, value.TypeName(v))
			}
		}
		count, item := zipped(lists)
		if config.CrossProduct {
			count, item = crossed(lists)
		}
		if count > maxExploded {
			return rows.Reject("too_many", "the row would become more than %d rows", maxExploded)
		}
		for n := range count {
			made := maps.Clone(r)
			for i, name := range config.Fields {
				made[name] = item(n, i)
			}
			if err := yield(made); err != nil {
				return err
			}
		}
		return nil
	}
	return nil
}

// zipped returns the length of the longest list, and a function that returns the item of list i in row n.
func zipped(lists [][]any) (count int, item func(n, i int) any) {
	for _, list := range lists {
		count = max(count, len(list))
	}
	return count, func(n, i int) any {
		if n < len(lists[i]) {
			return lists[i][n]
		}
		return nil
	}
}

// crossed returns the number of combinations, at most maxExploded+1, and a function that returns the item of list i in combination n. The
// last list varies fastest.
func crossed(lists [][]any) (count int, item func(n, i int) any) {
	count = 1
	for _, list := range lists {
		if len(list) == 0 {
			return 0, nil
		}
		count = min(count*len(list), maxExploded+1)
	}
	return count, func(n, i int) any {
		for _, list := range lists[i+1:] {
			n /= len(list)
		}
		return lists[i][n%len(lists[i])]
	}
}
