package pipelines

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/pipelines/format"
	"github.com/sluiceml/sluice/pipelines/meter"
	"github.com/sluiceml/sluice/pipelines/program"
	"github.com/sluiceml/sluice/pipelines/text/ngram"
)

// session is the state that a job's DoFns share with the code that started it, in the same process: progress, and the first error before
// Beam converts it to text. Beam creates its own DoFn values, so they look up the session by work folder. Worker processes have sessions of
// their own: see remoteSession.
type session struct {
	read, kept atomic.Int64
	units      atomic.Int64 // finished units of work
	allUnits   int64
	meter      meter.Meter
	// writing and converting are the progress of the shards.
	writing, converting meter.Phase
	// sources and inputBytes are the number of units that read input and the bytes they read; sourcesRead and bytes are how many are done.
	sources, inputBytes int64
	sourcesRead, bytes  atomic.Int64
	// turns limits how many groups, each of which needs memory for its rows, are processed at a time: stages run concurrently.
	turns    chan struct{}
	secrets  map[string]string // not part of the Beam graph, which a runner may store
	tallies  sync.Map          // *tally by transform
	typed    sync.Map          // set of the files whose types were recorded, by reading node and name
	held     sync.Map          // func() (*ngram.HeldOut, error) by transform
	programs *programs
	listed   format.List
	cached   atomic.Int64 // bytes added to the cache
	mu       sync.Mutex
	first    error
	tell     func(first error) // reports to the process that started the job; nil in that process
}

var sessions sync.Map // *session by work folder

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

// maxTurns is how many groups of marks may be in memory at a time.
const maxTurns = 2

// turn waits until a group of marks may be loaded. The caller must call done when it has finished with the group.
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

// HeldOut returns the held-out texts of a Decontaminate, which are read once.
func (s *session) HeldOut(transform string, read func() (*ngram.HeldOut, error)) (*ngram.HeldOut, error) {
	once, _ := s.held.LoadOrStore(transform, sync.OnceValues(read))
	return once.(func() (*ngram.HeldOut, error))()
}

// Settle keeps of the files that were found those that the caller has listed, if it has, as it has listed them.
func (s *session) Settle(found []format.File) ([]format.File, error) { return s.listed.Settle(found) }

// Pool returns the process pool of an Exec.
func (s *session) Pool(name string, c transform.Exec) (*program.Pool, error) {
	return s.programs.pool(name, c)
}

// tally returns the counts of a transform with a threshold.
func (s *session) tally(transform string) *tally {
	t, _ := s.tallies.LoadOrStore(transform, &tally{})
	return t.(*tally)
}

// progress returns the job's progress. Units that read input count by the bytes they have read, since a compressed file is one unit
// whatever its size. Writing all rows is assumed to take as long as one segment, and converting them twice as long.
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

// failed records the first error other than a canceled context, and returns err.
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

// over reports whether the job has failed, so that no more work should start.
func (s *session) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first != nil
}

// cause returns the first recorded error, or err if there is none.
func (s *session) cause(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first != nil {
		return s.first
	}
	return err
}
