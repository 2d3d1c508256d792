package checkpoint

import (
	"context"
	"path"
	"slices"
	"strings"
	"time"

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
}

// List lists the committed checkpoints of all trainings, by run and step, the oldest of each first.
func List(ctx context.Context, s *store.Store) ([]Kept, error) {
	all := []Kept{}
	for info, err := range s.Driver().List(ctx, store.CheckpointsPrefix) {
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
		case err == nil:
			k.Bytes, k.CommittedAt = m.Checkpoint.Bytes, m.CommittedAt
		case !gone(err):
			return nil, err
		}
		all = append(all, k)
	}
	slices.SortStableFunc(all, func(a, b Kept) int {
		if c := strings.Compare(a.Run+"/"+a.Step, b.Run+"/"+b.Step); c != 0 {
			return c
		}
		if a.Generation != b.Generation {
			return a.Generation - b.Generation
		}
		return int(a.TrainingStep - b.TrainingStep)
	})
	return all, nil
}

// Remove removes a checkpoint of a training that has ended.
func Remove(ctx context.Context, s *store.Store, c Kept) error {
	k := training.Key{Run: c.Run, Step: c.Step, Generation: c.Generation}
	// The manifest first: what remains is no commit any more.
	if err := s.Driver().Delete(ctx, manifestKey(k, c.TrainingStep)); err != nil {
		return err
	}
	return s.RemovePart(ctx, partName(k, c.TrainingStep))
}
