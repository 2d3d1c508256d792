package transform

import (
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/pipelines/rows"
	"github.com/sluiceml/sluice/pipelines/spill"
)

// End is where a row leaves a segment: a cut or a sink.
type End interface {
	// Take appends what is spilled of a row, and returns it with its mark, but for the place, and the group that it belongs to. It may reject
	// the row.
	Take(to []byte, r rows.Row) (text []byte, group string, m spill.Mark, err error)
}

// CutGroups is the number of groups that marks are deduplicated in: one group's keys are in memory at a time.
const CutGroups = 64

// IsCut reports whether a type is that of a cut.
func IsCut(typ string) bool { return cuts[typ] != nil }

// CompileCut compiles a cut.
func CompileCut(t spec.Transform, params map[string]any) (End, error) { return cuts[t.Type](t, params) }
