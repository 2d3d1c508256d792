package contract

// Signals between runs and the lock of a concurrency group. WantSignal asks for the lock (a Want), TurnSignal says to a run that
// it holds it now, and FreeSignal, with the run's ID, gives it back or asks for it no longer.
const (
	WantSignal = "sluice.want"
	TurnSignal = "sluice.turn"
	FreeSignal = "sluice.free"
)

// LockWorkflowID is the workflow ID of a concurrency group's lock.
func LockWorkflowID(group string) string { return "lock/" + group }

// LockInput is what a lock knows: who holds it, and who waits, longest first.
type LockInput struct {
	Group   string   `json:"group"`
	Run     string   `json:"run"`
	Waiting []string `json:"waiting,omitempty"`
}

// Want asks for a lock. Evict: the run that holds it, and those that wait, are to be cancelled.
type Want struct {
	Run   string `json:"run"`
	Evict bool   `json:"evict,omitempty"`
}
