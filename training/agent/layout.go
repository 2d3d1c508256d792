package agent

import (
	"archive/zip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/metrics"
)

// settleTime is how long a checkpoint that is written in place must not have changed to be taken for whole.
const settleTime = 2 * time.Second

// layout is how the script lays its checkpoints out.
type layout struct {
	// step reads the step from the name of a checkpoint.
	step func(e fs.DirEntry) (int64, bool)
	// inPlace: it is written under its final name, so that it has to have settled, and whole tells of what is written last.
	inPlace bool
	whole   func(path string, step int64) bool
	// spare tells the files that every rank writes and that a training can be resumed without; nil: there are none.
	spare func(name string) bool
	// notes reads what the framework itself noted of its steps up to a checkpoint; nil: nothing.
	notes func(p *prepared, path string, step int64) ([]metrics.Line, error)
}

// layoutOf returns a layout by its name in the language.
func layoutOf(name string) layout {
	switch name {
	case spec.LayoutHuggingFace:
		return layout{step: numbered("checkpoint-"), inPlace: true, whole: wholeTrainer, spare: randomState, notes: trainerNotes}
	case spec.LayoutLightning:
		return layout{step: lightningStep, inPlace: true, whole: wholeLightning, notes: lightningNotes}
	}
	return layout{step: numbered("step-"), whole: func(string, int64) bool { return true }}
}

// numbered reads names of folders such as step-12.
func numbered(prefix string) func(fs.DirEntry) (int64, bool) {
	return func(e fs.DirEntry) (int64, bool) {
		number, ok := strings.CutPrefix(e.Name(), prefix)
		n, err := strconv.ParseInt(number, 10, 64)
		return n, ok && err == nil && n > 0 && e.IsDir()
	}
}

// lightningName is what ModelCheckpoint calls a file, or a folder where the strategy shards it; what is before and behind the step is the
// user's choice.
var lightningName = regexp.MustCompile(`(?:^|[^a-z])step=([0-9]{1,18})(?:[^0-9].*)?\.ckpt$`)

func lightningStep(e fs.DirEntry) (int64, bool) {
	m := lightningName.FindStringSubmatch(e.Name())
	if m == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	return n, err == nil && n > 0
}

// wholeTrainer: the Trainer's rank 0 writes its state after everything else.
func wholeTrainer(path string, step int64) bool {
	state, err := readTrainerState(path)
	return err == nil && state.GlobalStep == step
}

// randomState: each process of the Trainer leaves the state of its random numbers in every checkpoint.
func randomState(name string) bool { return strings.HasPrefix(name, "rng_state") }

// wholeLightning: torch.save ends a file with its directory, which a part of the file lacks. Of a folder nothing is known.
func wholeLightning(path string, _ int64) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.IsDir() {
		return err == nil
	}
	_, err = zip.NewReader(f, info.Size())
	return err == nil
}

// written is a checkpoint on the node's disk.
type written struct {
	step int64
	name string
}

// find lists the checkpoints in a folder, the newest first.
func (l layout) find(dir string) ([]written, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []written
	for _, e := range entries {
		if step, ok := l.step(e); ok {
			all = append(all, written{step, e.Name()})
		}
	}
	slices.SortStableFunc(all, func(a, b written) int { return int(b.step - a.step) })
	return all, nil
}

// within is the checkpoint in the folder that a commit was fetched to.
func (l layout) within(dir string) (string, error) {
	if !l.inPlace {
		return dir, nil
	}
	found, err := l.find(dir)
	if err == nil && len(found) != 1 {
		err = fmt.Errorf("%w: it holds %d checkpoints of this layout", errUnusable, len(found))
	}
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, found[0].name), nil
}

// settling notes how checkpoints change that are written in place.
type settling map[string]shape

// shape is what a checkpoint looked like, and since when.
type shape struct {
	files  int
	bytes  int64
	newest time.Time
	since  time.Time
}

// settled reports whether a checkpoint has not changed for settleTime.
func (s settling) settled(path string, now time.Time) bool {
	seen, err := shapeOf(path)
	if err != nil {
		return false
	}
	before, ok := s[path]
	seen.since = before.since
	if !ok || seen != before {
		seen.since = now
	}
	s[path] = seen
	return now.Sub(seen.since) >= settleTime
}

func shapeOf(path string) (shape, error) {
	var s shape
	err := filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		s.files++
		s.bytes += info.Size()
		if info.ModTime().After(s.newest) {
			s.newest = info.ModTime()
		}
		return nil
	})
	if err == nil && s.files == 0 {
		err = errors.New("it is empty")
	}
	return s, err
}
