package spec

import (
	"maps"
	"slices"
	"time"

	"github.com/sluiceml/sluice/internal/artifact"
)

// Train runs the user's training script on a gang of nodes that may be reclaimed at any moment.
type Train struct {
	Command
	// Metrics are the names of the metrics that the script reports in $SLUICE_METRICS; an expression that reads any other name is a lint
	// error. A name that is not an identifier, such as val/acc, is read as metrics["val/acc"].
	Metrics []string `json:"metrics,omitempty" dsl:"literal,metrics"`
	// TotalSteps is the number of training steps of the whole job; the script may also report it as "of".
	TotalSteps int64 `json:"total_steps,omitempty" dsl:"min=1"`
	Placement
	// Nodes is the size of the gang.
	Nodes Nodes `json:"nodes,omitzero"`
	// Launcher is how the ranks of a node are started. With env, the default, the command is the only rank of the node.
	Launcher string `json:"launcher,omitempty" dsl:"literal,default=env,enum=env|torchrun|mpi|tensorflow"`
	// ResumeFrom is the checkpoint that the training starts from: the name of one of any run as `sluice checkpoint ls` shows it, RUN/STEP@1200,
	// or RUN/STEP for the newest of that step; or its digest. Default: none.
	ResumeFrom string `json:"resume_from,omitempty"`
	// Checkpoint is the layout and the interval of checkpoints, and how many are kept.
	Checkpoint CheckpointSpec `json:"checkpoint,omitzero"`
	// Hang is when ranks that make no progress count as hung, and what happens then.
	Hang *Hang `json:"hang,omitempty"`
	// Deadline is when the training must be finished. Sluice chooses the cheapest capacity that meets the deadline. It needs total_steps.
	Deadline *Deadline `json:"deadline,omitempty"`
}

// Nodes is the size of a gang: a number, or {min, max}.
type Nodes struct {
	// Min is the smallest gang that trains.
	Min int `json:"min,omitempty" dsl:"default=1,min=1"`
	// Max is the largest. Default: min.
	Max int `json:"max,omitempty" dsl:"min=1"`
}

// Hang is when ranks that make no progress count as hung. Progress is a new step in the metrics, output of the ranks, and a file that is
// written in the folder of the checkpoints or that of the outputs.
type Hang struct {
	// After is the time without progress after which the ranks are hung. Default: 30 times the usual time between two steps, but at least 10m.
	After Duration `json:"after,omitempty"`
	// Startup is the same until the first step. Default: 1h if the step declares metrics or total_steps; else no limit.
	Startup Duration `json:"startup,omitempty"`
	// Action is what happens then: restart (default), which logs the stacks of the Python processes, kills the ranks and resumes from the last
	// checkpoint, at the cost of a retry; warn, or ignore.
	Action string `json:"action,omitempty" dsl:"default=restart,enum=restart|warn|ignore"`
}

// What happens to a training that hangs.
const (
	HangRestart = "restart"
	HangWarn    = "warn"
	HangIgnore  = "ignore"
)

// Deadline is when a training has to be done: within a time from its start, or at a time of day.
type Deadline struct {
	// Within is the maximum time from the start of the step.
	Within Duration `json:"within,omitempty"`
	// At is the time of day, "07:00": the first one after the start of the step.
	At string `json:"at,omitempty"`
	// Timezone of at, such as Europe/Berlin. Default UTC.
	Timezone string `json:"timezone,omitempty"`
	// Work is how long the whole training takes on on-demand, as an estimate from above. It is used until the pace has been measured.
	// Without it, a training begins on on-demand.
	Work Duration `json:"work,omitempty"`
	// OnMiss is what happens if the training is not finished by then: continue (default), or stop, which fails the step and keeps its last
	// checkpoint.
	OnMiss string `json:"on_miss,omitempty" dsl:"default=continue,enum=continue|stop"`
}

// CheckpointSpec says how a training step's checkpoints are handled.
type CheckpointSpec struct {
	// Layout is the format of a checkpoint on disk: folder, a folder step-N that is created by a rename; sharded, such a folder on every node,
	// each with its part of the checkpoint; huggingface, the Trainer's checkpoint-N; lightning, the .ckpt files of ModelCheckpoint.
	Layout string `json:"layout,omitempty" dsl:"default=folder,enum=folder|sharded|huggingface|lightning"`
	// Reshard says that the program can resume from a sharded checkpoint on another number of nodes than wrote it, as
	// torch.distributed.checkpoint can.
	Reshard bool `json:"reshard,omitempty"`
	// Every is the recommended interval between checkpoints, which the script gets in $SLUICE_CHECKPOINT_EVERY. Default 30s.
	Every Duration `json:"every,omitempty" dsl:"default=30s"`
	// Keep is the number of committed checkpoints that are kept in the store. Default 3.
	Keep int `json:"keep,omitempty" dsl:"default=3,min=1"`
}

