package spec

import (
	"slices"
	"time"
)

// Section is the part of the pipeline a step is in.
type Section string

// The sections run one after the other.
const (
	SectionMain      Section = ""           // under `steps`
	SectionOnFailure Section = "on_failure" // after the main steps, when one of them failed
	SectionFinally   Section = "finally"    // last, however the run went
)

// Sections are all of them, in the order they run.
var Sections = []Section{SectionMain, SectionOnFailure, SectionFinally}

// IsAfter reports whether a section starts when another has ended.
func (s Section) IsAfter(other Section) bool { return s.Rank() > other.Rank() }

// Rank is the section's place in time.
func (s Section) Rank() int { return slices.Index(Sections, s) }

// Fan says how many times a step runs.
type Fan string

// The ways a step runs more than once.
const (
	FanNone    Fan = ""
	FanMatrix  Fan = "matrix"
	FanForeach Fan = "foreach"
	FanRepeat  Fan = "repeat" // one iteration after the other
)

// DefaultParallel is how many instances of a step run at once when it does not say.
const DefaultParallel = 64

// DefaultTimeout bounds an attempt of a step that names no timeout, where its kind has one.
const DefaultTimeout = Duration(24 * time.Hour)

// DefaultTimeout is that of a kind: 0, for none, where what the step does has bounds of its own.
func (k Kind) DefaultTimeout() Duration {
	switch k {
	case KindPipeline, KindRollout, KindTrain, KindApproval:
		return 0
	default:
		return DefaultTimeout
	}
}

// Unset is a key that bounds a step and is left out, with what holds in its place.
type Unset struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Node is a step as the engine walks it. It is data: it travels in the workflow's input.
type Node struct {
	ID   string `json:"id"`
	Kind Kind   `json:"kind"`
	// OnPool: the step names pools, though its kind does without: it is done as a training of one node is.
	OnPool bool `json:"on_pool,omitempty"`
	// Section the step is in. Needs never cross sections: all of an earlier one has ended when a later one starts.
	Section Section `json:"section,omitempty"`
	// Needs are all steps it waits for, by explicit `needs` and by what its expressions read, with what it asks of each.
	Needs map[string]Need `json:"needs,omitempty"`
	// After lists the steps in Needs in a fixed order, so that workflow code need not range over a map.
	After   []string `json:"after,omitempty"`
	HasGate bool     `json:"has_gate,omitempty"`
	HasWhen bool     `json:"has_when,omitempty"`
	Retry   Retry    `json:"retry,omitzero"`
	Timeout Duration `json:"timeout,omitempty"`
	Fan     Fan      `json:"fan,omitempty"`
	// MaxParallel bounds the instances of a matrix or foreach that run at a time; 0 is DefaultParallel.
	MaxParallel int `json:"max_parallel,omitempty"`
	// Require is the share of instances that must pass: 1 unless the step says otherwise. Of matrix and foreach only.
	Require Share `json:"require,omitempty"`
	// Max is how often a repeat runs at most.
	Max             int  `json:"max,omitempty"`
	ContinueOnError bool `json:"continue_on_error,omitempty"`
}
