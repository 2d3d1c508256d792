package contract

import (
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/checkpoint"
	"github.com/sluiceml/sluice/training/ledger"
)

// Activity types of a train step on a worker. PlanActivity and DecideActivity run as local activities.
const (
	PlanActivity    = "sluice.train.plan"
	SealActivity    = "sluice.train.seal"
	AcquireActivity = "sluice.train.acquire"
	WatchActivity   = "sluice.train.watch"
	ReleaseActivity = "sluice.train.release"
	CollectActivity = "sluice.train.collect"
	AccountActivity = "sluice.train.account"
	DecideActivity  = "sluice.train.decide"
)

// TrainInput starts a train workflow, which handles retries itself because the next attempt resumes from the last checkpoint.
type TrainInput struct {
	record.StepInput
	Retry spec.Retry `json:"retry,omitzero"`
	// Timeout bounds one attempt; generations that end by preemption belong to the same attempt. 0: none.
	Timeout spec.Duration `json:"timeout,omitempty"`
	// BudgetUSD limits the cost of the step; 0 means no limit.
	BudgetUSD float64 `json:"budget_usd,omitempty"`
	// Unheard is set if nothing receives the training's reports, because it is an instance in a lane.
	Unheard bool `json:"unheard,omitempty"`
	// Continuation is what an earlier run of the workflow hands over when its history has become long.
	Continuation TrainContinuation `json:"carried,omitzero"`
}

// TrainContinuation is the state of a train workflow between two generations.
type TrainContinuation struct {
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
	// BlockedSince is since when no pool has given a gang though none lacks capacity; zero when that is not so.
	BlockedSince time.Time `json:"blocked_since,omitzero"`
	// Next is the gang of the next generation, when that was got while the one before it still ran, or is that of the one before it.
	Next *Acquired `json:"next,omitempty"`
	// Unstarted is what gangs have cost that were started for the next generation, and given back or lost before it began.
	Unstarted fault.Costs `json:"unstarted,omitzero"`
}

// PlanInput requests the gang that a step needs, and its deadline.
type PlanInput struct {
	record.StepInput
	// BeganAt is when the step began.
	BeganAt time.Time `json:"began_at"`
	// Resumes is set if the training continues that of an earlier run, so that less than its whole work is left.
	Resumes bool `json:"resumes,omitempty"`
	// Continues is set if the training is already running, and is no longer refused for a deadline that cannot be met.
	Continues bool `json:"continues,omitempty"`
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
	// Work is how long all steps take on on-demand, as the step says; 0: it does not.
	Work time.Duration `json:"work,omitempty"`
	// ResumeFrom is the checkpoint that the step names in resume_from.
	ResumeFrom *checkpoint.Manifest `json:"resume_from,omitempty"`
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
	// RetryFor is how long refusals of the pool that may pass are retried.
	RetryFor time.Duration `json:"retry_for,omitempty"`
	// StartWithin is how long nodes that the pool has may take at most from being asked for to being ready.
	StartWithin time.Duration `json:"start_within,omitempty"`
}

// DecideInput requests the choice of offers to ask for now.
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
	// SpotWithin is how long spot may take from being asked for to being ready; 0: as long as the pool allows.
	SpotWithin time.Duration `json:"spot_within,omitempty"`
}

// SealInput opens a generation.
type SealInput struct {
	training.Key
	// ResumeRun is the earlier run whose training of the step goes on; empty: none.
	ResumeRun string `json:"resume_run,omitempty"`
	// ResumeFrom is as in TrainPlan.
	ResumeFrom *checkpoint.Manifest `json:"resume_from,omitempty"`
	Unusable   []artifact.Ref       `json:"unusable,omitempty"`
}

// SealOutput says what the generation resumes from, and how far the previous one is known to have come; the latter is exact if the worker
// could read what the ranks wrote.
type SealOutput struct {
	Seal    checkpoint.Seal `json:"seal"`
	Reached int64           `json:"reached"`
	Exact   bool            `json:"exact,omitempty"`
	// Began is the first step that the previous generation is known to have reported; nil if it reported none.
	Began *int64 `json:"began,omitempty"`
}

// AcquireInput requests a gang from the first offer that is available; the activity returns an Acquired.
type AcquireInput struct {
	Submission string  `json:"submission"`
	Offers     []Offer `json:"offers"`
	// Pools are all that may have been asked for this gang before. What those keep for it that do not give it now is given up.
	Pools []string `json:"pools"`
	// Patience is how long to go on asking, and Tick how often at least.
	Patience time.Duration `json:"patience"`
	Tick     time.Duration `json:"tick"`
	// Waits and SpotWithin are as in Choice, and BlockedSince as the error before said.
	Waits        bool          `json:"waits,omitempty"`
	SpotWithin   time.Duration `json:"spot_within,omitempty"`
	BlockedSince time.Time     `json:"blocked_since,omitzero"`
	// Request is what is asked for of each; the offer completes it.
	Request training.Request `json:"request"`
}

// Blocked comes with an Acquire's error when the patience ended while every pool was away, or refused for a reason that may pass.
type Blocked struct {
	Since time.Time `json:"blocked_since"`
}

// Acquired is a gang, what was bought, and when it was asked for: it costs from then on.
type Acquired struct {
	At    time.Time     `json:"at"`
	Gang  training.Gang `json:"gang"`
	Offer Offer         `json:"offer"`
	// Generation is the one that the gang was acquired for, if that has ended and another goes on with it: the pool knows the gang by it.
	Generation int `json:"generation,omitempty"`
	// Before is what has been paid for already of what the pools know by the same generation: gangs that were started for it, and ended before
	// this one began; and where another generation goes on with this one, this one, too.
	Before fault.Costs `json:"before,omitzero"`
}

// GangInput names a gang, for Watch (which returns a training.Loss).
type GangInput struct {
	Pool       string       `json:"pool"`
	Submission string       `json:"submission"`
	Key        training.Key `json:"key"`
	// GangGeneration is the generation that the gang was acquired for; 0: that of Key.
	GangGeneration int `json:"gang_generation,omitempty"`
	// Keep is how many checkpoints are to stay in the store, while the gang is watched.
	Keep int `json:"keep,omitempty"`
	// Gang is what is watched, for metrics.
	Gang training.Gang `json:"gang,omitzero"`
}

// ReleaseInput gives a gang back, in whichever of the pools it is; the activity returns a Released.
type ReleaseInput struct {
	Pools      []string     `json:"pools"`
	Submission string       `json:"submission"`
	Key        training.Key `json:"key"`
	// Lost are nodes that were seen to be gone before.
	Lost ledger.Lost `json:"lost,omitzero"`
}

// Released is what the gangs of a released key have cost, those that never ran included.
type Released struct {
	Paid fault.Costs `json:"paid"`
}

// CollectInput turns the end of a training into the step's result; the activity returns a StepOutput.
type CollectInput struct {
	record.StepInput
	Generations []spec.Generation `json:"generations"`
	Outputs     spec.Values       `json:"outputs"`
	Metrics     string            `json:"metrics"`
	// Late: the deadline had passed.
	Late bool `json:"late,omitempty"`
}

// AccountInput asks for an account of a training that did not succeed; the activity returns a spec.TrainOutput.
type AccountInput struct {
	record.StepInput
	// Generations are those that have ended.
	Generations []spec.Generation `json:"generations"`
	// Unusable are checkpoints that could not be resumed from.
	Unusable []artifact.Ref `json:"unusable,omitempty"`
}
