package pipelines

import (
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/pipelines/rows"
	"github.com/sluiceml/sluice/pipelines/spill"
)

// end is where a row leaves a segment: a cut or a sink.
type end interface {
	// take appends what is spilled of a row, and returns it with its mark, but for the place, and the group that it belongs to. It may reject
	// the row.
	take(to []byte, r rows.Row) (text []byte, group string, m spill.Mark, err error)
}

// groups is the number of groups that marks are deduplicated in: one group's keys are in memory at a time.
const groups = 64

// cuts compile the transforms that compare rows with others, by type: a segment ends at such a one, and the next begins.
var cuts = map[string]func(t spec.Transform, params map[string]any) (end, error){
	"Combine":     compileCombine,
	"Deduplicate": compileDedup,
}

// isCut reports whether a type is that of a cut.
func isCut(typ string) bool { return cuts[typ] != nil }

// compileCut compiles a cut.
func compileCut(t spec.Transform, params map[string]any) (end, error) { return cuts[t.Type](t, params) }
