package contract

import "strings"

// Signals between runs and the lock of a concurrency group. WantSignal asks for the lock (a Want), TurnSignal says to a run that
// it holds it now, TakenSignal that it gets no turn, with the run that holds it, and FreeSignal, with the run's ID, gives it back or
// asks for it no longer.
const (
	WantSignal  = "sluice.want"
	TurnSignal  = "sluice.turn"
	TakenSignal = "sluice.taken"
	FreeSignal  = "sluice.free"
)

// LockWorkflowID is the workflow ID of a concurrency group's lock.
func LockWorkflowID(group string) string { return "lock/" + group }

// LockInput is what a lock knows: who holds it, and who waits, longest first.
type LockInput struct {
	Group   string   `json:"group"`
	Run     string   `json:"run"`
	Waiting []string `json:"waiting,omitempty"`
}

// LockRequest asks for a lock.
type LockRequest struct {
	Run string `json:"run"`
	// Evict: the run that holds it, and those that wait, are to be cancelled.
	Evict bool `json:"evict,omitempty"`
	// Skip: the run does not wait.
	Skip bool `json:"skip,omitempty"`
	// Child: other runs wait for this one. It has their IDs before its own, and would wait for ever for a lock that they hold.
	Child bool `json:"child,omitempty"`
}

// Within reports whether a child pipeline's run is one of another run's children, or of theirs.
func Within(run, parent string) bool { return strings.HasPrefix(run, parent+".") }
