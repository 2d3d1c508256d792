package contract

// Signals between runs and the lock of a concurrency group. FreeSignal gives the lock back, WantSignal asks for it, TurnSignal says
// to a run that waits that it may try.
const (
	FreeSignal = "sluice.free"
	WantSignal = "sluice.want"
	TurnSignal = "sluice.turn"
)

// LockWorkflowID is the workflow ID of a concurrency group's lock.
func LockWorkflowID(group string) string { return "lock/" + group }

// LockInput is what a lock knows: who holds it, and who waits, longest first.
type LockInput struct {
	Group   string   `json:"group"`
	Run     string   `json:"run"`
	Waiting []string `json:"waiting,omitempty"`
}

// Want asks for a lock. Evict: the run that holds it is to be cancelled.
type Want struct {
	Run   string `json:"run"`
	Evict bool   `json:"evict,omitempty"`
}
