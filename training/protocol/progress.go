package protocol

import (
	"fmt"

	"github.com/sluiceml/sluice/internal/metrics"
	"github.com/sluiceml/sluice/training/gpu"
)

// Progress is the content of a long activity's heartbeats: one line and, if known, the share that is done.
type Progress struct {
	Text string `json:"text"`
	// Share done, 0 to 1; negative when unknown.
	Share float64 `json:"share"`
}

// Resumption is how a generation that was given a checkpoint began.
type Resumption struct {
	From  int64  `json:"from"` // the checkpoint's step
	Began *int64 `json:"began,omitempty"`
}

// Failed says that the script did not resume; it is empty if it did, or has made no step yet.
func (r Resumption) Failed() string {
	if r.From == 0 || r.Began == nil || *r.Began > r.From {
		return ""
	}
	return fmt.Sprintf("the script began at step %d and did not resume from the checkpoint of step %d", *r.Began, r.From)
}

// TrainProgress is the content of the heartbeats of a node's RunRanks activity.
type TrainProgress struct {
	Generation     int            `json:"generation"`
	Node           int            `json:"node"`
	Step           int64          `json:"step"`
	Of             int64          `json:"of"`
	Loss           metrics.Number `json:"loss"`
	StepsPerSecond float64        `json:"steps_per_second"`
	CommittedStep  int64          `json:"committed_step"`
	// Doing is how far sluice is, where it does the step itself, as far as it has said.
	Doing *Progress `json:"doing,omitempty"`
	// Resumed says where the ranks began, if they were given a checkpoint.
	Resumed Resumption `json:"resumed,omitzero"`
	// CommitError says why a checkpoint could not be committed, until one is or nothing is left to commit.
	CommitError string `json:"commit_error,omitempty"`
	// Work is how long the slowest of the node's ranks works on a step; nil unless the script says it.
	Work *StepWork `json:"work,omitempty"`
	// GPUs are the newest readings of those that the node has.
	GPUs []gpu.Reading `json:"gpus,omitempty"`
	// Idle says that they are hardly used, while they are, where the step wants to know.
	Idle string `json:"idle,omitempty"`
	// Hang says that the ranks make no progress, while they make none, where the step only wants to be warned.
	Hang string `json:"hang,omitempty"`
	// Risk says that the machine is likelier than others to be taken away, where its pool knows.
	Risk string `json:"risk,omitempty"`
}
