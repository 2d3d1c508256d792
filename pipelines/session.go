package pipelines

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/pipelines/meter"
	"github.com/sluiceml/sluice/pipelines/program"
	"github.com/sluiceml/sluice/pipelines/text/ngram"
)

// session is what the DoFns of a job share with the code that started it, in the same process: how far it is, and the first
// error as it was before Beam made text of it. Beam makes its own DoFn values, so they find the session by the work folder. In
// a worker of another process they have one of its own: see remoteSession.
type session struct {
	read, kept atomic.Int64
	units      atomic.Int64 // finished units of work
	allUnits   int64
	meter      meter.Meter
	// writing and converting are how far the shards are.
	writing, converting meter.Phase
	// Of the units, those that read the input: how many there are, and are finished, and the bytes they have to read, and have read.
	sources, inputBytes int64
	sourcesRead, bytes  atomic.Int64
	// turns are as many as there may be of what takes memory for each of its rows: stages run side by side.
	turns    chan struct{}
	secrets  map[string]string // which the Beam graph, that a runner may keep, does not hold
	tallies  sync.Map          // of *tally by transform
	typed    sync.Map          // files whose types are noted, by the place they are read at and their name
	held     sync.Map          // of func() (*ngram.HeldOut, error) by transform
	programs *programs
	cached   atomic.Int64 // bytes added to the cache
	mu       sync.Mutex
	first    error
	tell     func(first error) // tells the process that started the job; nil in that process
}

var sessions sync.Map // of *session by work folder

// openSession registers a session; close it with sessions.Delete.
func openSession(job Job) *session {
	s := newSession()
	s.secrets = job.Secrets
	sessions.Store(job.WorkDir, s)
	return s
}

func sessionOf(work string) *session {
	if s, ok := sessions.Load(work); ok {
		return s.(*session)
	}
	if inWorker.Load() {
		return remoteSession(work)
	}
	return newSession()
}

func newSession() *session { return &session{allUnits: 1, turns: make(chan struct{}, maxTurns)} }

// maxTurns is how many groups of marks are in memory at a time.
const maxTurns = 2

// turn waits until there is room for a group of marks, which there is again when the function it returns is called.
func (s *session) turn(ctx context.Context) (done func(), err error) {
	select {
	case s.turns <- struct{}{}:
		return func() { <-s.turns }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (s *session) unitDone() {
	s.units.Add(1)
	if s.tell != nil {
		s.tell(nil)
	}
}

// HeldOut returns what a Decontaminate compares with. It is read once.
func (s *session) HeldOut(transform string, read func() (*ngram.HeldOut, error)) (*ngram.HeldOut, error) {
	once, _ := s.held.LoadOrStore(transform, sync.OnceValues(read))
	return once.(func() (*ngram.HeldOut, error))()
}

// Pool returns the processes of a transform.
func (s *session) Pool(name string, c transform.Exec) (*program.Pool, error) {
	return s.programs.pool(name, c)
}

// tally returns the counts of a transform with a threshold.
func (s *session) tally(transform string) *tally {
	t, _ := s.tallies.LoadOrStore(transform, &tally{})
	return t.(*tally)
}

// progress returns how far the job is. Of the units that read, the bytes they have read count, since a compressed file is one unit
// whatever its size. Writing and converting all rows take about as long as a segment each, and twice that.
func (s *session) progress() meter.Progress {
	finished, bytes := s.sourcesRead.Load(), s.bytes.Load()
	done, all := float64(s.units.Load()-finished), float64(s.allUnits)
	if s.sources > 0 {
		share := float64(finished) / float64(s.sources)
		if s.inputBytes > 0 {
			share = max(share, min(1, float64(bytes)/float64(s.inputBytes)))
		}
		done += share * float64(s.sources)
	}
	for _, phase := range []struct {
		of     *meter.Phase
		weight float64
	}{{&s.writing, float64(s.sources)}, {&s.converting, 2 * float64(s.sources)}} {
		if phase.of.Shards > 0 {
			done, all = done+phase.weight*phase.of.Share(), all+phase.weight
		}
	}
	if finished == s.sources {
		s.meter.Rest()
	}
	return s.meter.At(time.Now(), s.read.Load(), s.kept.Load(), bytes, done/all)
}

// failed remembers the first error that is not just the end of the context, and returns err.
func (s *session) failed(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first == nil && err != nil && !errors.Is(err, context.Canceled) {
		s.first = err
		if s.tell != nil {
			s.tell(err)
		}
	}
	return err
}

// over reports whether the job has failed, so that nothing need be begun.
func (s *session) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first != nil
}

// cause returns the first error of a DoFn, or else err.
func (s *session) cause(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first != nil {
		return s.first
	}
	return err
}
