package offload

import (
	"maps"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/secret"
)

// RefuseSecrets is an error where rows or programs have brought a secret into what everyone can read of a cleaning. Counts tell nothing, and
// the names of splits and profiles are in the document.
func RefuseSecrets(out spec.CleanOutput, mask *secret.Mask) error {
	for _, named := range []struct {
		what  string
		names []string
	}{{"rule", slices.Sorted(maps.Keys(out.Rules))}, {"reason", slices.Sorted(maps.Keys(out.Reasons))}} {
		if at := slices.IndexFunc(named.names, mask.In); at >= 0 {
			return told("the "+named.what, named.names[at], mask)
		}
	}
	profiles := []spec.Profile{out.Profile}
	for _, name := range slices.Sorted(maps.Keys(out.Profiles)) {
		profiles = append(profiles, out.Profiles[name])
	}
	for _, p := range profiles {
		for _, name := range slices.Sorted(maps.Keys(p.Columns)) {
			switch column := p.Columns[name]; {
			case mask.In(name):
				return told("the name of the field", name, mask)
			case holds(column, mask):
				return told("a value in the profile of the field", name, mask)
			}
		}
	}
	return nil
}

// holds reports whether one of the values that a column is described by is a secret, or has one in it.
func holds(c spec.ColumnProfile, mask *secret.Mask) bool {
	extreme := func(v *float64) bool { return v != nil && mask.Holds(*v) }
	return extreme(c.Min) || extreme(c.Max) || slices.ContainsFunc(c.Top, func(v spec.TopValue) bool {
		beginning, shortened := strings.CutSuffix(v.Value, "…")
		return mask.In(v.Value) || shortened && mask.Cut(beginning)
	})
}

func told(what, name string, mask *secret.Mask) error {
	return fault.Errorf(fault.User, "%s %q contains the value of a secret, and everyone could read it in the run's records", what, mask.Text(name))
}
