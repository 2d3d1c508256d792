// Package checkpoint keeps the committed checkpoints of a training step in the store, and the seals that fence its generations.
//
// A commit is a manifest, written last and create-if-absent, that names a checkpoint's artifact and the metrics up to its step. Of a sharded
// checkpoint each node uploads its part and records it; whichever finds that all parts are recorded writes the manifest, which names the
// files of all of them. So a commit is whole if its manifest is there, whatever its layout. Before
// generation g starts, a worker writes the seal of g, create-if-absent, which names the one manifest to resume from. A manifest
// that a node of an older generation commits after that is named by no seal and never read. There is no "latest".
//
// Keys, under checkpoints/<run>/<step>/:
//
//	g<g>/step-<n>.json   a commit of generation g; its files are in the part of the store with the name of this folder and g<g>/step-<n>
//	g<g>/step-<n>.node-<i>.json   node i's part of a sharded checkpoint
//	g<g>/next.json       the step whose parts the nodes commit next
//	g<g>/progress.json   how far generation g is known to have come
//	seal/<g>             what generation g resumes from
//	nodes/g<g>/          what the nodes that were bought for generation g cost (training/ledger)
//	environment.json     where the values of the training's secrets come from
package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/training"
)

// Manifest is one committed checkpoint.
type Manifest struct {
	Generation int   `json:"generation"`
	Step       int64 `json:"step"`
	// Reported is the last step of the metrics before the checkpoint was written, if the number in its name counts something else, such as
	// epochs; 0 if it is that step.
	Reported int64 `json:"reported,omitempty"`
	// Checkpoint is the folder that the script wrote.
	Checkpoint artifact.Ref `json:"checkpoint"`
	// Metrics is the blob of all metrics lines up to the checkpoint, those of earlier generations included.
	Metrics     string    `json:"metrics"`
	CommittedAt time.Time `json:"committed_at"`
	// Layout is the step's checkpoint.layout, and Nodes and Ranks how many wrote it.
	Layout string `json:"layout,omitempty"`
	Nodes  int    `json:"nodes,omitempty"`
	Ranks  int    `json:"ranks,omitempty"`
	// Reshard: it can be resumed from on another number of nodes, although it is sharded.
	Reshard bool `json:"reshard,omitempty"`
	// Run is the earlier run that committed the checkpoint, if the seal continues the training of another run; empty for the seal's own
	// run.
	Run string `json:"run,omitempty"`
	// Training is the step of Run that committed the checkpoint, if the seal continues from what resume_from names; empty for the seal's
	// own step.
	Training string `json:"training,omitempty"`
}

// Reached is the step of the metrics that the checkpoint was written after.
func (m *Manifest) Reached() int64 { return cmp.Or(m.Reported, m.Step) }

// Seal opens a generation.
type Seal struct {
	Generation int `json:"generation"`
	// Resume is what the generation starts from; nil at the beginning, and where no checkpoint can be used.
	Resume *Manifest `json:"resume,omitempty"`
	// Over is the step of a newer commit that is passed over because the program failed to resume from it; 0: none. Another run of the
	// training may try it again, since the program may have failed for another reason.
	Over int64 `json:"over,omitempty"`
}

// upTo is the step up to which commits of earlier generations count.
func (s Seal) upTo() int64 { return max(s.FromCheckpoint(), s.Over) }

// FromCheckpoint is the number of the checkpoint that the generation starts from.
func (s Seal) FromCheckpoint() int64 {
	if s.Resume == nil {
		return 0
	}
	return s.Resume.Step
}

// FromStep is the step that the generation starts after.
func (s Seal) FromStep() int64 {
	if s.Resume == nil {
		return 0
	}
	return s.Resume.Reached()
}

