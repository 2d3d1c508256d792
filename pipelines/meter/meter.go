// Package meter tells how far a job is, how fast it goes, and how long the rest takes.
package meter

import (
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluiceml/sluice/internal/human"
)

// Progress tells how far a job is.
type Progress struct {
	// Read counts the rows read from the input so far, Kept those written to the dataset.
	Read int64 `json:"read"`
	Kept int64 `json:"kept"`
	// Bytes is how much of the input's files was read, as they are stored.
	Bytes int64 `json:"bytes"`
	// RowsPerSecond and BytesPerSecond are how fast the input was read lately; zero once all of it is.
	RowsPerSecond  float64 `json:"rows_per_second"`
	BytesPerSecond float64 `json:"bytes_per_second"`
	// Done is the share of the work that is done, 0 to 1. It never falls.
	Done float64 `json:"done"`
	// Left is the time that the rest takes at the pace so far, in seconds; negative while that is not known.
	Left float64 `json:"left"`
}

// String is one line for people. Its first part changes seldom.
func (p Progress) String() string {
	parts := []string{"cleaning", human.Count(p.Read) + " rows read"}
	if p.Kept > 0 {
		parts[0] = "writing"
	}
	if p.RowsPerSecond >= 0.5 {
		parts = append(parts, human.Count(int64(math.Round(p.RowsPerSecond)))+" rows/s", human.Bytes(int64(p.BytesPerSecond))+"/s")
	}
	if p.Kept > 0 {
		parts = append(parts, human.Count(p.Kept)+" written")
	}
	if p.Left >= 0.5 {
		parts = append(parts, human.Seconds(math.Round(p.Left))+" left")
	}
	return strings.Join(parts, " · ")
}

// printEvery is the time between two lines of a Printer.
const printEvery = 10 * time.Second

// Printer returns what prints how far a job is, not too often.
func Printer(to io.Writer) func(Progress) {
	printed := time.Now()
	return func(p Progress) {
		if now := time.Now(); now.Sub(printed) >= printEvery {
			printed = now
			fmt.Fprintln(to, p.String()) //nolint:errcheck // it is for the log
		}
	}
}

const (
	// window is the time over which rates are smoothed.
	window = 5 * time.Second
	// warmup and least are how long a job must have run, and how much of it be done, before the rest is foretold.
	warmup = 3 * time.Second
	least  = 0.005
)

// Meter makes rates of counts, and foretells.
type Meter struct {
	mu          sync.Mutex
	began, last time.Time
	rows, bytes int64
	p           Progress
	resting     bool
}

// Rest says that nothing is read any more.
func (m *Meter) Rest() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.resting = true
}

// At returns the progress at a time, given the counts and the share done.
func (m *Meter) At(now time.Time, read, kept, bytes int64, done float64) Progress {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.began.IsZero() {
		m.began, m.last = now, now
	}
	m.p.Read, m.p.Kept, m.p.Bytes = read, kept, bytes
	m.p.Done = max(m.p.Done, min(done, 1))
	if d := now.Sub(m.last); d > 0 {
		m.p.RowsPerSecond = m.smooth(m.p.RowsPerSecond, float64(read-m.rows), d)
		m.p.BytesPerSecond = m.smooth(m.p.BytesPerSecond, float64(bytes-m.bytes), d)
		m.last, m.rows, m.bytes = now, read, bytes
	}
	if m.resting {
		m.p.RowsPerSecond, m.p.BytesPerSecond = 0, 0
	}
	spent := now.Sub(m.began)
	m.p.Left = -1
	if spent >= warmup && m.p.Done >= least {
		m.p.Left = spent.Seconds() * (1 - m.p.Done) / m.p.Done
	}
	return m.p
}

// smooth weighs the rate of the time since the last look against that before. Of the first look there is none before.
func (m *Meter) smooth(before, n float64, d time.Duration) float64 {
	now := n / d.Seconds()
	if m.last.Equal(m.began) {
		return now
	}
	keep := math.Exp(-d.Seconds() / window.Seconds())
	return keep*before + (1-keep)*now
}

// Phase is work on shards.
type Phase struct {
	Shards int64
	mille  atomic.Int64 // thousandths of shards that are done
}

// Share returns how much is done.
func (p *Phase) Share() float64 { return min(1, float64(p.mille.Load())/1000/float64(p.Shards)) }

// Shard begins a shard of a size, and returns what is to be called with every part of it that is done.
func (p *Phase) Shard(size int64) func(part int64) {
	done, told := int64(0), int64(0)
	return func(part int64) {
		done += part
		if now := 1000 * done / max(size, 1); now > told {
			p.mille.Add(now - told)
			told = now
		}
	}
}
