package gpu

import (
	"slices"
	"strconv"
	"strings"
)

// VisibleVariable is the variable by which CUDA is told which GPUs a program may use.
const VisibleVariable = "CUDA_VISIBLE_DEVICES"

// Entries are those of a value of VisibleVariable. As in CUDA, -1 ends the list, and so does an empty one, so that an empty value has none.
func Entries(value string) (entries []string) {
	for entry := range strings.SplitSeq(value, ",") {
		if entry = strings.TrimSpace(entry); entry == "" || entry == "-1" {
			break
		}
		entries = append(entries, entry)
	}
	return entries
}

// Visible returns the units that a value of VisibleVariable leaves. As in CUDA, an entry is a number or the beginning of a UUID, and the first
// that names nothing ends the list, so that an empty value leaves none. Numbers are those of the driver, in the order of the bus; that of a
// GPU in MIG mode is its first instance.
func Visible(units []Unit, value string) []Unit {
	var visible []Unit
	for _, entry := range Entries(value) {
		n, err := strconv.Atoi(entry)
		i := slices.IndexFunc(units, func(u Unit) bool {
			return err == nil && u.GPU == n || err != nil && strings.HasPrefix(u.UUID, entry)
		})
		if i < 0 {
			break
		}
		visible = append(visible, units[i])
	}
	return visible
}
