package spec

import "time"

// Outcome says what came of the time of a node.
type Outcome string

// What may come of the time of a node, from when its pool began to pay for it until it was released or lost.
const (
	// OutcomeUseful is time in which steps were made that the model, or the last checkpoint of a training that did not finish, has.
	OutcomeUseful Outcome = "useful"
	// OutcomeLost is time in which steps were made that it has not: they were made again, or never.
	OutcomeLost Outcome = "lost"
	// OutcomeOverhead is the rest of the time of a node whose gang made steps: to boot, to fetch inputs, to restore the checkpoint, and to
	// stop.
	OutcomeOverhead Outcome = "overhead"
	// OutcomeNeverStarted is all the time of a node whose gang never ran: it failed to boot, or was given back.
	OutcomeNeverStarted Outcome = "never_started"
)

// Outcomes is what came of node time.
type Outcomes struct {
	Useful       Spent `json:"useful"`
	Lost         Spent `json:"lost"`
	Overhead     Spent `json:"overhead"`
	NeverStarted Spent `json:"never_started"`
}

// Spent is node time and what it cost. A cost that is not known is left out.
type Spent struct {
	NodeSeconds float64  `json:"node_seconds"`
	CostUSD     *float64 `json:"cost_usd,omitempty"`
}

// Add adds up. What is unknown of one is unknown of both.
func (s Spent) Add(more Spent) Spent {
	sum := Spent{NodeSeconds: s.NodeSeconds + more.NodeSeconds}
	if s.CostUSD != nil && more.CostUSD != nil {
		usd := *s.CostUSD + *more.CostUSD
		sum.CostUSD = &usd
	}
	return sum
}

// CostLine is the time of nodes that are alike.
type CostLine struct {
	Pool string `json:"pool"`
	// Type and Zone are those of the machines, where the pool knows them.
	Type     string  `json:"type,omitempty"`
	Zone     string  `json:"zone,omitempty"`
	Capacity string  `json:"capacity"`
	Outcome  Outcome `json:"outcome"`
	Spent
}

// NodeCost is what came of a part of a node's time in a generation, and what it cost.
type NodeCost struct {
	Node string `json:"node"`
	// Generation is the one that it was bought for, and of one that ran, the one that it ran.
	Generation int    `json:"generation"`
	Pool       string `json:"pool"`
	Type       string `json:"type,omitempty"`
	Zone       string `json:"zone,omitempty"`
	Capacity   string `json:"capacity"`
	// BeganAt and EndedAt are the node's time in the generation, and Seconds the part of it with the outcome.
	BeganAt time.Time `json:"began_at"`
	EndedAt time.Time `json:"ended_at"`
	Outcome Outcome   `json:"outcome"`
	Seconds float64   `json:"seconds"`
	// USDPerHour is the price of the node; CostUSD is left out where PriceUnknown says that nobody knows it.
	USDPerHour   float64  `json:"usd_per_hour,omitempty"`
	PriceUnknown bool     `json:"price_unknown,omitempty"`
	CostUSD      *float64 `json:"cost_usd,omitempty"`
}

// LedgerLine is one line of a training's ledger.
type LedgerLine struct {
	Pool        string        `json:"pool"`
	Capacity    string        `json:"capacity"`
	End         GenerationEnd `json:"end"`
	Generations int           `json:"generations"`
	NodeSeconds float64       `json:"node_seconds"`
	CostUSD     float64       `json:"cost_usd"`
}
