package workflows

// Changes to the workflows of runs: see durable.Since.
const (
	// changeVacancy: if the workflow ID of a step's child is taken, an activity waits until it is free, instead of repeated attempts to
	// start the child.
	changeVacancy = "await-vacancy"
	// changeLostLane: if a lane fails as a whole, all of its instances have failed, and other lanes may be told to start nothing new.
	changeLostLane = "lost-lane"
	// changeEnds: all ends have the effects in the table of ends.
	changeEnds = "ends"
	// changeNoLimit: a child run or a rollout without a timeout has no time limit, instead of 24 hours.
	changeNoLimit = "no-limit"
	// changeUnevaluated: a step that cannot be evaluated has a record that says so.
	changeUnevaluated = "unevaluated"
	// changeUnbegun: the steps of a run that never gets its turn of its concurrency group have records that say so.
	changeUnbegun = "unbegun"
	// changeUnopened: a candidate that was not loaded completely is unloaded.
	changeUnopened = "unopened"
	// changeOrders: a look at a stage ends when somebody gives an order; on a cancellation it ends after the replayed traffic.
	changeOrders = "orders"
	// changeLongStages: a rollout can also continue in a new history between two stages.
	changeLongStages = "long-stages"
)
