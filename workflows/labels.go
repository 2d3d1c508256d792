package workflows

import "slices"

// maxLabel limits the names in one search attribute, in bytes of JSON. Temporal terminates a workflow that sets more than 2,048.
const maxLabel = 2000

// addLabel adds a name to the names by which a run can be found, and keeps the newest that fit. The records of the steps contain all of
// them.
func addLabel(names []string, name string) []string {
	names = append(slices.DeleteFunc(names, func(n string) bool { return n == name }), name)
	size := 1 // the brackets, less the last comma
	for i, n := range slices.Backward(names) {
		if size += len(n) + len(`"",`); size > maxLabel {
			return names[i+1:]
		}
	}
	return names
}
