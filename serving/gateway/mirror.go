package gateway

import (
	"context"
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
}

// mirrored is a request as it was answered.
type mirrored struct {
	revision int64
	shadow   *release
	inputs   []oip.Tensor
	expected expectation
	// outputs is what the user got; nil when the inference failed.
	outputs []oip.Tensor
}

func newMirror(c *counters, timeout time.Duration) *mirror {
	return &mirror{queue: make(chan mirrored, mirrorQueue), counters: c, timeout: timeout}
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
		}
		job.shadow.inflight.Done()
	}
}

func (m *mirror) repeat(ctx context.Context, job mirrored) {
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
		candidateErr: err != nil || job.expected.wrong(outputs),
		stableErr:    job.outputs == nil || job.expected.wrong(job.outputs),
		compared:     job.outputs != nil,
	}
	if err == nil && seen.compared {
		seen.agree = answer.Same(outputs, job.outputs)
		seen.maxAbs = answer.MaxAbs(outputs, job.outputs)
	}
	m.counters.compare(job.revision, job.shadow.Version, seen)
}
