package dsl

import (
	"encoding/json"

	"github.com/sluiceml/sluice/store/artifact"
)

// Clean is a Beam pipeline over rows. Its names are Beam YAML's where Beam YAML has them.
type Clean struct {
	// Inputs are artifacts; ${inputs.NAME.path} in a read transform is the folder they are brought to.
	Inputs map[string]artifact.Ref `json:"inputs,omitempty"`
	// Transforms form a chain, from one ReadFrom* to one WriteTo*.
	Transforms []Transform `json:"transforms"`
}

// Kind implements Spec.
func (*Clean) Kind() Kind { return KindClean }

// Transform is one stage of a cleaning chain.
type Transform struct {
	// Type is the transform's name; see the transform specs.
	Type string `json:"type"`
	// Name labels it in rules and errors. Default: the type.
	Name string `json:"name,omitempty"`
	// Config is checked against the type's own spec struct.
	Config json.RawMessage `json:"config,omitempty"`
}

// CleanOutput is what a clean step hands on.
type CleanOutput struct {
	Dataset artifact.Ref `json:"dataset"`
	Rows    Rows         `json:"rows"`
	// Rules counts what each named rule dropped.
	Rules map[string]Rule `json:"rules"`
	// Rejected counts rows by the reason they were rejected for.
	Reasons map[string]int64 `json:"reasons"`
	// Splits counts rows per split.
	Splits map[string]int64 `json:"splits"`
	// DeadLetter holds the rejected rows; zero when there are none.
	DeadLetter artifact.Ref `json:"dead_letter,omitzero"`
}

// Rows is the account of a cleaning: Read = Kept + Dropped + Rejected, or the step fails.
type Rows struct {
	Read     int64 `json:"read"`
	Kept     int64 `json:"kept"`
	Dropped  int64 `json:"dropped"`
	Rejected int64 `json:"rejected"`
}

// Rule is one named rule's effect.
type Rule struct {
	Dropped int64 `json:"dropped"`
}
