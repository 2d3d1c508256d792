package contract

import (
	"cmp"
	"strconv"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
)

// LaneWorkflowID is the workflow ID of one of the lanes that a fanned-out step's instances run in.
func LaneWorkflowID(run, step string, lane int) string {
	return "lane/" + run + "/" + step + "/" + strconv.Itoa(lane)
}

// DrainSignal asks a lane to start no further instances.
const DrainSignal = "sluice.drain"

// LaneInput is a share of a step's instances, done side by side up to Window of them.
type LaneInput struct {
	ResolveInput
	Pipeline string    `json:"pipeline"`
	Node     spec.Node `json:"node"`
	// List is the blob of all instances.
	List string `json:"list,omitempty"`
	// Next up to To are the instances left to do; Window how many may run at once.
	Next   int `json:"next"`
	To     int `json:"to"`
	Window int `json:"window"`
	// Left are instances before Next that were not done.
	Left []int `json:"left,omitempty"`
	// Tries are those of instances in Left that failed and are to be tried again, by instance.
	Tries map[int]Tries `json:"tries,omitempty"`
	// Allowed is how many instances may fail before no further one is started.
	Allowed int `json:"allowed"`
	// Done is what an earlier part of the lane's history did.
	Done LaneOutput `json:"done,omitzero"`
	// BudgetUSD is what is left of the run's budget; 0: any sum.
	BudgetUSD float64 `json:"budget_usd,omitempty"`
	// Every is how many instances must end before the lane tells its run of them; Untold have since it told at ToldAt.
	Every  int       `json:"every"`
	Untold int       `json:"untold,omitempty"`
	ToldAt time.Time `json:"told_at,omitzero"`
}

// LaneOutput counts ends.
type LaneOutput struct {
	Passed   int `json:"passed,omitempty"`
	Failed   int `json:"failed,omitempty"`
	Canceled int `json:"canceled,omitempty"`
	// LeftOut counts those that were not done: Reuse.Only leaves them out and there was nothing to take over, or what they read is absent.
	LeftOut int `json:"left_out,omitempty"`
	// LeftOutWhy is why the first of these was.
	LeftOutWhy string `json:"left_out_why,omitempty"`
	// Error and ErrorType of an instance that did not pass; Declined when its gate declined it. See Add.
	Error     string  `json:"error,omitempty"`
	ErrorType string  `json:"error_type,omitempty"`
	Declined  bool    `json:"declined,omitempty"`
	CostUSD   float64 `json:"cost_usd,omitempty"`
	// RolledBack is the error of the first instance whose rollout was taken back.
	RolledBack string `json:"rolled_back,omitempty"`
	// CostUnknown: of a part of it nobody knows the price, and CostUSD is without that.
	CostUnknown bool `json:"cost_unknown,omitempty"`
	// Satisfied: the repeated step's `until` held.
	Satisfied bool `json:"satisfied,omitempty"`
}

// Add returns the sum of two lanes' ends. The error is that of the highest rank in the table of ends, and of several the first.
func (o LaneOutput) Add(p LaneOutput) LaneOutput {
	o.Passed, o.Failed, o.Canceled, o.CostUSD = o.Passed+p.Passed, o.Failed+p.Failed, o.Canceled+p.Canceled, o.CostUSD+p.CostUSD
	o.CostUnknown = o.CostUnknown || p.CostUnknown
	o.LeftOut, o.LeftOutWhy = o.LeftOut+p.LeftOut, cmp.Or(o.LeftOutWhy, p.LeftOutWhy)
	o.Satisfied, o.RolledBack = o.Satisfied || p.Satisfied, cmp.Or(o.RolledBack, p.RolledBack)
	if o.Error == "" || p.Error != "" && p.rank() > o.rank() {
		o.Error, o.ErrorType, o.Declined = p.Error, p.ErrorType, p.Declined
	}
	return o
}

// Worst is how the step ends whose instances these are, when too many have not passed.
func (o LaneOutput) Worst() spec.Status {
	switch {
	case o.Declined:
		return spec.StatusDeclined
	case o.ErrorType == fault.TurnedAway:
		return spec.StatusSkipped
	}
	return spec.StatusFailed
}

func (o LaneOutput) rank() int {
	end, _ := spec.EndOf(o.Worst(), o.ErrorType)
	return end.Rank
}
