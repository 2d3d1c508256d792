package dsl

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/google/cel-go/cel"

	"github.com/sluiceml/sluice/store/artifact"
)

// Train runs the user's training script on a gang of nodes that may be reclaimed at any moment.
type Train struct {
	Command
	// Metrics are the names the script reports in $SLUICE_METRICS; any other name is a lint error.
	Metrics []string `json:"metrics,omitempty" dsl:"literal,names"`
	// TotalSteps is how many training steps make the whole job; the script may also report it as "of".
	TotalSteps int64 `json:"total_steps,omitempty" dsl:"min=1"`
	// Resources of each node.
	Resources Resources `json:"resources,omitzero"`
	// Nodes is the size of the gang.
	Nodes Nodes `json:"nodes,omitzero"`
	// Pool is where nodes come from, by name in the environment. Default: the only one there is.
	Pool string `json:"pool,omitempty" dsl:"literal"`
	// Checkpoint says how checkpoints are laid out, advised and kept.
	Checkpoint CheckpointSpec `json:"checkpoint,omitzero"`
}

// Kind implements Spec.
func (*Train) Kind() Kind { return KindTrain }

// Resources are what one node must have.
type Resources struct {
	// CPU is how many cores, such as 0.5 or 4. The local pool sets OMP_NUM_THREADS by it; it does not keep a process from using more.
	CPU float64 `json:"cpu,omitempty" dsl:"min=0"`
}

// Nodes is the size of a gang: a number, or {min, max}.
type Nodes struct {
	// Min is the smallest gang that trains.
	Min int `json:"min,omitempty" dsl:"default=1,min=1"`
	// Max is the largest. Default: min.
	Max int `json:"max,omitempty" dsl:"min=1"`
}

// CheckpointSpec says how a training step's checkpoints are handled.
type CheckpointSpec struct {
	// Every is advice to the script, in $SLUICE_CHECKPOINT_EVERY. Default 30s.
	Every Duration `json:"every,omitempty" dsl:"default=30s"`
}

// TrainOutput is what a train step hands on, beside its declared outputs.
type TrainOutput struct {
	// Metrics holds the last value reported of each declared metric.
	Metrics map[string]float64 `json:"metrics"`
	// Steps is the number of training steps the finished model has seen.
	Steps int64 `json:"steps_done"`
	// StepsLost counts steps that were done and not in the checkpoint the next generation resumed from.
	StepsLost int64 `json:"steps_lost"`
	// StepsRepeated counts steps that were done a second time.
	StepsRepeated int64 `json:"steps_repeated"`
	// Generations are the lives of the gang, in order.
	Generations []Generation `json:"generations"`
	// Curve is the loss curve, one point per reported step, thinned to at most 1,000 points: an artifact-free blob digest.
	Curve string `json:"curve,omitempty"`
	// Ledger totals.
	NodeSeconds float64 `json:"node_seconds"`
	CostUSD     float64 `json:"cost_usd"`
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
	EndBudget    GenerationEnd = "budget" // the run has cost what it may
)

// Generation is one life of a gang.
type Generation struct {
	Index int           `json:"index"` // from 1
	Nodes int           `json:"nodes"`
	End   GenerationEnd `json:"end"`
	// FromStep is the step of the checkpoint it resumed from (0: none); ToStep the last step it reported;
	// CommittedStep the newest committed checkpoint when it ended.
	FromStep      int64     `json:"from_step"`
	ToStep        int64     `json:"to_step"`
	CommittedStep int64     `json:"committed_step"`
	StepsLost     int64     `json:"steps_lost"`
	StartedAt     time.Time `json:"started_at"`
	EndedAt       time.Time `json:"ended_at"`
	// Reason is one line for people: which node or rank, what was seen.
	Reason string `json:"reason,omitempty"`
	// Checkpoint it resumed from.
	Checkpoint artifact.Ref `json:"checkpoint,omitzero" dsl:"artifact=checkpoint"`
}

var nodesType = reflect.TypeFor[Nodes]()

func (spec *Train) outputTypes(ts *typeSystem, id string) map[string]*cel.Type {
	fields := ts.structFields(reflect.TypeFor[TrainOutput]())
	fields["metrics"] = metricsType(ts, id, spec.Metrics)
	return declaredOutputs(fields, spec.Outputs)
}

func (spec *Train) check(c *checker, s *step) {
	requireCommand(c, s)
	spec.Command.check(c, s)
	if spec.Nodes.Max != 0 && spec.Nodes.Max < spec.Nodes.Min {
		c.src.errorf(placeOf(s.body, "nodes"), "range", "", "at most %d nodes are fewer than at least %d", spec.Nodes.Max, spec.Nodes.Min)
	}
	spec.checkPool(c, s)
}

func (spec *Train) checkPool(c *checker, s *step) {
	if c.env == nil {
		return
	}
	pools := slices.Sorted(maps.Keys(c.env.Pools))
	at := lookup(s.body, "pool")
	switch {
	case at == nil && len(pools) != 1:
		c.src.errorf(keyNode(s.node, string(KindTrain)), "pool", "write `pool: NAME`; "+suggest("", pools), "the environment `%s` has %s, and `%s` does not say which to use", c.env.Name, plural(len(pools), "pool"), s.ID)
		return
	case at == nil:
		spec.Pool = pools[0]
	case !slices.Contains(pools, spec.Pool):
		if spec.Pool != "" {
			c.src.errorf(at, "pool", suggest(spec.Pool, pools), "the environment `%s` has no pool `%s`", c.env.Name, spec.Pool)
		}
		return
	}
	if local := c.env.Pools[spec.Pool].Local; local != nil && spec.Nodes.Min > local.Nodes {
		place := lookup(s.body, "nodes")
		if place == nil {
			place = keyNode(s.node, string(KindTrain))
		}
		c.src.errorf(place, "pool", "ask for fewer, or give the pool more `nodes`", "`%s` wants %s, and the pool `%s` has %d", s.ID, plural(spec.Nodes.Min, "node"), spec.Pool, local.Nodes)
	}
}

// complete fills what the document may leave out and the environment or the rest of the spec says.
func (spec *Train) complete(env *Environment) {
	if spec.Pool == "" && len(env.Pools) == 1 {
		for name := range env.Pools {
			spec.Pool = name
		}
	}
	spec.Nodes.Max = max(spec.Nodes.Max, spec.Nodes.Min)
}
