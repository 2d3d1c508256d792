package workflows

// Changes of what runs do: see durable.Since.
const (
	// changeVacancy: a step whose child's ID is taken has an activity wait for it, and does not try to start the child again and again.
	changeVacancy = "await-vacancy"
	// changeLostLane: every instance of a lane that failed as a whole has failed, and further lanes may be told to begin nothing new.
	changeLostLane = "lost-lane"
	// changeEnds: all ends have the consequences that the table of ends gives them.
	changeEnds = "ends"
	// changeNoLimit: a child run or a rollout without a timeout lasts as long as it lasts, and not 24 hours.
	changeNoLimit = "no-limit"
	// changeUnevaluated: a step that cannot be evaluated has a record of that.
	changeUnevaluated = "unevaluated"
	// changeUnopened: a candidate that was not opened is unloaded.
	changeUnopened = "unopened"
	// changeOrders: a look at a stage ends when somebody orders something; at a cancel it ends after the traffic that is replayed.
	changeOrders = "orders"
	// changeLongStages: a rollout goes on in a new history between two stages, too.
	changeLongStages = "long-stages"
)
