package contract

// What of a run somebody may want to be notified of.
const (
	EventStart    = "start"
	EventHold     = "hold" // a person is waited for
	EventFail     = "fail"
	EventSuccess  = "success"
	EventRollback = "rollback"
)
