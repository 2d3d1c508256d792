package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store/record"
)

// kindInfo is one line in the table of kinds: how a step of that kind is done, by an activity or by perform.
type kindInfo struct {
	// activity is the name of the activity that does it.
	activity string
	// perform makes one attempt in another way: by a child workflow, or by asking a person.
	perform func(j *job, ctx workflow.Context, resolved contract.Resolved, summary string) (record.StepOutput, error)
	// retriesItself is set for what its own workflow retries: the step is tried once.
	retriesItself bool
	// costsAtEnd is set for what costs something that is not known before the step is evaluated, so that nothing is resolved ahead.
	costsAtEnd bool
	// failsEmpty is set for what hands nothing on when it fails: of a child run that failed only the cost is kept.
	failsEmpty bool
	// rollsBack is set for what is undone when its gate does not pass, which people are told.
	rollsBack bool
}

// kindOf is how a step is done: on nodes of pools as a training is.
func kindOf(node spec.Node) kindInfo {
	if node.OnPool {
		return kinds[spec.KindTrain]
	}
	return kinds[node.Kind]
}

// kinds has a line for each kind. Workflow code looks lines up; it never ranges over them.
var kinds = map[spec.Kind]kindInfo{
	spec.KindClean:    {activity: contract.CleanActivity},
	spec.KindTrain:    {perform: (*job).train, retriesItself: true, costsAtEnd: true},
	spec.KindEvaluate: {activity: contract.EvaluateActivity},
	spec.KindCompile:  {activity: contract.CompileActivity},
	spec.KindRollout:  {perform: (*job).rollOut, rollsBack: true},
	spec.KindRun:      {activity: contract.RunActivity},
	spec.KindApproval: {perform: (*job).approve},
	spec.KindPipeline: {perform: (*job).runChild, costsAtEnd: true, failsEmpty: true},
}
