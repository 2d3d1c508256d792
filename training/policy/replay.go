package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
)

// Trace is when spot was to be had of one kind of machine in one place.
type Trace struct {
	Zone     string `json:"zone,omitempty"`
	Instance string `json:"instance,omitempty"`
	// GapSeconds is how long one character of a window stands for.
	GapSeconds float64  `json:"gap_seconds"`
	Windows    []Window `json:"windows"`
}

// Window is one stretch of a trace: a character for each interval, 1 when spot was to be had and 0 when not.
type Window struct {
	Start     int    `json:"start,omitempty"`
	Available string `json:"available"`
}

// maxTrace bounds a trace's document.
const maxTrace = 64 << 20

// ReadTrace reads and checks a trace in JSON.
func ReadTrace(r io.Reader) (Trace, error) {
	var t Trace
	raw, err := io.ReadAll(io.LimitReader(r, maxTrace+1))
	switch {
	case err != nil:
		return t, err
	case len(raw) > maxTrace:
		return t, fmt.Errorf("a trace must not be larger than %d MiB", maxTrace>>20)
	}
	if err := json.Unmarshal(raw, &t); err != nil {
		return t, fmt.Errorf("a trace must be a JSON object with gap_seconds and windows: %w", err)
	}
	switch gap := t.GapSeconds; {
	case !(gap >= 1 && gap <= 86400):
		return t, fmt.Errorf("gap_seconds is %g; it must be from 1 to 86400", gap)
	case len(t.Windows) == 0:
		return t, errors.New("there are no windows")
	}
	for i, w := range t.Windows {
		if w.Available == "" || strings.Trim(w.Available, "01") != "" {
			return t, fmt.Errorf("windows[%d].available must be one or more of the characters 0 and 1", i)
		}
	}
	return t, nil
}

// Gap is how long one character of a window stands for.
func (t Trace) Gap() time.Duration { return time.Duration(t.GapSeconds * float64(time.Second)) }

// Job is what is trained in a replay.
type Job struct {
	// Work is how long it trains, and Within how long it may take.
	Work, Within time.Duration
	Changeover   time.Duration
	// Every is the work between checkpoints: spot that goes takes along what was done since the last. 0: it takes nothing along.
	Every  time.Duration
	Prices spec.Prices
}

// Outcome is how a replay ended.
type Outcome struct {
	CostUSD float64
	// Late is how long after the deadline it was done; not positive: in time.
	Late time.Duration
	// Changeovers counts how often nodes were started.
	Changeovers int
	// OnSpot and OnDemand are how long nodes were paid for, and Waited how long there were none.
	OnSpot, OnDemand, Waited time.Duration
}

// Replay trains a job on a window. Past the window's end there is no spot. A strategy decides once in each interval; nodes that are
// taken anew train after the changeover.
func Replay(decide Strategy, job Job, w Window, gap time.Duration) Outcome {
	r := replay{job: job, decide: decide, work: job.Work}
	for i := 0; r.work > 0; i++ {
		r.interval(i < len(w.Available) && w.Available[i] == '1', gap)
	}
	r.out.Late = r.elapsed - job.Within
	return r.out
}

// replay is the state of a replay.
type replay struct {
	job     Job
	decide  Strategy
	work    time.Duration
	fresh   time.Duration // the work since the last checkpoint
	elapsed time.Duration
	running string
	booting time.Duration // until the nodes that run train
	losses  int
	out     Outcome
}

// interval plays one interval of the trace.
func (r *replay) interval(available bool, gap time.Duration) {
	if r.running == spec.CapacitySpot && !available {
		r.running = ""
		r.losses++
		r.work += r.fresh
		r.fresh = 0
	}
	if next := r.next(available, gap); next != r.running {
		r.running, r.fresh = next, 0 // who is told to leave saves a checkpoint
		if next != "" {
			r.booting = r.job.Changeover
			r.out.Changeovers++
		}
	}
	r.train(gap)
}

// next is what runs in the interval.
func (r *replay) next(available bool, gap time.Duration) string {
	d := r.decide(State{
		Deadline: true, Work: r.work, Left: r.job.Within - r.elapsed, TotalWork: r.job.Work, Window: r.job.Within, Elapsed: r.elapsed,
		Changeover: r.job.Changeover, Risk: r.risk(gap), Tick: gap, Running: r.running, Spot: true, OnDemand: true, Prices: r.job.Prices,
		SpotUp: r.out.OnSpot, SpotLosses: r.losses,
	})
	switch {
	case d.Spot && (available || r.running == spec.CapacitySpot):
		return spec.CapacitySpot
	case d.OnDemand:
		return spec.CapacityOnDemand
	}
	return ""
}

// risk is what a gang on spot loses at most if it goes at the end of an interval.
func (r *replay) risk(gap time.Duration) time.Duration {
	if r.running != spec.CapacitySpot {
		return r.job.Every
	}
	return min(r.fresh+gap, r.job.Every)
}

// train lets what runs train for an interval, or until the work is done.
func (r *replay) train(gap time.Duration) {
	spent := gap
	if r.running != "" {
		boot := min(r.booting, gap)
		r.booting -= boot
		done := min(gap-boot, r.work)
		r.work -= done
		if r.job.Every > 0 {
			r.fresh = (r.fresh + done) % r.job.Every
		}
		if r.work == 0 {
			spent = boot + done
		}
	}
	r.elapsed += spent
	switch r.running {
	case spec.CapacitySpot:
		r.out.OnSpot += spent
	case spec.CapacityOnDemand:
		r.out.OnDemand += spent
	default:
		r.out.Waited += spent
	}
	r.out.CostUSD = r.job.cost(r.out.OnSpot, r.out.OnDemand)
}

func (j Job) cost(spot, onDemand time.Duration) float64 {
	return spot.Hours()*j.Prices.Spot + onDemand.Hours()*j.Prices.OnDemand
}
