package artifact

import (
	"encoding/json"
	"strconv"
	"strings"
)

// In returns the artifacts in a value out of JSON, at any depth, each by its path as expressions write it: selected.model, parts[0]. The path of the
// value itself is empty.
func In(raw json.RawMessage) map[string]Ref {
	found := map[string]Ref{}
	collect(raw, "", found)
	return found
}

func collect(raw json.RawMessage, path string, found map[string]Ref) {
	var ref Ref
	var fields map[string]json.RawMessage
	var items []json.RawMessage
	switch {
	case json.Unmarshal(raw, &ref) == nil && ref.Digest != "" && ref.Type != "":
		found[path] = ref
	case json.Unmarshal(raw, &fields) == nil:
		for name, field := range fields {
			collect(field, strings.TrimPrefix(path+"."+name, "."), found)
		}
	case json.Unmarshal(raw, &items) == nil:
		for i, item := range items {
			collect(item, path+"["+strconv.Itoa(i)+"]", found)
		}
	}
}
