package spec

import (
	"encoding/json"
	"reflect"
)

// Paths are one pattern of files, or a list of them. A text with ${} in it is one of them and never stands for the list.
type Paths []string

// PathsType is the type of Paths.
var PathsType = reflect.TypeFor[Paths]()

// UnmarshalJSON takes one text for a list of one.
func (p *Paths) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		*p = Paths{one}
		return nil
	}
	return json.Unmarshal(raw, (*[]string)(p))
}
