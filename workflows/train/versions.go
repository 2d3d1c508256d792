package train

// Changes to the workflows of trainings: see durable.Since.
const (
	// changeNotes: a training reports only some of its generations to its run.
	changeNotes = "train-notes"
	// changeStopIsNoFinish: ranks that were told to stop before their last step, and ended with 0, have not finished.
	changeStopIsNoFinish = "stop-is-no-finish"
	// changeTimeoutBoundsWait: the timeout of a training's attempt bounds its wait for capacity.
	changeTimeoutBoundsWait = "timeout-bounds-wait"
	// changeFruitlessEnds: a training whose generations make no progress ends.
	changeFruitlessEnds = "fruitless-ends"
	// changeAccount: a training that does not succeed says what its generations did.
	changeAccount = "train-account"
	// changeRefusedSpot: a training that waits for spot and is refused permanently buys on-demand.
	changeRefusedSpot = "refused-spot"
	// changeLeavesSpot: a training leaves spot for on-demand if losing it would mean missing the deadline.
	changeLeavesSpot = "leaves-spot"
	// changePeersOfStopped: a rank that fails after a peer was stopped on a notice is not to blame.
	changePeersOfStopped = "peers-of-stopped"
	// changeSameNodes: a generation whose ranks failed on nodes that are well is followed by one on the same nodes.
	changeSameNodes = "same-nodes"
	// changeOwnSignal: a rank that was killed by a signal of its own ended the generation, without a look for lost nodes.
	changeOwnSignal = "own-signal"
	// changeNextAtNotice: the next gang is acquired while ranks that are to leave their nodes write a checkpoint.
	changeNextAtNotice = "next-at-notice"
	// changeAsksAgain: a training with a deadline chooses again what to buy after each failed call of Acquire.
	changeAsksAgain = "asks-again"
	// changeGoneBeforeBudget: nodes that were gone before they had used up the budget were lost.
	changeGoneBeforeBudget = "gone-before-budget"
	// changeUnreleased: a training whose last nodes cannot be released ends as its ranks did.
	changeUnreleased = "unreleased"
)
