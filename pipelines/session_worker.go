package pipelines

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/sluiceml/sluice/internal/fault"
)

// A worker in a process of its own, on whatever machine, has a session of its own. It tells how far it is by a file in the work
// folder, once a second, and the process that started the job adds that to its own. An error is told before Beam makes text of it.

// inWorker is set in a process that a runner has started.
var inWorker atomic.Bool

// workerReport is what a worker tells.
type workerReport struct {
	Read        int64        `json:"read"`
	Kept        int64        `json:"kept"`
	Units       int64        `json:"units"`
	SourcesRead int64        `json:"sources_read"`
	Bytes       int64        `json:"bytes"`
	Error       *fault.Error `json:"error,omitempty"`
}

// workerReportsDir is the folder of the workers' files.
func workerReportsDir(work string) string { return filepath.Join(work, "workers") }

// remoteSession returns the session of a job in a worker.
func remoteSession(work string) *session {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	path := filepath.Join(workerReportsDir(work), fmt.Sprintf("%s-%d.json", host, os.Getpid()))
	var writing sync.Mutex
	var failure error // stays
	fresh := newSession()
	fresh.tell = func(first error) {
		writing.Lock()
		defer writing.Unlock()
		if failure == nil {
			failure = first
		}
		fresh.write(path, failure) //nolint:errcheck // when the work folder is gone nobody reads it
	}
	s, known := sessions.LoadOrStore(work, fresh)
	if !known {
		every(progressEvery, func() { fresh.tell(nil) }) // until the process ends
	}
	return s.(*session)
}

// write makes the news the file's content in one step.
func (s *session) write(path string, first error) error {
	n := workerReport{Read: s.read.Load(), Kept: s.kept.Load(), Units: s.units.Load(), SourcesRead: s.sourcesRead.Load(), Bytes: s.bytes.Load()}
	if first != nil {
		n.Error = fault.Of(first)
	}
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", text, 0o666); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// followWorkers adds what workers tell to the session, until the function it returns is called, and then once more.
func (s *session) followWorkers(work string) (stop func()) {
	known := map[string]workerReport{}
	look := func() {
		paths, _ := filepath.Glob(filepath.Join(workerReportsDir(work), "*.json")) // the pattern is a good one, unless the folder's name is not
		for _, path := range paths {
			var n workerReport
			text, err := os.ReadFile(path)
			if err != nil || json.Unmarshal(text, &n) != nil {
				continue // the next look may do better
			}
			s.add(n, known[path])
			known[path] = n
		}
	}
	quit := every(progressEvery, look)
	return func() { quit(); look() }
}

// add adds what is new in a worker's news.
func (s *session) add(n, before workerReport) {
	s.read.Add(n.Read - before.Read)
	s.kept.Add(n.Kept - before.Kept)
	s.units.Add(n.Units - before.Units)
	s.sourcesRead.Add(n.SourcesRead - before.SourcesRead)
	s.bytes.Add(n.Bytes - before.Bytes)
	if n.Error != nil {
		_ = s.failed(n.Error)
	}
}
