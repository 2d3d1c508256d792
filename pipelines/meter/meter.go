// Package meter computes a job's progress, its rate and the remaining time.
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

// Progress is the progress of a job.
type Progress struct {
	// Read counts the rows read from the input so far, Kept those written to the dataset.
	Read int64 `json:"read"`
	Kept int64 `json:"kept"`
	// Bytes is how many bytes of the input's files, as stored, were read.
	Bytes int64 `json:"bytes"`
	// RowsPerSecond and BytesPerSecond are the recent read rates; zero once all input is read.
	RowsPerSecond  float64 `json:"rows_per_second"`
	BytesPerSecond float64 `json:"bytes_per_second"`
	// Done is the share of the work that is done, 0 to 1. It never decreases.
	Done float64 `json:"done"`
	// Left is the estimated remaining time in seconds; negative while it is unknown.
	Left float64 `json:"left"`
}

// String returns one line for people. Its first part rarely changes.
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

// printEvery is the least time between two lines of a Printer.
const printEvery = 10 * time.Second

// Printer returns a function that prints progress, at most every printEvery.
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
	// warmup and least are how long a job must have run, and how much of it must be done, before the remaining time is estimated.
	warmup = 3 * time.Second
	least  = 0.005
)

// Meter computes rates from counts, and estimates the remaining time.
type Meter struct {
	mu          sync.Mutex
	began, last time.Time
	rows, bytes int64
	p           Progress
	resting     bool
}

// Rest says that all input has been read.
func (m *Meter) Rest() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.resting = true
}

// At returns the progress at the time now, given the counts and the share done.
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

// smooth returns the exponentially smoothed rate: n since the last call, and the rate before. The first interval has no earlier rate.
func (m *Meter) smooth(before, n float64, d time.Duration) float64 {
	now := n / d.Seconds()
	if m.last.Equal(m.began) {
		return now
	}
	keep := math.Exp(-d.Seconds() / window.Seconds())
	return keep*before + (1-keep)*now
}

// Phase is the progress of work on shards.
type Phase struct {
	Shards int64
	mille  atomic.Int64 // finished thousandths of shards
}

// Share returns the share of the work that is done.
func (p *Phase) Share() float64 { return min(1, float64(p.mille.Load())/1000/float64(p.Shards)) }

// Shard begins a shard of a size, and returns a function to call with the size of each part that is done.
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
