package dsl

// Node is a step as the engine walks it. It is data: it travels in the workflow's input.
type Node struct {
	ID   string `json:"id"`
	Kind Kind   `json:"kind"`
	// Needs are all steps it waits for, by explicit `needs` and by reference, with what it asks of each.
	Needs map[string]Need `json:"needs,omitempty"`
	// After lists the steps in Needs in a fixed order, so that workflow code need not range over a map.
	After   []string `json:"after,omitempty"`
	HasGate bool     `json:"has_gate,omitempty"`
	HasWhen bool     `json:"has_when,omitempty"`
	Retry   Retry    `json:"retry,omitzero"`
	Timeout Duration `json:"timeout,omitempty"`
}
