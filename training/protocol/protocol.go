// Package protocol has the messages between pools, the agents of their nodes, and the workflow of a training.
package protocol

import (
	"cmp"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/training/checkpoint"
)

// AgentProtocol is the version of the protocol between workers and node agents. An agent rejects any other version than its own.
const AgentProtocol = 5

// Activity types of a node's agent, on the node's own task queue.
const (
	PrepareActivity  = "sluice.node.prepare"
	RunRanksActivity = "sluice.node.run_ranks"
	AttachActivity   = "sluice.node.attach"
	StopActivity     = "sluice.node.stop"
)

// NoticeSignal is sent to a train workflow, any number of times, when a node must be left: by the node's agent, and by the watch of the
// gang if the pool knows.
const NoticeSignal = "sluice.notice"

// Notice is the content of a NoticeSignal.
type Notice struct {
	Generation int       `json:"generation"`
	Node       int       `json:"node"`
	Until      time.Time `json:"until"` // the node may be gone from then on; only where it has been told that it will go
	// Cause is why: empty when the node has been told that it will go, CauseFault or CauseIdle. Reason says more, in one line; of a node
	// that will go only its pool knows it.
	Cause  string `json:"cause,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Why a node is to be left, other than that it will go.
const (
	CauseFault = "gpu_fault" // one of its GPUs cannot be relied on until it has been reset
	CauseIdle  = "gpu_idle"  // its GPUs are hardly used, and the step says to release them then
)

// PrepareInput makes a node ready: workspace, inputs, resume.
type PrepareInput struct {
	Protocol int              `json:"protocol"`
	Step     record.StepInput `json:"step"`
	// Generation with what it resumes from.
	Seal checkpoint.Seal `json:"seal"`
	Node int             `json:"node"`
}

// PrepareOutput is what a node says when it is ready.
type PrepareOutput struct {
	// MasterPort is a free port of the node. That of node 0 is where the ranks meet.
	MasterPort int `json:"master_port"`
	// Unusable says why the checkpoint cannot be resumed from; empty when it can.
	Unusable string `json:"unusable,omitempty"`
}

// RunRanksInput runs the node's ranks; AttachActivity takes the same and goes on waiting for ranks that run already.
type RunRanksInput struct {
	Protocol      int    `json:"protocol"`
	Generation    int    `json:"generation"`
	Node          int    `json:"node"`
	Nodes         int    `json:"nodes"`
	MasterAddress string `json:"master_address"`
	MasterPort    int    `json:"master_port"`
	// Peers are the addresses of all nodes, each with the port that it found free.
	Peers []string `json:"peers,omitempty"`
}

// RanksEnded says how a node's ranks ended. An error of RunRanks instead is the user's (no such program, a missing output) or the node's.
type RanksEnded struct {
	// Ranks is how many there are on the node, and Local which of them the rest is said of: the first that failed, if any did.
	Ranks int `json:"ranks,omitempty"`
	Local int `json:"local,omitempty"`
	// Code is the exit code, -1 when a signal ended the rank; Signal that signal's number.
	Code   int `json:"code"`
	Signal int `json:"signal,omitempty"`
	// Stopped: the end followed a Stop or a cancel, and says nothing about the program.
	Stopped bool `json:"stopped,omitempty"`
	// NodeStopped: nobody but the agent asked for the end, when it was ended itself from outside.
	NodeStopped bool `json:"node_stopped,omitempty"`
	// OverMemory says why the rank was killed when it was for want of memory.
	OverMemory string `json:"over_memory,omitempty"`
	// Fault says which of the node's GPUs broke, and how; it explains whatever else went wrong.
	Fault string `json:"fault,omitempty"`
	// GPUs is what the node's GPUs did.
	GPUs *spec.GPUUse `json:"gpus,omitempty"`
	// Hung: the ranks made no progress and were killed for it. HungWhy says since when.
	Hung    bool      `json:"hung,omitempty"`
	HungWhy string    `json:"hung_why,omitempty"`
	EndedAt time.Time `json:"ended_at"`
	// SaidAt is when the rank last printed something; zero when it never did.
	SaidAt time.Time `json:"said_at,omitzero"`
	// Step is the last one reported, Of how many make the whole job, where the script says it, and CommittedStep that of the newest
	// committed checkpoint. Node 0 only.
	Step          int64 `json:"step,omitempty"`
	Of            int64 `json:"of,omitempty"`
	CommittedStep int64 `json:"committed_step,omitempty"`
	// Began is the first step that the ranks reported; nil if they reported none. Node 0 only.
	Began *int64 `json:"began,omitempty"`
	// Work is how long the slowest of the node's ranks worked on a step; nil unless the script says it.
	Work *StepWork `json:"work,omitempty"`
	// CommitError says why the last checkpoint could not be committed. Node 0 only.
	CommitError string `json:"commit_error,omitempty"`
	// Unfinished says what the program lacks that exited with 0 before its last step, without being told to stop on this node: its
	// outputs. Whether a peer that was told had it leave early, or it is wrong, the agent cannot know. Node 0 only.
	Unfinished string `json:"unfinished,omitempty"`
	// Tail is the end of what the rank printed, when it failed.
	Tail string `json:"tail,omitempty"`
	// Last is the last line of it, which usually says why.
	Last string `json:"last,omitempty"`
	// Outputs are the declared outputs, and Metrics the blob of all metrics lines, when it finished. Node 0 only.
	Outputs spec.Values `json:"outputs,omitempty"`
	Metrics string      `json:"metrics,omitempty"`
}

// Short reports whether ranks that were told to stop had steps left, as far as anybody says how many there are: the step, or the script.
// Only node 0 knows how far they came.
func (e RanksEnded) Short(totalSteps int64) bool {
	last := cmp.Or(totalSteps, e.Of)
	return last == 0 || e.Step < last
}

// StopInput asks a node to end its ranks: SIGTERM, after Grace SIGKILL. The activity returns when they have gone; committing what
// they left is part of RunRanks.
type StopInput struct {
	Generation int           `json:"generation"`
	Grace      time.Duration `json:"grace"`
	// Over are the nodes that commit nothing more: they are gone, or their ranks have ended. A checkpoint of which they have not committed
	// their part will never be whole.
	Over []int `json:"over,omitempty"`
}