// Progress is how far a generation is known to have come.
type Progress struct {
	Step int64 `json:"step"`
	// Of is how many steps make the whole job, as the script says it; 0 when it does not.
	Of int64 `json:"of,omitempty"`
	// At is when Step was seen, FirstAt when FirstStep, the first of the generation, was.
	At        time.Time `json:"at,omitzero"`
	FirstStep int64     `json:"first_step,omitempty"`
	FirstAt   time.Time `json:"first_at,omitzero"`
	// Began is the first step that it reported, also where that is not after the one that it was to resume from.
	Began *int64 `json:"began,omitempty"`
}

// Pace is how long a step takes, with what happens between steps; 0 when that is not known yet.
func (p Progress) Pace() time.Duration {
	if p.Step <= p.FirstStep || p.FirstAt.IsZero() {
		return 0
	}
	return p.At.Sub(p.FirstAt) / time.Duration(p.Step-p.FirstStep)
}

func folder(k training.Key) string { return path.Join(store.CheckpointsPrefix, k.Run, k.Step) }

func generation(k training.Key) string { return path.Join(folder(k), "g"+strconv.Itoa(k.Generation)) }

func manifestKey(k training.Key, step int64) string { return partName(k, step) + ".json" }

func sealKey(k training.Key) string {
	return path.Join(folder(k), "seal", strconv.Itoa(k.Generation))
}

// Commit writes a manifest. Committing the same step again changes nothing.
func Commit(ctx context.Context, s *store.Store, k training.Key, m Manifest) error {
	return putOnce(ctx, s, manifestKey(k, m.Step), m)
}

// putOnce writes a record, unless there is one.
func putOnce(ctx context.Context, s *store.Store, key string, v any) error {
	err := s.PutJSON(ctx, key, v, store.WriteOptions{IfAbsent: true})
	if errors.Is(err, store.ErrExists) {
		return nil
	}
	return err
}

// PutProgress records how far a generation has come.
func PutProgress(ctx context.Context, s *store.Store, k training.Key, p Progress) error {
	return s.PutJSON(ctx, path.Join(generation(k), "progress.json"), p, store.WriteOptions{})
}

// GetProgress returns how far a generation is known to have come; zero when it never said, or what it said is damaged.
func GetProgress(ctx context.Context, s *store.Store, k training.Key) (Progress, error) {
	var p Progress
	err := s.GetJSON(ctx, path.Join(generation(k), "progress.json"), &p)
	if gone(err) {
		return Progress{}, nil
	}
	return p, err
}

// MakeSeal writes the seal of generation k and returns it, or returns the existing one. It names the newest commit of earlier generations
// that is complete in the store and is not in unusable. The first generation continues from the origin, as do later ones until one of them
// has committed. The error is ErrDamaged if that checkpoint cannot be used.
func MakeSeal(ctx context.Context, s *store.Store, k training.Key, origin Origin, unusable []artifact.Ref) (Seal, error) {
	if seal, err := getSeal(ctx, s, k); !errors.Is(err, store.ErrNotFound) {
		return seal, err
	}
	resume, err := Newest(ctx, s, k, unusable)
	if err == nil && resume == nil {
		resume, err = origin.resume(ctx, s, k, unusable)
	}
	if err != nil {
		return Seal{}, err
	}
	seal := Seal{Generation: k.Generation, Resume: resume}
	if len(unusable) > 0 {
		newest, err := Newest(ctx, s, k, nil)
		if err != nil {
			return Seal{}, err
		}
		if newer := (Seal{Resume: newest}).FromCheckpoint(); newer > seal.FromCheckpoint() && newest.Run == "" {
			seal.Over = newer
		}
	}
	if err := putOnce(ctx, s, sealKey(k), seal); err != nil {
		return Seal{}, err
	}
	// Read it back: if two workers seal at the same time, one has won.
	return getSeal(ctx, s, k)
}

func getSeal(ctx context.Context, s *store.Store, k training.Key) (Seal, error) {
	var seal Seal
	err := s.GetJSON(ctx, sealKey(k), &seal)
	return seal, err
}

