package report

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store/record"
)

// kindInfo is one line in the table of kinds: how a step of that kind is reported, from what it handed on.
type kindInfo struct {
	// brief says it in one line, part by part.
	brief func(outputs json.RawMessage) []string
	// tell fills in the step's section, and reports whether there is anything to tell.
	tell func(s *section, d Data) bool
	// decided lists the decisions that are the step's own outputs, of a kind that asks people.
	decided func(s record.StepRecord) []record.Decision
	// curve is the digest of the loss curve, of a kind that draws one.
	curve func(outputs json.RawMessage) (digest string, err error)
}

// kinds has a line for each kind. One that is not in it, of another version of Sluice, has a section without a story.
var kinds = map[spec.Kind]kindInfo{
	spec.KindClean:    {brief: decoded(briefClean), tell: (*section).tellClean},
	spec.KindTrain:    {brief: decoded(briefTrain), tell: (*section).tellTrain, curve: curveOf},
	spec.KindEvaluate: {brief: briefValues, tell: (*section).tellValues},
	spec.KindCompile:  {brief: decoded(briefCompile), tell: (*section).tellCompile},
	spec.KindRollout:  {brief: decoded(briefRollout), tell: (*section).tellRollout},
	spec.KindRun:      {brief: briefValues, tell: (*section).tellValues},
	spec.KindApproval: {brief: briefApproval, tell: (*section).tellNothing, decided: decidedByApproval},
	spec.KindPipeline: {brief: briefValues, tell: (*section).tellValues},
}

// whoEnded is what ended on the nodes, where the end is one of its own.
func whoEnded(kind spec.Kind, end spec.GenerationEnd) string {
	switch {
	case end != spec.EndUserError && end != spec.EndCrashed:
		return ""
	case kind != spec.KindTrain:
		return cmp.Or(kind.Work(), "program")
	case end == spec.EndCrashed:
		return "rank"
	}
	return "script"
}

// HasSteps reports whether generations of a step have training steps to report: those of a cleaning or a compilation have none.
func HasSteps(kind spec.Kind, generations []spec.Generation) bool {
	return kind == spec.KindTrain || slices.ContainsFunc(generations, func(g spec.Generation) bool {
		return g.FromStep > 0 || g.ToStep > 0 || g.CommittedStep > 0 || g.StepsLost > 0
	})
}

// decoded is f on outputs as they are recorded.
func decoded[Output, Result any](f func(Output) Result) func(json.RawMessage) Result {
	return func(outputs json.RawMessage) Result { return f(decode[Output](outputs)) }
}

// decode reads a step's outputs as its kind's output struct. What does not fit reads as zero: a record of another version of
// Sluice still has a report.
func decode[Output any](outputs json.RawMessage) Output {
	var out Output
	if len(outputs) > 0 {
		_ = json.Unmarshal(outputs, &out)
	}
	return out
}
