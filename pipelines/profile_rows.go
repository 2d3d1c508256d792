package pipelines

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/pipelines/columns"
	"github.com/sluiceml/sluice/pipelines/rows"
	"github.com/sluiceml/sluice/pipelines/spill"
)

// profilesFolder is the folder, in the work folder, with the results of Profile transforms: a file for each transform and unit.
const profilesFolder = "profiles"

// unitProfile is the profile that a Profile transform took of one unit's rows.
type unitProfile struct {
	Name    string           `json:"name"`
	Profile *columns.Profile `json:"profile"`
}

// see adds a row to a Profile transform's profile. Parts are not known at this point.
func (u *task) see(n *node, r rows.Row) error {
	p := u.profiles[n.name]
	if p == nil {
		p = columns.NewProfile()
		u.profiles[n.name] = p
	}
	return n.row.Profile.Describe(p, transform.AllRows, r)
}

// keepProfiles writes the unit's profiles. A retry of the unit overwrites the same files.
func (u *task) keepProfiles() error {
	for name, p := range u.profiles {
		file := rows.DigestOf(fmt.Appendf(nil, "%d/%d/%s", u.id.Segment, u.id.Unit, name)) // a name may be too long for one
		if err := spill.WriteJSON(filepath.Join(u.job.WorkDir, profilesFolder, hex.EncodeToString(file[:])), unitProfile{name, p}); err != nil {
			return err
		}
	}
	return nil
}

// addProfiles merges profiles into others by name.
func addProfiles(to, more map[string]*columns.Profile) {
	for _, name := range slices.Sorted(maps.Keys(more)) {
		if to[name] == nil {
			to[name] = columns.NewProfile()
		}
		to[name].Merge(more[name])
	}
}

// profilesOf returns the summary of each Profile transform over all units.
func (p *plan) profilesOf(work string) (map[string]spec.Profile, error) {
	all := map[string]*columns.Profile{}
	for _, n := range p.nodes {
		if n.row != nil && n.row.Profile != nil {
			all[n.name] = columns.NewProfile()
		}
	}
	dir := filepath.Join(work, profilesFolder)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		one := unitProfile{Profile: columns.NewProfile()}
		if err = errors.Join(err, json.Unmarshal(text, &one)); err != nil {
			return nil, fmt.Errorf("read a profile: %w", err)
		}
		addProfiles(all, map[string]*columns.Profile{one.Name: one.Profile})
	}
	out := map[string]spec.Profile{}
	for name, p := range all {
		out[name] = p.Summary()
	}
	return out, nil
}
