package record

import (
	"strconv"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store"
)

// Returned is triggers/<pipeline>/<trigger>/<time>.json: a run that did not process what its trigger handed to it, because it gave way to
// another run of a concurrency group.
type Returned struct {
	// At is the time at which the trigger started the run, TriggerFacts.Time, which identifies the start among those of the trigger.
	At time.Time `json:"at"`
	// By is the run that it gave way to; empty if that is unknown.
	By string `json:"by,omitempty"`
	// Evicted is set if By canceled the run. Otherwise, By held the group and turned it away.
	Evicted bool `json:"evicted,omitempty"`
}

// ReturnedKey is where a run that a trigger started is recorded as returned.
func ReturnedKey(pipeline string, of spec.TriggerFacts) string {
	return ReturnedPrefix(pipeline, of.Name) + strconv.FormatInt(of.Time.UnixNano(), 10) + ".json"
}

// ReturnedPrefix begins the keys of the returned runs of a trigger.
func ReturnedPrefix(pipeline, trigger string) string {
	return store.TriggersPrefix + pipeline + "/" + trigger + "/"
}