// Newest finds what generation k can resume from; nil if there is nothing. A generation's commits count up to the step that the next one's
// seal took over, because later ones come from a surviving process; those of the generation before k all count, because its seal is being
// made. If none has committed, it is what the first one continued from.
func Newest(ctx context.Context, s *store.Store, k training.Key, unusable []artifact.Ref) (*Manifest, error) {
	limit := int64(-1)
	var first Seal
	for g := k.Generation - 1; g >= 1; g-- {
		old := training.Key{Run: k.Run, Step: k.Step, Generation: g}
		steps, err := Steps(ctx, s, old)
		if err != nil {
			return nil, err
		}
		for _, step := range slices.Backward(steps) {
			if limit >= 0 && step > limit {
				continue
			}
			m, err := load(ctx, s, old, step)
			if err != nil {
				return nil, err
			}
			if m != nil && !slices.Contains(unusable, m.Checkpoint) {
				return m, nil
			}
		}
		seal, err := getSeal(ctx, s, old)
		if err != nil {
			return nil, fmt.Errorf("seal of generation %d: %w", g, err)
		}
		limit, first = seal.upTo(), seal
	}
	if first.Resume != nil && first.Resume.Training != "" && !slices.Contains(unusable, first.Resume.Checkpoint) {
		return first.Resume, nil
	}
	if first.Resume != nil && first.Resume.Run != "" && first.Resume.Training == "" {
		return NewestOf(ctx, s, first.Resume.Run, k.Step, unusable)
	}
	return nil, nil
}

// NewestOf finds the checkpoint from which another run can continue the training of a step; nil if there is none. It may belong to an
// earlier run, from which that one continued.
func NewestOf(ctx context.Context, s *store.Store, run, step string, unusable []artifact.Ref) (*Manifest, error) {
	k := training.Key{Run: run, Step: step}
	seal, err := newestSeal(ctx, s, k)
	if err != nil {
		return nil, err
	}
	k.Generation = seal.Generation + 1
	m, err := Newest(ctx, s, k, unusable)
	if m != nil && m.Run == "" {
		m.Run = run
	}
	return m, err
}

// Steps lists the training steps of a generation's commits, rising.
func Steps(ctx context.Context, s *store.Store, k training.Key) ([]int64, error) {
	prefix := generation(k) + "/step-"
	var steps []int64
	for info, err := range s.Driver().List(ctx, prefix) {
		if err != nil {
			return nil, fmt.Errorf("list commits of generation %d: %w", k.Generation, err)
		}
		number := strings.TrimSuffix(strings.TrimPrefix(info.Key, prefix), ".json")
		if n, err := strconv.ParseInt(number, 10, 64); err == nil {
			steps = append(steps, n)
		}
	}
	slices.Sort(steps)
	return steps, nil
}

// Reached lists the steps of the metrics after which the checkpoints of a generation were written, rising.
func Reached(ctx context.Context, s *store.Store, k training.Key) ([]int64, error) {
	steps, err := Steps(ctx, s, k)
	for i, step := range slices.Backward(steps) {
		m, err := load(ctx, s, k, step)
		if err != nil {
			return nil, err
		} else if m != nil && m.Reported == 0 { // and so it is of those before
			break
		} else if m != nil {
			steps[i] = m.Reported
		}
	}
	return steps, err
}

// load returns a commit, or nil when something of it is missing from the store, or damaged.
func load(ctx context.Context, s *store.Store, k training.Key, step int64) (*Manifest, error) {
	var m Manifest
	err := s.GetJSON(ctx, manifestKey(k, step), &m)
	if gone(err) || err == nil && (m.Generation != k.Generation || m.Step != step) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	files := m.part(s, k)
	tree, err := files.Manifest(ctx, m.Checkpoint)
	if gone(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	blobs := []string{m.Metrics}
	for _, f := range tree.Files {
		blobs = append(blobs, f.Digest)
	}
	if all, err := files.HasBlobs(ctx, blobs); !all {
		return nil, err
	}
	return &m, nil
}

// gone reports whether err says that something is not there any more as it was written, and not that it could not be asked for.
func gone(err error) bool {
	return errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt)
}
