package transform

import (
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/pipelines/rows"
	"github.com/sluiceml/sluice/pipelines/spill"
)

// End is a node at which rows leave a segment: a cut or a sink.
type End interface {
	// Take appends the spilled form of a row to to, and returns it with the row's mark, except for the place, and the group the row belongs
	// to. Its error may be a rejection.
	Take(to []byte, r rows.Row) (text []byte, group string, m spill.Mark, err error)
}

// CutGroups is the number of groups into which the marks of a cut are divided, to bound how many are in memory at a time.
const CutGroups = 64

// IsCut reports whether a type of transform is a cut.
func IsCut(typ string) bool { return cuts[typ] != nil }

// CompileCut compiles a cut.
func CompileCut(t spec.Transform, params map[string]any) (End, error) { return cuts[t.Type](t, params) }
