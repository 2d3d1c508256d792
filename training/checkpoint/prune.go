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

	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/training"
)

// Part is the part of the store with the files and the metrics of one commit. Nothing else is there, so the part can be removed with the
// commit.
func Part(s *store.Store, k training.Key, step int64) *store.Store { return s.Part(partName(k, step)) }

func partName(k training.Key, step int64) string {
	return path.Join(generation(k), "step-"+strconv.FormatInt(step, 10))
}

// part is that of a manifest of step k.
func (m Manifest) part(s *store.Store, k training.Key) *store.Store {
	return Part(s, training.Key{Run: cmp.Or(m.Run, k.Run), Step: cmp.Or(m.Training, k.Step), Generation: m.Generation}, m.Step)
}

// Files is where what the seal names lies.
func (s Seal) Files(st *store.Store, k training.Key) *store.Store { return s.Resume.part(st, k) }

// commit names one, with what the store knows of it.
type commit struct {
	generation int
	step       int64
	at         time.Time
}

// Prune removes the commits of generation k and of those before that newer ones replace. It leaves the newest keep, and whatever the
// newest seal names. A commit of generation k replaces others when it is older than settle: a seal that is being made may name the one
// before it. Those of earlier generations do so at once, because generation k is sealed. When a newer generation than k has been sealed,
// nothing is removed; that is for its own Prune. It is for workers: a node may be a zombie.
func Prune(ctx context.Context, s *store.Store, k training.Key, keep int, settle time.Duration) error {
	seal, err := newestSeal(ctx, s, k)
	if err != nil || seal.Generation > k.Generation {
		return err
	}
	all, err := commits(ctx, s, k)
	if err != nil {
		return err
	}
	stay, err := staying(ctx, s, k, all, keep, time.Now().Add(-settle))
	if err != nil {
		return err
	}
	if seal.Resume != nil && seal.Resume.Run == "" {
		stay = append(stay, commit{generation: seal.Resume.Generation, step: seal.Resume.Step})
	}
	stays := func(generation int, step int64) bool {
		return slices.ContainsFunc(stay, func(c commit) bool { return c.generation == generation && c.step == step })
	}
	for _, c := range all {
		if stays(c.generation, c.step) {
			continue
		}
		if err := remove(ctx, s, training.Key{Run: k.Run, Step: k.Step, Generation: c.generation}, c.step); err != nil {
			return err
		}
	}
	oldest := int64(0) // of those of generation k that stay
	for _, c := range stay {
		if c.generation == k.Generation && (oldest == 0 || c.step < oldest) {
			oldest = c.step
		}
	}
	return removeStray(ctx, s, k, func(generation int, step int64) bool {
		return !stays(generation, step) && (generation < k.Generation || generation == k.Generation && step < oldest)
	})
}

// remove removes a commit. The manifest goes first, and the parts that could be joined again next: what remains is no commit any more.
func remove(ctx context.Context, s *store.Store, k training.Key, step int64) error {
	if err := s.Driver().Delete(ctx, manifestKey(k, step)); err != nil {
		return err
	}
	if err := s.RemoveAll(ctx, shardPrefix(k, step)); err != nil {
		return err
	}
	return s.RemovePart(ctx, partName(k, step))
}

// staying are the commits that are not to be removed: of those that generation k may build on the newest keep, and all of generation k
// that are too new to replace others.
func staying(ctx context.Context, s *store.Store, k training.Key, all []commit, keep int, before time.Time) ([]commit, error) {
	var stay []commit
	settled := 0
	limit := int64(-1)
	for g := k.Generation; g >= 1 && settled < keep; g-- {
		for _, c := range slices.Backward(all) {
			if c.generation != g || limit >= 0 && c.step > limit || settled >= keep {
				continue
			}
			stay = append(stay, c)
			if g < k.Generation || c.at.Before(before) {
				settled++
			}
		}
		seal, err := getSeal(ctx, s, training.Key{Run: k.Run, Step: k.Step, Generation: g})
		if err != nil {
			return nil, fmt.Errorf("seal of generation %d: %w", g, err)
		}
		limit = seal.upTo()
	}
	return stay, nil
}

// removeStray removes what belongs to no commit, and never will: what a node had uploaded when it was lost, or was left of a commit by a
// worker that was; and the parts of a sharded checkpoint that is not whole, once newer ones are.
func removeStray(ctx context.Context, s *store.Store, k training.Key, isStray func(generation int, step int64) bool) error {
	records, files := folder(k)+"/", store.PartsPrefix+folder(k)+"/"
	var stray []string
	for _, prefix := range []string{records, files} { // the records first, so that nothing is joined whose files go
		for info, err := range s.Driver().List(ctx, prefix) {
			if err != nil {
				return err
			}
			name, _, isShard := strings.Cut(strings.TrimPrefix(info.Key, prefix), shardMark)
			if g, step, ok := place(name); ok && isStray(g, step) && (isShard || prefix == files) {
				stray = append(stray, info.Key)
			}
		}
	}
	for _, key := range stray {
		if err := s.Driver().Delete(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// commits lists those of all generations up to k, by generation and step.
func commits(ctx context.Context, s *store.Store, k training.Key) ([]commit, error) {
	prefix := folder(k) + "/"
	var all []commit
	for info, err := range s.Driver().List(ctx, prefix) {
		if err != nil {
			return nil, fmt.Errorf("list commits: %w", err)
		}
		name, ok := strings.CutSuffix(strings.TrimPrefix(info.Key, prefix), ".json")
		if g, step, found := place(name); ok && found && g <= k.Generation {
			all = append(all, commit{g, step, info.Modified})
		}
	}
	slices.SortFunc(all, func(a, b commit) int { return cmp.Or(a.generation-b.generation, cmp.Compare(a.step, b.step)) })
	return all, nil
}

// place reads "g<g>/step-<n>", and what may follow after a slash.
func place(name string) (generation int, step int64, ok bool) {
	g, rest, found := strings.Cut(name, "/")
	rest, _, _ = strings.Cut(rest, "/")
	number, isGeneration := strings.CutPrefix(g, "g")
	stepNumber, isStep := strings.CutPrefix(rest, "step-")
	if !found || !isGeneration || !isStep {
		return 0, 0, false
	}
	generation, err := strconv.Atoi(number)
	step, stepErr := strconv.ParseInt(stepNumber, 10, 64)
	return generation, step, errors.Join(err, stepErr) == nil
}

// newestSeal returns the seal of the newest generation that has one.
func newestSeal(ctx context.Context, s *store.Store, k training.Key) (Seal, error) {
	prefix := path.Join(folder(k), "seal") + "/"
	newest := 0
	for info, err := range s.Driver().List(ctx, prefix) {
		if err != nil {
			return Seal{}, fmt.Errorf("list seals: %w", err)
		}
		if g, err := strconv.Atoi(strings.TrimPrefix(info.Key, prefix)); err == nil {
			newest = max(newest, g)
		}
	}
	if newest == 0 {
		return Seal{}, nil
	}
	return getSeal(ctx, s, training.Key{Run: k.Run, Step: k.Step, Generation: newest})
}
