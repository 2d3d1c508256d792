package gateway

import (
	"context"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/sluiceml/sluice/serving/answer"
	"github.com/sluiceml/sluice/serving/oip"
)

// mirrorQueue bounds how many mirrored requests wait. Users' requests never wait for them; what does not fit is dropped and counted.
const mirrorQueue = 256

// mirror repeats requests on a shadow release, one at a time, and compares the answers with those that users got.
type mirror struct {
	queue    chan mirrored
	counters *counters
	timeout  time.Duration
	log      *slog.Logger
}

// mirrored is a request as it was answered.
type mirrored struct {
	revision int64
	shadow   *release
	inputs   []oip.Tensor
	rules    answer.Rules
	label    answer.Label
	// outputs is what the user got; nil when the inference failed.
	outputs []oip.Tensor
}

func newMirror(c *counters, timeout time.Duration, log *slog.Logger) *mirror {
	return &mirror{queue: make(chan mirrored, mirrorQueue), counters: c, timeout: timeout, log: log}
}

// add takes a request and its hold on the shadow release.
func (m *mirror) add(job mirrored) {
	select {
	case m.queue <- job:
	default:
		m.counters.dropped(job.revision, job.shadow.Version)
		job.shadow.inflight.Done()
	}
}

func (m *mirror) close() { close(m.queue) }

func (m *mirror) run(ctx context.Context) {
	for job := range m.queue {
		if ctx.Err() == nil {
			m.repeat(ctx, job)
		} else {
			job.shadow.inflight.Done()
		}
	}
}

// repeat makes one mirrored request and lets go of the shadow release. Whatever goes wrong with it, users are served on.
func (m *mirror) repeat(ctx context.Context, job mirrored) {
	defer job.shadow.inflight.Done()
	defer func() {
		if p := recover(); p != nil {
			m.log.Error("a mirrored request could not be compared", "release", job.shadow.Version, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	deadline, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	start := time.Now()
	outputs, err := inferFinite(deadline, job.shadow.upstream, job.inputs)
	took := time.Since(start)
	if ctx.Err() != nil {
		return // the gateway is closing: this says nothing of the release
	}
	seen := comparison{
		latency:      took,
		candidateErr: err != nil || job.rules.Wrong(job.label, outputs),
		stableErr:    job.outputs == nil || job.rules.Wrong(job.label, job.outputs),
		compared:     job.outputs != nil,
	}
	if err == nil && job.outputs != nil {
		same, classes := job.rules.Same(outputs, job.outputs)
		maxAbs, numbers := answer.MaxAbs(outputs, job.outputs)
		seen.compared, seen.agree, seen.noAnswer, seen.maxAbs = classes || numbers, same, !classes, maxAbs
	}
	m.counters.compare(job.revision, job.shadow.Version, seen)
}
