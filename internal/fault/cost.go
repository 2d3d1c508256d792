package fault

import "encoding/json"

// Costs is what something has cost, as far as prices are known.
type Costs struct {
	USD float64 `json:"cost_usd"`
	// Unknown: of a part of it nobody knows the price, and USD is without that.
	Unknown bool `json:"cost_unknown,omitempty"`
}

// Add adds up.
func (c Costs) Add(more Costs) Costs {
	return Costs{USD: c.USD + more.USD, Unknown: c.Unknown || more.Unknown}
}

// WithCost is the error of a training or a child run that did not succeed, with what it has cost until then, for the ledger of the run
// above.
func WithCost(err error, cost Costs) error {
	spent, unwritable := json.Marshal(cost)
	if unwritable != nil {
		return err
	}
	return Carry(err, spent)
}

// Carry is the error of what did not succeed, with JSON that is worth keeping of it. A cancel stays one.
func Carry(err error, outputs []byte) error {
	e := &Error{Type: TypeOf(err), Message: Message(err), Final: true, Outputs: outputs}
	if end, ok := canceled(err).(error); ok {
		e.Message, e.cause = "canceled", end
	}
	return e
}

// CostOf returns what WithCost kept, or nothing.
func CostOf(err error) Costs {
	var kept Costs
	if json.Unmarshal(Outputs(err), &kept) != nil {
		return Costs{}
	}
	return kept
}
