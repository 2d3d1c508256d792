package contract

import (
	"cmp"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/checkpoint"
)

// AgentProtocol numbers what workers and node agents say to each other. An agent refuses another number than its own.
const AgentProtocol = 2

// Activity types of a train step on a worker. PlanActivity and DecideActivity run as local activities.
const (
	PlanActivity    = "sluice.train.plan"
	SealActivity    = "sluice.train.seal"
	AcquireActivity = "sluice.train.acquire"
	WatchActivity   = "sluice.train.watch"
	ReleaseActivity = "sluice.train.release"
	CollectActivity = "sluice.train.collect"
	DecideActivity  = "sluice.train.decide"
)

// Activity types of a node's agent, on the node's own task queue.
const (
	PrepareActivity  = "sluice.node.prepare"
	RunRanksActivity = "sluice.node.run_ranks"
	AttachActivity   = "sluice.node.attach"
	StopActivity     = "sluice.node.stop"
)

// NoticeSignal is sent by an agent to its train workflow, any number of times, when its node is to be left.
const NoticeSignal = "sluice.notice"

// Notice is what it says.
type Notice struct {
	Generation int       `json:"generation"`
	Node       int       `json:"node"`
	Until      time.Time `json:"until"` // the node may be gone from then on; only where it has been told that it will go
	// Cause is why: empty when the node has been told that it will go, CauseFault or CauseIdle. Reason says more of these, in one line.
	Cause  string `json:"cause,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Why a node is to be left, other than that it will go.
const (
	CauseFault = "gpu_fault" // one of its GPUs cannot be relied on until it has been reset
	CauseIdle  = "gpu_idle"  // its GPUs are hardly used, and the step says to release them then
)

// TrainInput starts a train workflow. It retries by itself, since the next try goes on from the last checkpoint.
type TrainInput struct {
	record.StepInput
	Retry spec.Retry `json:"retry,omitzero"`
	// Timeout bounds one attempt; generations that end by preemption belong to the same attempt. 0: none.
	Timeout spec.Duration `json:"timeout,omitempty"`
	// BudgetUSD is what the step may cost; 0: any sum.
	BudgetUSD float64 `json:"budget_usd,omitempty"`
	// Unheard: nobody listens to what the training tells of itself, for it is an instance in a lane.
	Unheard bool `json:"unheard,omitempty"`
	// Carried is what an earlier run of the workflow hands over when its history has become long.
	Carried TrainCarried `json:"carried,omitzero"`
}

// TrainCarried is the state of a train workflow between two generations.
type TrainCarried struct {
	Generations []spec.Generation `json:"generations,omitempty"`
	// Failures counts ends that were charged to the step's retries.
	Failures int `json:"failures,omitempty"`
	// FalseStarts counts the gangs that were lost in a row before their ranks ran.
	FalseStarts int `json:"false_starts,omitempty"`
	// Avoid are the machines, by Node.Machine, on which a GPU broke: the newest.
	Avoid []string `json:"avoid,omitempty"`
	// Unusable are checkpoints that could not be resumed from.
	Unusable []artifact.Ref `json:"unusable,omitempty"`
	// BeganAt is when the step began, AttemptAt when the attempt that is under way did.
	BeganAt   time.Time `json:"began_at,omitzero"`
	AttemptAt time.Time `json:"attempt_at,omitzero"`
	// Next is the gang of the next generation, when that was got while the one before it still ran.
	Next *Acquired `json:"next,omitempty"`
}

// PlanInput asks what gang a step needs, and by when it has to be done.
type PlanInput struct {
	record.StepInput
	// BeganAt is when the step began.
	BeganAt time.Time `json:"began_at"`
}

// TrainPlan is the part of the step's spec and its environment that the workflow acts on.
type TrainPlan struct {
	MinNodes int `json:"min_nodes"`
	MaxNodes int `json:"max_nodes"`
	// Offers are what may be bought, the preferred first.
	Offers []Offer `json:"offers"`
	// Resources are those of the step.
	Resources spec.Resources `json:"resources,omitzero"`
	// Keep is how many of its checkpoints stay in the store.
	Keep int `json:"keep,omitempty"`
	// Deadline is when it has to be done; zero: at no time. StopOnMiss ends a training that is not done then.
	Deadline   time.Time `json:"deadline,omitzero"`
	StopOnMiss bool      `json:"stop_on_miss,omitempty"`
	TotalSteps int64     `json:"total_steps,omitempty"`
}

// Offer is one thing that may be bought: one capacity of one pool.
type Offer struct {
	Pool     string `json:"pool"`
	Capacity string `json:"capacity"`
	// USDPerHour is the price of a node. It is 0 where nodes cost nothing, and with PriceUnknown, where nobody says what they cost.
	USDPerHour   float64 `json:"usd_per_hour,omitempty"`
	PriceUnknown bool    `json:"price_unknown,omitempty"`
	// Image is the container image of the ranks there.
	Image string `json:"image,omitempty"`
}

// DecideInput asks which of the offers to ask for now.
type DecideInput struct {
	training.Key
	TrainPlan
	BeganAt time.Time `json:"began_at"`
	Now     time.Time `json:"now"`
	// Ended are the generations before.
	Ended []spec.Generation `json:"ended,omitempty"`
	// Current is the generation for which a gang is sought; or, where Capacity is set, the one that runs on that.
	Current spec.Generation `json:"current"`
}

// Choice is what to ask for now.
type Choice struct {
	// Offers are those to ask for, the preferred first. While a gang runs: those to leave it for.
	Offers []Offer `json:"offers,omitempty"`
	// Review is after what time to choose again, when none of them is to be had before; 0: there is no such time.
	Review time.Duration `json:"review,omitempty"`
	// Tick is how often to ask.
	Tick time.Duration `json:"tick"`
	// Waits: on-demand could be had, and is not asked for yet.
	Waits bool `json:"waits,omitempty"`
}

// SealInput opens a generation.
type SealInput struct {
	training.Key
	Unusable []artifact.Ref `json:"unusable,omitempty"`
}

// SealOutput says what the generation resumes from, and how far the one before it is known to have come; it came exactly so far where
// the worker could read what its ranks wrote.
type SealOutput struct {
	Seal    checkpoint.Seal `json:"seal"`
	Reached int64           `json:"reached"`
	Exact   bool            `json:"exact,omitempty"`
}

// AcquireInput asks for a gang, of the first of the offers that there is; the activity returns an Acquired.
type AcquireInput struct {
	Submission string  `json:"submission"`
	Offers     []Offer `json:"offers"`
	// Pools are all that may have been asked for this gang before. What those keep for it that do not give it now is given up.
	Pools []string `json:"pools"`
	// Patience is how long to go on asking, and Tick how often at least.
	Patience time.Duration `json:"patience"`
	Tick     time.Duration `json:"tick"`
	// Request is what is asked for of each; the offer completes it.
	Request training.Request `json:"request"`
}

// Acquired is a gang, what was bought, and when it was asked for: it costs from then on.
type Acquired struct {
	At    time.Time     `json:"at"`
	Gang  training.Gang `json:"gang"`
	Offer Offer         `json:"offer"`
}

// GangInput names a gang, for Watch (which returns a training.Loss).
type GangInput struct {
	Pool       string       `json:"pool"`
	Submission string       `json:"submission"`
	Key        training.Key `json:"key"`
	// Keep is how many checkpoints are to stay in the store, while the gang is watched.
	Keep int `json:"keep,omitempty"`
	// Gang is what is watched, for metrics; empty in a workflow of an earlier build.
	Gang training.Gang `json:"gang,omitzero"`
}

// ReleaseInput gives a gang back, in whichever of the pools it is.
type ReleaseInput struct {
	Pools      []string     `json:"pools"`
	Submission string       `json:"submission"`
	Key        training.Key `json:"key"`
}

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

// RanksEnded says how a node's ranks ended. An error of RunRanks in its place is the user's (no such program, a missing output) or
// the node's.
type RanksEnded struct {
	// Ranks is how many there are on the node, and Local which of them the rest is said of: the first that failed, if any did.
	Ranks int `json:"ranks,omitempty"`
	Local int `json:"local,omitempty"`
	// Code is the exit code, -1 when a signal ended the rank; Signal that signal's number.
	Code   int `json:"code"`
	Signal int `json:"signal,omitempty"`
	// Stopped: the end followed a Stop or a cancel, and says nothing about the program.
	Stopped bool `json:"stopped,omitempty"`
	// OverMemory says why the rank was killed when it was for want of memory.
	OverMemory string `json:"over_memory,omitempty"`
	// Fault says which of the node's GPUs broke, and how; it explains whatever else went wrong.
	Fault string `json:"fault,omitempty"`
	// GPUs is what the node's GPUs did.
	GPUs *spec.GPUUse `json:"gpus,omitempty"`
	// Hung: no step was reported for far longer than usual, and the rank was killed.
	Hung    bool      `json:"hung,omitempty"`
	EndedAt time.Time `json:"ended_at"`
	// SaidAt is when the rank last printed something; zero when it never did.
	SaidAt time.Time `json:"said_at,omitzero"`
	// Step is the last one reported, Of how many make the whole job, where the script says it, and CommittedStep that of the newest
	// committed checkpoint. Node 0 only.
	Step          int64 `json:"step,omitempty"`
	Of            int64 `json:"of,omitempty"`
	CommittedStep int64 `json:"committed_step,omitempty"`
	// CommitError says why the last checkpoint could not be committed. Node 0 only.
	CommitError string `json:"commit_error,omitempty"`
	// Unfinished says what the program lacks that exited with 0 before its last step, without being told to stop on this node: its
	// outputs. Whether a peer that was told had it leave early, or it is wrong, the agent cannot know. Node 0 only.
	Unfinished string `json:"unfinished,omitempty"`
	// Tail is the end of what the rank printed, when it failed.
	Tail string `json:"tail,omitempty"`
	// Outputs are the declared outputs, and Metrics the blob of all metrics lines, when it finished. Node 0 only.
	Outputs map[string]any `json:"outputs,omitempty"`
	Metrics string         `json:"metrics,omitempty"`
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
}

// CollectInput turns the end of a training into the step's result; the activity returns a StepOutput.
type CollectInput struct {
	record.StepInput
	Generations []spec.Generation `json:"generations"`
	Outputs     map[string]any    `json:"outputs"`
	Metrics     string            `json:"metrics"`
	// Late: the deadline had passed.
	Late bool `json:"late,omitempty"`
}
