package workflows

import "go.temporal.io/sdk/workflow"

// Changes of what workflows do, by the names under which workflow.GetVersion puts them into histories. A history that an earlier build
// began goes on as that began it.
const (
	// changeLong: more workflows go on in a new history, and all do also when the server suggests it.
	changeLong = "long-history"
	// changeVacancy: a step whose child's ID is taken has an activity wait for it, and does not try to start the child again and again.
	changeVacancy = "await-vacancy"
	// changeNotes: a training tells its run of some of its generations only.
	changeNotes = "train-notes"
	// changeLostLane: every instance of a lane that failed as a whole has failed, and further lanes may be told to begin nothing new.
	changeLostLane = "lost-lane"
	// changeStopIsNoFinish: ranks that were told to stop before their last step, and ended with 0, have not finished.
	changeStopIsNoFinish = "stop-is-no-finish"
	// changeTimeoutBoundsWait: the timeout of a training's attempt bounds its wait for capacity.
	changeTimeoutBoundsWait = "timeout-bounds-wait"
	// changeFruitlessEnds: a training whose generations lead nowhere ends.
	changeFruitlessEnds = "fruitless-ends"
	// changeStopTimers: the timer of a wait ends with the wait.
	changeStopTimers = "stop-timers"
	// changeVerdicts: the history says how steps, generations and stages ended.
	changeVerdicts = "verdicts"
)

// since reports whether a change holds for this workflow. It is asked only where the change makes a difference, for it adds to history.
func since(ctx workflow.Context, change string) bool {
	return workflow.GetVersion(ctx, change, workflow.DefaultVersion, 1) != workflow.DefaultVersion
}
