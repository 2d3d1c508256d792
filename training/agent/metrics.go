package agent

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/sluiceml/sluice/internal/metrics"
	"github.com/sluiceml/sluice/internal/secret"
)

// metricsState is the progress of the training according to its metrics.
type metricsState struct {
	Step, Of int64
	Loss     metrics.Number
	Rate     float64 // steps a second, over the last steps
	// At is when Step was seen. FirstAt is when FirstStep was seen, the first step of the generation.
	At, FirstAt time.Time
	FirstStep   int64
}

// follower follows the metrics file, to which rank 0 appends a JSON line with each step.
type follower struct {
	path string
	mask *secret.Mask // lines that contain a secret are not stored
	// before is a file with the lines up to the step resumed from; path begins with the same lines, unless the script has truncated it.
	before string
	from   int64

	mu      sync.Mutex
	base    int64  // where in path the lines of this generation begin
	offset  int64  // of the first byte that has not been read
	tail    []byte // what is before offset
	now     metricsState
	stepAt  time.Time
	spacing []spacing // of the last lines with new steps
	started bool
	first   int64               // the step of its first line, once started
	work    map[int64][]float64 // by rank, if it reports this, the seconds that it worked on each of its last steps

	// fed is true if the lines are those of a framework, appended by feed, up to the step fedTo.
	fed   bool
	fedTo int64
}

// follow follows the metrics from the current end of the file. The existing lines come from the checkpoint resumed from, and do not count
// for this generation.
func follow(path, before string, from int64) *follower {
	m := &follower{path: path}
	m.read(false)
	return &follower{
		path: path, before: before, from: max(from, m.now.Step), fedTo: from, base: m.offset, offset: m.offset, tail: m.tail,
		now: metricsState{Step: from, Of: m.now.Of, Loss: m.now.Loss},
	}
}

// began returns the first step that this generation reported; nil if none.
func (m *follower) began() *int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.started {
		return nil
	}
	first := m.first
	return &first
}

// made returns how many steps this generation has reported.
func (m *follower) made() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.started {
		return 0
	}
	return m.now.Step - m.first + 1
}

// within is how many steps may be reported in a time, at most.
func (m *follower) within(d time.Duration) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	steps := 1 + int64(d.Seconds()*m.now.Rate)
	if n := len(m.spacing); n > 0 {
		steps += m.spacing[n-1].steps
	}
	return steps
}

// state returns the current state. The rate falls if the next steps take more than twice as long as the last ones did, and approaches 0 if
// none come.
func (m *follower) state() metricsState {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now
	usual := 1.0 // steps between two reads that found some
	if n := len(m.spacing); n > 0 {
		usual = float64(m.spacing[n-1].steps)
	}
	if since := time.Since(m.stepAt).Seconds(); now.Rate*since > 2*usual {
		now.Rate = 2 * usual / since
	}
	return now
}

// read reads the lines that have been appended. If ended is true, nothing more will be written, and a last line without a newline counts.
func (m *follower) read(ended bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, err := os.Open(m.path)
	if err != nil {
		return
	}
	defer f.Close()
	m.restart(f)
	if _, err := f.Seek(m.offset, io.SeekStart); err != nil {
		return
	}
	before, was := m.now.Step, m.started
	r := bufio.NewReaderSize(f, metrics.MaxLine)
	for {
		text, err := r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			m.pass(text)
			continue
		}
		line, ok := metrics.Parse(text)
		if err != nil && !(ok && ended) {
			break // the rest of the line is still to come
		}
		m.pass(text)
		m.take(line)
		if err != nil {
			break
		}
	}
	if m.started && !was {
		before = min(before, m.first-1)
	}
	if m.now.Step > before {
		m.pace(m.now.Step - before)
	}
}

// pass moves on behind a text that has been read.
func (m *follower) pass(text []byte) {
	const kept = 64
	m.offset += int64(len(text))
	m.tail = append(m.tail, text[max(0, len(text)-kept):]...)
	m.tail = slices.Clone(m.tail[max(0, len(m.tail)-kept):])
}

// restart begins at the start of a file that no longer has what was read of it: the script has truncated it, as opening it for writing does.
func (m *follower) restart(f io.ReaderAt) {
	now := make([]byte, len(m.tail))
	if n, _ := f.ReadAt(now, m.offset-int64(len(now))); n < len(now) || !bytes.Equal(now, m.tail) {
		m.base, m.offset, m.tail = 0, 0, nil
	}
}

func (m *follower) take(line metrics.Line) {
	m.worked(line)
	step, ok := line.Step()
	if !ok || line.OfOtherRank() {
		return
	}
	if !m.started {
		m.started, m.first = true, step
		m.now.Step = min(m.now.Step, step) // a script that does not resume begins earlier
	}
	m.now.Step = max(m.now.Step, step)
	if of, ok := line.Of(); ok {
		m.now.Of = of
	}
	if loss, ok := line.Loss(); ok {
		m.now.Loss = loss
	}
}

// spacing is the time between two reads of the file that each found new steps, and how many steps the second one found.
type spacing struct {
	time  time.Duration
	steps int64
}

// pace records that steps more steps have been made since it was last called.
func (m *follower) pace(steps int64) {
	const kept = 50
	now := time.Now()
	if !m.stepAt.IsZero() {
		m.spacing = append(m.spacing, spacing{now.Sub(m.stepAt), steps})
		m.spacing = m.spacing[max(0, len(m.spacing)-kept):]
		var sum float64
		recent := m.spacing[max(0, len(m.spacing)-10):]
		for _, s := range recent {
			sum += s.time.Seconds() / float64(s.steps)
		}
		if sum > 0 {
			m.now.Rate = float64(len(recent)) / sum
		}
	}
	m.stepAt, m.now.At = now, now
	if m.now.FirstAt.IsZero() {
		m.now.FirstAt, m.now.FirstStep = now, m.now.Step
	}
}

// upTo reads the lines up to a step, except those that contain a secret. Where the script began at an earlier step than it was to resume
// from, its own lines replace those of earlier generations.
func (m *follower) upTo(step int64) (io.ReadCloser, error) {
	m.mu.Lock()
	base, resumed := m.base, m.from
	if m.started && m.first < m.from {
		resumed = m.first - 1
	}
	m.mu.Unlock()
	own, err := os.Open(m.path)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	before, err := os.Open(m.before)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("metrics: %w", err), own.Close())
	}
	all := func([]byte) bool { return true }
	public := func(text []byte) bool { return !leaks(m.mask, text) }
	ofBefore := metrics.UpTo(before, min(step, resumed), all)
	ofOwn := metrics.UpTo(io.NewSectionReader(own, base, math.MaxInt64-base), step, public)
	return linesOf{io.MultiReader(ofBefore, ofOwn), before, own}, nil
}

// linesOf reads lines of two files, and closes these.
type linesOf struct {
	io.Reader
	before, own *os.File
}

func (l linesOf) Close() error { return errors.Join(l.before.Close(), l.own.Close()) }
