package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/training"
)

// Kept is a committed checkpoint as the store has it.
type Kept struct {
	Run        string `json:"run"`
	Step       string `json:"step"`
	Generation int    `json:"generation"`
	// TrainingStep is how far the training had come.
	TrainingStep int64 `json:"training_step"`
	// Bytes is the size of its files; 0 when its record is damaged.
	Bytes       int64     `json:"bytes"`
	CommittedAt time.Time `json:"committed_at"`
	// Layout, Nodes, Ranks and Reshard are as in Manifest.
	Layout  string `json:"layout,omitempty"`
	Nodes   int    `json:"nodes,omitempty"`
	Ranks   int    `json:"ranks,omitempty"`
	Reshard bool   `json:"reshard,omitempty"`

	manifest Manifest // zero when it is damaged
}

// Name is what people call it by: run/step@training step.
func (c Kept) Name() string {
	return c.Run + "/" + c.Step + "@" + strconv.FormatInt(c.TrainingStep, 10)
}

func (c Kept) key() training.Key {
	return training.Key{Run: c.Run, Step: c.Step, Generation: c.Generation}
}

// Files lists what the script wrote. The error is store.ErrCorrupt or store.ErrNotFound where the list is damaged.
func (c Kept) Files(ctx context.Context, s *store.Store) ([]artifact.File, error) {
	if c.manifest.Step == 0 {
		return nil, fmt.Errorf("the record of %s: %w", c.Name(), store.ErrCorrupt)
	}
	tree, err := c.manifest.part(s, c.key()).Manifest(ctx, c.manifest.Checkpoint)
	return tree.Files, err
}

// Export writes its files to a folder, as store.Store.Fetch does.
func (c Kept) Export(ctx context.Context, s *store.Store, dir string) error {
	if _, err := c.Files(ctx, s); err != nil {
		return err
	}
	return c.manifest.part(s, c.key()).Fetch(ctx, c.manifest.Checkpoint, dir)
}

// Verify reads all of it and compares it with its digests. The error is store.ErrCorrupt or store.ErrNotFound where it is damaged.
func (c Kept) Verify(ctx context.Context, s *store.Store) error {
	files, err := c.Files(ctx, s)
	if err != nil {
		return err
	}
	part := c.manifest.part(s, c.key())
	if err := readAll(ctx, part, c.manifest.Metrics); err != nil {
		return fmt.Errorf("its metrics: %w", err)
	}
	for _, f := range files {
		if err := readAll(ctx, part, f.Digest); err != nil {
			return fmt.Errorf("%s: %w", f.Path, err)
		}
	}
	return nil
}

func readAll(ctx context.Context, s *store.Store, digest string) error {
	blob, err := s.Blob(ctx, digest)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, blob)
	return errors.Join(err, blob.Close())
}

// List lists the committed checkpoints of all trainings, by run and step, the oldest of each first.
func List(ctx context.Context, s *store.Store) ([]Kept, error) {
	return list(ctx, s, store.CheckpointsPrefix)
}

// list lists those whose keys have a prefix.
func list(ctx context.Context, s *store.Store, prefix string) ([]Kept, error) {
	all := []Kept{}
	for info, err := range s.Driver().List(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		name, isRecord := strings.CutSuffix(strings.TrimPrefix(info.Key, store.CheckpointsPrefix), ".json")
		parts := strings.Split(name, "/")
		if !isRecord || len(parts) < 4 {
			continue
		}
		run, rest := parts[0], parts[1:]
		generation, step, ok := place(path.Join(rest[len(rest)-2:]...))
		if !ok {
			continue
		}
		k := Kept{Run: run, Step: path.Join(rest[:len(rest)-2]...), Generation: generation, TrainingStep: step, CommittedAt: info.Modified}
		var m Manifest
		switch err := s.GetJSON(ctx, info.Key, &m); {
		case err == nil && m.Generation == generation && m.Step == step:
			k.Bytes, k.CommittedAt, k.manifest = m.Checkpoint.Bytes, m.CommittedAt, m
			k.Layout, k.Nodes, k.Ranks, k.Reshard = m.Layout, m.Nodes, m.Ranks, m.Reshard
		case err != nil && !gone(err):
			return nil, err
		}
		all = append(all, k)
	}
	slices.SortStableFunc(all, func(a, b Kept) int {
		return cmp.Or(strings.Compare(a.Run+"/"+a.Step, b.Run+"/"+b.Step), a.Generation-b.Generation, cmp.Compare(a.TrainingStep, b.TrainingStep))
	})
	return all, nil
}

// Remove removes a checkpoint of a training that has ended.
func Remove(ctx context.Context, s *store.Store, c Kept) error {
	return remove(ctx, s, c.key(), c.TrainingStep)
}
