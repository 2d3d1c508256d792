package agent

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
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

	mu      sync.Mutex
	offset  int64 // of the first byte that has not been read
	now     metricsState
	stepAt  time.Time
	spacing []spacing // of the last lines with new steps
	started bool
	work    map[int64][]float64 // by rank, if it reports this, the seconds that it worked on each of its last steps

	// fed is true if the lines are those of a framework, appended by feed, up to the step fedTo.
	fed   bool
	fedTo int64
}

// follow follows the metrics from the current end of the file. The existing lines come from the checkpoint resumed from, and do not count
// for this generation.
func follow(path string, from int64) *follower {
	m := &follower{path: path}
	m.read(false)
	return &follower{path: path, fedTo: from, offset: m.offset, now: metricsState{Step: from, Of: m.now.Of, Loss: m.now.Loss}}
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

// read reads the lines that have been appended, and reports whether the first step of this generation was among them. If ended is true,
// nothing more will be written, and a last line without a newline counts.
func (m *follower) read(ended bool) (first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, err := os.Open(m.path)
	if err != nil {
		return false
	}
	defer f.Close()
	if _, err := f.Seek(m.offset, io.SeekStart); err != nil {
		return false
	}
	before, was := m.now.Step, m.started
	r := bufio.NewReaderSize(f, metrics.MaxLine)
	for {
		text, err := r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			m.offset += int64(len(text))
			continue
		}
		line, ok := metrics.Parse(text)
		if err != nil && !(ok && ended) {
			break // the rest of the line is still to come
		}
		m.offset += int64(len(text))
		m.take(line)
		if err != nil {
			break
		}
	}
	if m.now.Step > before {
		m.pace(m.now.Step - before)
	}
	return m.started && !was
}

func (m *follower) take(line metrics.Line) {
	m.worked(line)
	step, ok := line.Step()
	if !ok || line.OfOtherRank() {
		return
	}
	m.now.Step = max(m.now.Step, step)
	m.started = true
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

// upTo reads the lines of the file up to a step, except those that contain a secret.
func (m *follower) upTo(step int64) (io.ReadCloser, error) {
	f, err := os.Open(m.path)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	lines := metrics.UpTo(f, step, func(text []byte) bool { return !leaks(m.mask, text) })
	return struct {
		io.Reader
		io.Closer
	}{lines, f}, nil
}
