package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store/record"
)

// kindInfo is one line in the table of kinds: how a step of that kind is executed, by an activity or by perform.
type kindInfo struct {
	// activity is the name of the activity that executes the step.
	activity string
	// perform makes one attempt in another way: with a child workflow, or by asking a person.
	perform func(j *job, ctx workflow.Context, resolved contract.Resolved, summary string) (record.StepOutput, error)
	// retriesItself is set if the step's own workflow handles retries, so the step is tried once.
	retriesItself bool
	// costsAtEnd is set if the cost of the step is unknown before it is evaluated, so no later step is resolved ahead.
	costsAtEnd bool
	// failsEmpty is set if a failed step has no outputs: of a child run that failed, only the cost is kept.
	failsEmpty bool
	// rechecks is set if the step may look again at what the run decided, in the records of its steps.
	rechecks bool
	// rollsBack is set if the step is undone when its gate does not pass, which people are notified of.
	rollsBack bool
}

// kindOf returns how a step is executed: on nodes of pools, like a training.
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
	spec.KindRollout:  {perform: (*job).rollOut, rechecks: true, rollsBack: true},
	spec.KindRun:      {activity: contract.RunActivity},
	spec.KindApproval: {perform: (*job).approve},
	spec.KindPipeline: {perform: (*job).runChild, costsAtEnd: true, failsEmpty: true, rechecks: true},
}
