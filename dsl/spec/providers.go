package spec

import "encoding/json"

// Providers are execution providers, of which the first that can be used is.
type Providers []string

// UnmarshalJSON takes one text for a list of one, as earlier versions wrote it.
func (p *Providers) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		*p = Providers{one}
		return nil
	}
	return json.Unmarshal(raw, (*[]string)(p))
}

// MarshalJSON writes a list of one as its text, so that a target is the same as an earlier version wrote it: neither does its gateway move, nor are its
// models tried again.
func (p Providers) MarshalJSON() ([]byte, error) {
	if len(p) == 1 {
		return json.Marshal(p[0])
	}
	return json.Marshal([]string(p))
}
