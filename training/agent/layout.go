package agent

import (
	"archive/zip"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
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
	// inPlace is true if frameworks write a checkpoint under its final name, by which they also want it back. It is complete once it has
	// settled and whole, which checks what is written last, returns true.
	inPlace bool
	whole   func(path string, step int64) bool
	// isProof reports whether whole leaves no doubt, even if the ranks were killed soon after the last change.
	isProof func(path string) bool
	// spare reports whether a file is one that every rank writes and that is not needed to resume a training; nil: there are none.
	spare func(name string) bool
	// notes reads what the framework itself has recorded of its steps up to a checkpoint; nil: nothing.
	notes func(p *prepared, path string, step int64) ([]metrics.Line, error)
}

// layoutOf returns a layout by its name in the language.
func layoutOf(name string) layout {
	switch name {
	case spec.LayoutHuggingFace:
		return layout{step: numbered("checkpoint-"), inPlace: true, whole: wholeTrainer, isProof: func(string) bool { return true }, spare: randomState, notes: trainerNotes}
	case spec.LayoutLightning:
		return layout{step: lightningStep, inPlace: true, whole: wholeLightning, isProof: isZip, notes: lightningNotes}
	}
	return layout{
		step: numbered("step-"), whole: func(string, int64) bool { return true }, isProof: func(string) bool { return false },
	}
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
	info, err := os.Stat(path)
	return err == nil && (info.IsDir() || isZip(path))
}

// wholeFiles checks the files of a checkpoint that torch.save began.
func wholeFiles(path string) bool {
	err := filepath.WalkDir(path, func(file string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && startsAsZip(file) && !isZip(file) {
			err = errors.New("its end is missing")
		}
		return err
	})
	return err == nil
}

func startsAsZip(path string) bool {
	const magic = "PK\x03\x04"
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, len(magic))
	_, err = io.ReadFull(f, head)
	return err == nil && string(head) == magic
}

func isZip(path string) bool {
	r, err := zip.OpenReader(path)
	if err != nil {
		return false
	}
	return r.Close() == nil
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
type settling map[string]settled

// settled is what a checkpoint looked like, and since when.
type settled struct {
	shape
	since time.Time
}

// settled reports whether a checkpoint has not changed for settleTime.
func (s settling) settled(path string, now time.Time) bool {
	seen, err := shapeOf(path)
	if err != nil {
		return false
	}
	before, ok := s[path]
	if !ok || seen != before.shape {
		before = settled{seen, now}
	}
	s[path] = before
	return now.Sub(before.since) >= settleTime
}

// shape is what the files of a checkpoint look like from outside.
type shape struct {
	sum    uint64 // of their names, sizes and times
	bytes  int64
	newest time.Time
}

func shapeOf(path string) (shape, error) {
	var s shape
	sum := fnv.New64a()
	err := filepath.WalkDir(path, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintln(sum, strings.TrimPrefix(file, path), info.Size(), info.ModTime().UnixNano())
		s.bytes += info.Size()
		if info.ModTime().After(s.newest) {
			s.newest = info.ModTime()
		}
		return nil
	})
	if err == nil && s.newest.IsZero() {
		err = errors.New("it is empty")
	}
	s.sum = sum.Sum64()
	return s, err
}
