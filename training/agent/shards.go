package agent

import (
	"io/fs"
	"path/filepath"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
)

// refuseShards is an error when a node other than 0 has written a part of a checkpoint of another layout. Those are taken from node 0, so what would be
// committed lacks this part, and nothing could resume from it.
func (r *ranks) refuseShards() error {
	if r.p.index == 0 || r.p.spec.Checkpoint.Layout == spec.LayoutSharded {
		return nil
	}
	found, err := r.commits.layout.find(r.p.dirs.checkpoints)
	if err != nil {
		return nil // on this node nobody needs the folder
	}
	for _, w := range found {
		part, err := r.commits.layout.part(filepath.Join(r.p.dirs.checkpoints, w.name))
		if err != nil || part == "" {
			continue // rotated away meanwhile, or nothing of it
		}
		return fault.Errorf(fault.User,
			"node %d wrote a part of checkpoint %s (%s), but checkpoints are only read from node 0, so training could not resume from this one: "+
				"with `checkpoint: {layout: sharded}` every node commits its part; or let rank 0 write the whole checkpoint, as with FSDP's "+
				"FULL_STATE_DICT", r.p.index, w.name, part)
	}
	return nil
}

// part names a file of the checkpoint that no training can do without, or nothing.
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
