package contract

import "strings"

// Signals between runs and the lock of a concurrency group. WantSignal requests the lock (with a LockRequest), TurnSignal tells a run that
// it holds the lock, TakenSignal tells it that it will get no turn and which run holds the lock, EvictedSignal tells it which run it is
// canceled for, and FreeSignal, with the run's ID, releases the lock or withdraws the request.
const (
	WantSignal    = "sluice.want"
	TurnSignal    = "sluice.turn"
	TakenSignal   = "sluice.taken"
	EvictedSignal = "sluice.evicted"
	FreeSignal    = "sluice.free"
)

// LockWorkflowID is the workflow ID of a concurrency group's lock.
func LockWorkflowID(group string) string { return "lock/" + group }

// LockInput is the state of a lock: the holder, and the waiting runs in the order in which they arrived.
type LockInput struct {
	Group   string   `json:"group"`
	Run     string   `json:"run"`
	Waiting []string `json:"waiting,omitempty"`
}

// LockRequest asks for a lock.
type LockRequest struct {
	Run string `json:"run"`
	// Evict is set if the holder and the waiting runs should be canceled.
	Evict bool `json:"evict,omitempty"`
	// Skip is set if the run does not wait.
	Skip bool `json:"skip,omitempty"`
	// Child is set if other runs wait for this one. Their IDs are prefixes of its own, and it would wait forever for a lock that one of
	// them holds.
	Child bool `json:"child,omitempty"`
}

// Within reports whether a child pipeline's run is one of another run's children, or of theirs.
func Within(run, parent string) bool { return strings.HasPrefix(run, parent+".") }

// DeadlockInput asks whether a child run that waits for a concurrency group would wait forever.
type DeadlockInput struct {
	Run   string `json:"run"`
	Group string `json:"group"`
}
