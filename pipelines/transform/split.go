package transform

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// Splitter assigns rows to parts.
type Splitter struct {
	parts []partShare
	key   *expr.RowProgram
}

// partShare is a part, with the upper end of its interval in [0, 1).
type partShare struct {
	name  string
	upper float64
}

// AllRows is the splitter of a sink that does not follow a Split.
var AllRows = Splitter{parts: []partShare{{name: transform.AllRows, upper: 1}}}

// CompileSplit compiles a Split.
func CompileSplit(t spec.Transform, params map[string]any) (*Splitter, error) {
	c, err := rows.DecodeConfig[transform.Split](t)
	if err != nil {
		return nil, err
	}
	s := &Splitter{}
	if s.key, err = expr.CompileRow(c.Key, params); err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	// Sort by name: a map has no order, and the assignment to parts must not depend on one.
	sum := 0.0
	for name, share := range c.Parts {
		if !rows.PlainName(name) {
			return nil, fmt.Errorf("parts: %q is not a valid name for a folder; use letters, digits, - and _", name)
		}
		if share <= 0 {
			return nil, fmt.Errorf("parts: the share of %s must be more than 0%%", name)
		}
		s.parts = append(s.parts, partShare{name: name})
	}
	slices.SortFunc(s.parts, func(a, b partShare) int { return strings.Compare(a.name, b.name) })
	for i := range s.parts {
		sum += float64(c.Parts[s.parts[i].name])
		s.parts[i].upper = sum
	}
	if math.Abs(sum-1) > 1e-9 {
		return nil, fmt.Errorf("parts: the shares add up to %g%%, not 100%%", 100*sum)
	}
	return s, nil
}

// Names returns the names of the parts.
func (s *Splitter) Names() []string {
	names := make([]string, len(s.parts))
	for i, p := range s.parts {
		names[i] = p.name
	}
	return names
}

// Keyed reports whether the part depends on the row.
func (s *Splitter) Keyed() bool { return s.key != nil }

// Part returns the part of a row: the one whose interval contains the hash of its key.
func (s *Splitter) Part(r rows.Row) (string, error) {
	if s.key == nil {
		return s.parts[0].name, nil
	}
	v, err := s.key.Eval(r)
	if err != nil {
		return "", rows.RejectEval("key", err)
	}
	key, err := rows.KeyOf(map[string]any{"split": v})
	if err != nil {
		return "", err
	}
	at := key.Fraction()
	for _, p := range s.parts[:len(s.parts)-1] {
		if at < p.upper {
			return p.name, nil
		}
	}
	return s.parts[len(s.parts)-1].name, nil
}