// FixedSize reports whether only as many nodes as wrote a checkpoint can resume from it.
func (c CheckpointSpec) FixedSize() bool { return c.Layout == LayoutSharded && !c.Reshard }

// TrainOutput is what a train step hands on, beside its declared outputs.
type TrainOutput struct {
	// Metrics holds the last value reported of each declared metric.
	Metrics map[string]float64 `json:"metrics"`
	// Steps is the number of training steps the finished model has seen.
	Steps int64 `json:"steps_done"`
	// StepsLost counts steps that were done and not in the checkpoint the next generation resumed from. A step is done when its line is in
	// $SLUICE_METRICS.
	StepsLost int64 `json:"steps_lost"`
	// StepsRepeated counts steps that were done a second time.
	StepsRepeated int64 `json:"steps_repeated"`
	// StepsAtLeast: the last lines of a node that was lost could not be read, so that steps of its last second may be missing from
	// StepsLost and StepsRepeated.
	StepsAtLeast bool `json:"steps_at_least"`
	// Generations are the lives of the gang, in order.
	Generations []Generation `json:"generations"`
	// Curve is the loss curve, one point per reported step, thinned to at most 1,000 points: an artifact-free blob digest.
	Curve string `json:"curve,omitempty"`
	// Late: it was done after its deadline.
	Late bool `json:"late"`
	// Ledger is what was bought, by pool, capacity and how the generations ended. Nodes that no generation ran on have a line of their own.
	Ledger []LedgerLine `json:"ledger"`
	// Ledger totals.
	NodeSeconds float64 `json:"node_seconds" dsl:"min=0"`
	CostUSD     float64 `json:"cost_usd" dsl:"min=0"`
	// CostUnknown: nobody says what some of the nodes cost, and cost_usd has no value.
	CostUnknown bool `json:"cost_unknown"`
	// Outcomes is what came of the node time.
	Outcomes Outcomes `json:"outcomes"`
	// Costs is the node time and its cost by pool, type, zone, capacity and outcome.
	Costs []CostLine `json:"costs"`
	// Nodes is the ledger of each node: the digest of a blob, a JSON list with one NodeCost for each node, generation and outcome.
	Nodes string `json:"nodes,omitempty"`
}

// GenerationEnd says how a generation of a gang ended.
type GenerationEnd string

// How a generation may end. Only crashed, hung and user errors count against the step's retries.
const (
	EndFinished  GenerationEnd = "finished"
	EndNotice    GenerationEnd = "notice"    // stopped on a spot notice, after a committed checkpoint
	EndNodeLost  GenerationEnd = "node_lost" // a node went away without notice or before the stop was done
	EndCrashed   GenerationEnd = "crashed"   // a rank was killed by a signal
	EndHung      GenerationEnd = "hung"
	EndUserError GenerationEnd = "user_error" // a rank exited with a status of its own
	EndTimeout   GenerationEnd = "timeout"    // the attempt took longer than the step's timeout
	EndCanceled  GenerationEnd = "canceled"
	EndBudget    GenerationEnd = "budget"   // the run has cost what it may
	EndMoved     GenerationEnd = "moved"    // left for capacity that is cheaper
	EndDeadline  GenerationEnd = "deadline" // the step's deadline has passed, and it is to stop then
	EndIdle      GenerationEnd = "idle"     // its GPUs were hardly used, and the step says to release them then
	// EndDamaged: the checkpoint that it was to resume from is damaged, or not all there; the next generation takes the one before. No node
	// was lost, and nothing failed that would use up a retry.
	EndDamaged GenerationEnd = "checkpoint_damaged"
	// EndNeverStarted is not the end of a generation: in a ledger it says of nodes that there was none on them.
	EndNeverStarted GenerationEnd = "never_started"
)

