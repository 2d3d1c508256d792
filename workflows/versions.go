package workflows

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
)
