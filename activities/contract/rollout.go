package contract

import (
	"encoding/json"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store/record"
)

// Activity types of a rollout.
const (
	RolloutOpenActivity    = "sluice.rollout.open"
	RolloutTrafficActivity = "sluice.rollout.traffic"
	RolloutReplayActivity  = "sluice.rollout.replay"
	RolloutLookActivity    = "sluice.rollout.look"
	RolloutSettleActivity  = "sluice.rollout.settle"
)

// RolloutUpdate is the name of the update by which a person acts on a running rollout. It takes a RolloutOrder and returns the RolloutState
// after the order was executed; an order that is not possible is rejected.
const RolloutUpdate = "sluice.rollout"

// The orders that a person can give to a rollout.
const (
	// RolloutPause holds the stage: it does not pass until RolloutResume. A candidate that is found worse meanwhile is still rolled back.
	RolloutPause  = "pause"
	RolloutResume = "resume"
	// RolloutPromote gives the candidate all traffic at once, and RolloutAbort rolls it back at once.
	RolloutPromote = "promote"
	RolloutAbort   = "abort"
)

// RolloutOrder is an order of a person to a rollout.
type RolloutOrder struct {
	Action string `json:"action"`
	// By is the person as the client claims it.
	By     string `json:"by"`
	Reason string `json:"reason,omitempty"`
	// At is when the workflow received the order; a value from the client is ignored.
	At time.Time `json:"at,omitzero"`
}

// RolloutInput starts a rollout workflow.
type RolloutInput struct {
	record.StepInput
	// Continuation is what an earlier part of the rollout hands over when its history has become long.
	Continuation *RolloutContinuation `json:"carried,omitempty"`
}

// RolloutContinuation is the state of a rollout, in the middle of a stage, between two of its workflow's histories.
type RolloutContinuation struct {
	State  RolloutState  `json:"state"`
	Opened RolloutOpened `json:"opened"`
	// Revision of the routing document that gave the stage its traffic.
	Revision int64 `json:"revision"`
	// Looked is RolloutLooked.State, and Began when the stage did.
	Looked json.RawMessage `json:"judge,omitempty"`
	Began  time.Time       `json:"began"`
	// Held is how long the stage has been paused before, which does not count for its max_wait.
	Held time.Duration `json:"held,omitempty"`
	// Results of the stages, the last of which is not over.
	Results []spec.StageResult `json:"results"`
	// Sent is RolloutReplay.Sent.
	Sent int64 `json:"sent,omitempty"`
}

// RolloutOpened is the candidate, loaded and warm, with no traffic yet.
type RolloutOpened struct {
	Version string `json:"version"`
	// Previous is the version that serves; empty when none does. Then the candidate is all there is, and takes all traffic.
	Previous string `json:"previous"`
	// Revision of the routing document.
	Revision int64 `json:"revision"`
	// URL where the target answers.
	URL string `json:"url"`
}

// RolloutTraffic requests a share of traffic. The change is a compare-and-set on Revision: a request that arrives late, after another was
// executed, changes nothing.
type RolloutTraffic struct {
	Step     record.StepInput `json:"step"`
	Version  string           `json:"version"`
	Revision int64            `json:"revision"`
	Weight   spec.Share       `json:"weight"`
	Shadow   spec.Share       `json:"shadow"`
}

// RolloutReplay sends a dataset's rows to the target for as long as the rollout lasts.
type RolloutReplay struct {
	Step    record.StepInput `json:"step"`
	Traffic spec.Traffic     `json:"traffic"`
	// Sent is how many rows were sent before.
	Sent int64 `json:"sent,omitempty"`
}

// RolloutReplayed is how many rows have been sent when a replay is cancelled, those before it included.
type RolloutReplayed struct {
	Sent int64 `json:"sent"`
}

// RolloutLook asks for looks at a stage, one after the other, until one decides or For has passed.
type RolloutLook struct {
	Step     record.StepInput `json:"step"`
	Version  string           `json:"version"`
	Previous string           `json:"previous"`
	Stage    spec.Stage       `json:"stage"`
	Stages   int              `json:"stages"` // how many the rollout has
	Tests    spec.Tests       `json:"tests"`
	// Revision of the routing document that gave the stage its traffic.
	Revision int64 `json:"revision"`
	// Elapsed seconds of the stage when the activity is asked.
	Elapsed float64 `json:"elapsed"`
	// State is what EvaluateStage remembers between looks: counters it saw and the test's evidence. Empty at first.
	State json.RawMessage `json:"state,omitempty"`
	// Begins is true for the first of a stage.
	Begins bool `json:"begins,omitempty"`
	// For is how long to go on looking; 0: half a minute.
	For time.Duration `json:"for,omitempty"`
	// Paused: no look passes.
	Paused bool `json:"paused,omitempty"`
}

// RolloutProgress is what the heartbeats of the looks say: the newest.
type RolloutProgress struct {
	Text  string     `json:"text"`
	Share float64    `json:"share"` // negative: unknown
	Look  *spec.Look `json:"look,omitempty"`
	At    time.Time  `json:"at,omitzero"`
}

// RolloutLooked are the looks that were made, the last of which decided or holds, and what EvaluateStage must be given next time.
type RolloutLooked struct {
	Looks []spec.Look     `json:"looks"`
	State json.RawMessage `json:"state"`
}

// RolloutSettle ends a rollout: all traffic goes to the candidate and the release is recorded, or all traffic goes back to the release that
// served before. If Opened has no version, it is unknown whether the candidate was loaded: it is unloaded if it is there and has no
// traffic.
type RolloutSettle struct {
	Step    record.StepInput `json:"step"`
	Opened  RolloutOpened    `json:"opened"`
	Promote bool             `json:"promote"`
	Reason  string           `json:"reason"`
	// By is the person that ended it so; empty where its stages did.
	By string `json:"by,omitempty"`
}

// RolloutSettled is what a promotion has changed besides the traffic.
type RolloutSettled struct {
	// URL where the target answers now; empty where it answers as before.
	URL string `json:"url,omitempty"`
}

// RolloutTrafficSet is the routing document's revision after a change.
type RolloutTrafficSet struct {
	Revision int64 `json:"revision"`
}
