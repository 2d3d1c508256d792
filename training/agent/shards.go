package agent

import (
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
)

// refuseShards returns an error if a node other than 0 has written a part of a checkpoint whose layout is not `sharded`. Such checkpoints
// are taken from node 0 only, so the commit would lack this part, and training could not resume from it.
func (r *ranks) refuseShards() error {
	if r.p.index == 0 || r.p.spec.Checkpoint.Layout == spec.LayoutSharded {
		return nil
	}
	found, err := r.commits.layout.find(r.p.dirs.checkpoints)
	if err != nil {
		return nil // the folder is not needed on this node
	}
	for _, w := range found {
		if slices.Contains(r.p.linked, w.name) {
			continue
		}
		part, err := r.commits.layout.part(filepath.Join(r.p.dirs.checkpoints, w.name))
		if err != nil || part == "" {
			continue // deleted in the meantime, or nothing that matters
		}
		return fault.Errorf(fault.User,
			"node %d wrote a part of checkpoint %s (%s), but checkpoints are only read from node 0, so training could not resume from this one: "+
				"with `checkpoint: {layout: sharded}` every node commits its part; or let rank 0 write the whole checkpoint, as with FSDP's "+
				"FULL_STATE_DICT", r.p.index, w.name, part)
	}
	return nil
}

// part returns the name of a file of the checkpoint that is needed to resume. It is empty if there is none.
func (l layout) part(path string) (name string, err error) {
	err = filepath.WalkDir(path, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || l.spare != nil && l.spare(d.Name()) {
			return err
		}
		if name = d.Name(); file != path {
			name, err = filepath.Rel(path, file)
		}
		if err != nil {
			return err
		}
		return filepath.SkipAll
	})
	return name, err
}