// Generation is one life of a gang.
type Generation struct {
	Index int           `json:"index"` // from 1
	Nodes int           `json:"nodes"`
	End   GenerationEnd `json:"end"`
	// Gang is the generation that its nodes were acquired for, if it went on with those of an earlier one.
	Gang int `json:"gang,omitempty"`
	// Pool and Capacity are what was bought, at USDPerHour for each node; CostUSD is what that came to.
	Pool       string  `json:"pool,omitempty"`
	Capacity   string  `json:"capacity,omitempty"`
	USDPerHour float64 `json:"usd_per_hour,omitempty"`
	CostUSD    float64 `json:"cost_usd,omitempty"`
	// PriceUnknown: nobody says what its nodes cost, so it is not in CostUSD.
	PriceUnknown bool `json:"price_unknown,omitempty"`
	// FromStep is the step of the checkpoint it resumed from (0: none); ToStep the last step it reported;
	// CommittedStep the newest committed checkpoint when it ended.
	FromStep      int64 `json:"from_step"`
	ToStep        int64 `json:"to_step"`
	CommittedStep int64 `json:"committed_step"`
	StepsLost     int64 `json:"steps_lost"`
	// NotResumed: it was given a checkpoint, and the first step it reported was not after that one's: the script did not resume. FromStep is
	// then the step before its first.
	NotResumed bool `json:"not_resumed,omitempty"`
	// StepsAtLeast: it may have come further than ToStep, and lost more than StepsLost; what its ranks wrote last went with the node.
	StepsAtLeast bool      `json:"steps_at_least,omitempty"`
	StartedAt    time.Time `json:"started_at"`
	EndedAt      time.Time `json:"ended_at"`
	// RanAt is when its ranks were started, and StoppedAt when they had ended or were told to; left out if they never ran.
	RanAt     time.Time `json:"ran_at,omitzero"`
	StoppedAt time.Time `json:"stopped_at,omitzero"`
	// Reason is one line for people: which node or rank, what was seen.
	Reason string `json:"reason,omitempty"`
	// Slow names the node that the others waited for, if one worked much longer on a step and its script says so: one line.
	Slow string `json:"slow,omitempty"`
	// GPUs is what the GPUs of its nodes did, as far as the nodes could say when it ended.
	GPUs GPUUse `json:"gpus,omitzero"`
	// Checkpoint it resumed from: a record of it, and no artifact that a step could be given, since checkpoints are removed as
	// newer ones replace them.
	Checkpoint artifact.Ref `json:"checkpoint,omitzero" dsl:"artifact=past checkpoint"`
}

// GPUUse is what the GPUs of a generation did.
type GPUUse struct {
	// Count is how many there were, and Model what the last of them is.
	Count int    `json:"count"`
	Model string `json:"model,omitempty"`
	// Utilization is the share of time in which they computed, on average. UtilizationUnknown: the driver does not say, as of MIG instances.
	Utilization        float64 `json:"utilization"`
	UtilizationUnknown bool    `json:"utilization_unknown,omitempty"`
	// Memory is what the largest has, and MemoryPeak the most that was used of one, in bytes.
	Memory     int64 `json:"memory,omitempty"`
	MemoryPeak int64 `json:"memory_peak,omitempty"`
	// TemperatureMax is that of the hottest, in degrees Celsius, and PowerMean the average of one, in watts.
	TemperatureMax int     `json:"temperature_max,omitempty"`
	PowerMean      float64 `json:"power_mean,omitempty"`
	// Throttled is the share of time in which they were slowed down, by heat, by a limit of power or by another GPU.
	Throttled float64 `json:"throttled,omitempty"`
	// ECCUncorrected counts errors of their memory that could not be corrected.
	ECCUncorrected int64 `json:"ecc_uncorrected,omitempty"`
	// IdleSeconds is for how long they were idle, by the step's resources.idle, on the node where they were longest.
	IdleSeconds float64 `json:"idle_seconds,omitempty"`
	// Events are errors that the driver reported, one line each.
	Events []string `json:"events,omitempty"`
}

// Complete fills what the document may leave out and the environment or the rest of the spec says.
func (spec *Train) Complete(env *Environment) {
	if len(spec.Pool) == 0 && len(env.Pools) == 1 {
		spec.Pool = slices.Collect(maps.Keys(env.Pools))
	}
	spec.Nodes.Max = max(spec.Nodes.Max, spec.Nodes.Min)
}

// What happens to a training that is not done by its deadline.
const (
	OnMissContinue = "continue"
	OnMissStop     = "stop"
)

// Clock is how a deadline's time of day is written.
const Clock = "15:04"

// How the ranks of a node are started.
const (
	LauncherEnv        = "env"
	LauncherTorchrun   = "torchrun"
	LauncherMPI        = "mpi"
	LauncherTensorFlow = "tensorflow"
)

// What a checkpoint looks like on disk.
const (
	LayoutFolder      = "folder"
	LayoutSharded     = "sharded"
	LayoutHuggingFace = "huggingface"
	LayoutLightning   = "lightning"
)
