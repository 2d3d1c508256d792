package gateway

import (
	"context"
	"log/slog"
	"reflect"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/sluiceml/sluice/serving/answer"
	"github.com/sluiceml/sluice/serving/oip"
)

// What waits to be mirrored is bounded in number and in bytes. Users' requests never wait for it; what does not fit is dropped and counted.
const (
	mirrorQueue = 256
	mirrorBytes = 64 << 20 // of inputs and answers
)

// mirror repeats requests on a shadow release, one at a time, and compares the answers with those that users got.
type mirror struct {
	queue    chan mirrored
	waiting  atomic.Int64 // bytes
	counters *counters
	timeout  time.Duration
	log      *slog.Logger
}

// mirrored is a request as it was answered.
type mirrored struct {
	revision int64
	drawn    drawn
	shadow   *release
	inputs   []oip.Tensor
	// rules, lossBound and label are those of the request that users made.
	rules     answer.Rules
	lossBound float64
	label     answer.Label
	// outputs is what the user got; nil when the inference failed.
	outputs []oip.Tensor
	bytes   int64 // of both; add works it out
}

func newMirror(c *counters, timeout time.Duration, log *slog.Logger) *mirror {
	return &mirror{queue: make(chan mirrored, mirrorQueue), counters: c, timeout: timeout, log: log}
}

// add takes a request and its hold on the shadow release.
func (m *mirror) add(job mirrored) {
	job.bytes = bytesOf(job.inputs) + bytesOf(job.outputs)
	if m.waiting.Add(job.bytes) <= mirrorBytes {
		select {
		case m.queue <- job:
			return
		default:
		}
	}
	m.waiting.Add(-job.bytes)
	m.counters.dropped(job.revision, job.shadow.Version)
	job.shadow.inflight.Done()
}

// bytesOf is how much memory the elements of tensors take.
func bytesOf(tensors []oip.Tensor) int64 {
	var n int64
	for _, t := range tensors {
		if elements := reflect.ValueOf(t.Data); elements.Kind() == reflect.Slice {
			n += int64(elements.Len()) * int64(elements.Type().Elem().Size())
		}
		if texts, ok := t.Data.([]string); ok {
			for _, text := range texts {
				n += int64(len(text))
			}
		}
	}
	return n
}

func (m *mirror) close() { close(m.queue) }

func (m *mirror) run(ctx context.Context) {
	for job := range m.queue {
		if ctx.Err() == nil {
			m.repeat(ctx, job)
		} else {
			job.shadow.inflight.Done()
		}
		m.waiting.Add(-job.bytes)
	}
}

// repeat makes one mirrored request and lets go of the shadow release. Whatever goes wrong with it, users are served on.
func (m *mirror) repeat(ctx context.Context, job mirrored) {
	defer job.shadow.inflight.Done()
	defer m.counters.start(job.revision)()
	defer func() {
		if p := recover(); p != nil {
			m.log.Error("a mirrored request could not be compared", "release", job.shadow.Version, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	deadline, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	outputs, took, err := job.shadow.infer(deadline, job.inputs)
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
		var known, stableKnown bool
		seen.loss, known = job.rules.Loss(job.label, outputs, job.lossBound)
		seen.stableLoss, stableKnown = job.rules.Loss(job.label, job.outputs, job.lossBound)
		seen.hasLoss = known && stableKnown
	}
	m.counters.compare(job, seen)
}
