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

// settleTime is how long a checkpoint that is written in place must not have changed to count as complete.
const settleTime = 2 * time.Second

// layout is how the script lays its checkpoints out.
type layout struct {
	// step reads the step from the name of a checkpoint.
	step func(e fs.DirEntry) (int64, bool)
	// inPlace is true if a checkpoint is written under its final name. It is complete once it has settled and whole, which checks what is
	// written last, returns true.
	inPlace bool
	whole   func(path string, step int64) bool
	// spare reports whether a file is one that every rank writes and that is not needed to resume a training; nil: there are none.
	spare func(name string) bool
	// notes reads what the framework itself has recorded of its steps up to a checkpoint; nil: nothing.
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

// lightningName matches the name that ModelCheckpoint gives a file, or a folder if the strategy shards it. The user chooses what is before
// and after the step.
var lightningName = regexp.MustCompile(`(?:^|[^a-z])step=([0-9]{1,18})(?:[^0-9].*)?\.ckpt$`)

func lightningStep(e fs.DirEntry) (int64, bool) {
	m := lightningName.FindStringSubmatch(e.Name())
	if m == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	return n, err == nil && n > 0
}

// wholeTrainer checks the state of the Trainer, which its rank 0 writes last.
func wholeTrainer(path string, step int64) bool {
	state, err := readTrainerState(path)
	return err == nil && state.GlobalStep == step
}

// randomState matches the files with the state of the random number generators, which each process of the Trainer writes to every
// checkpoint.
func randomState(name string) bool { return strings.HasPrefix(name, "rng_state") }

// wholeLightning checks that a file is complete: torch.save writes the directory of the zip file last. A folder cannot be checked.
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

// within returns the path of the checkpoint in the folder that a commit was fetched to.
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

// settling tracks the changes of checkpoints that are written in place, by path.
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
