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

// A worker in a process of its own, possibly on another machine, has its own session. Once a second it writes its progress to a file in the
// work folder, and the process that started the job adds it to its own. Errors are reported that way, too, before Beam converts them to
// text.

// inWorker is set in a process that a runner has started as a worker.
var inWorker atomic.Bool

// workerReport is the content of a worker's file.
type workerReport struct {
	Read        int64        `json:"read"`
	Kept        int64        `json:"kept"`
	Units       int64        `json:"units"`
	SourcesRead int64        `json:"sources_read"`
	Bytes       int64        `json:"bytes"`
	Error       *fault.Error `json:"error,omitempty"`
}

// workerReportsDir returns the folder of the workers' files.
func workerReportsDir(work string) string { return filepath.Join(work, "workers") }

// remoteSession returns the session of a job in a worker process.
func remoteSession(work string) *session {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	path := filepath.Join(workerReportsDir(work), fmt.Sprintf("%s-%d.json", host, os.Getpid()))
	var writing sync.Mutex
	var failure error // reported from then on
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

// write replaces the worker's file atomically.
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

// followWorkers adds the workers' reports to the session periodically until the returned function is called, which does it once more.
func (s *session) followWorkers(work string) (stop func()) {
	known := map[string]workerReport{}
	look := func() {
		paths, _ := filepath.Glob(filepath.Join(workerReportsDir(work), "*.json")) // fails only if the folder's name is a malformed pattern
		for _, path := range paths {
			var n workerReport
			text, err := os.ReadFile(path)
			if err != nil || json.Unmarshal(text, &n) != nil {
				continue // the next round may succeed
			}
			s.add(n, known[path])
			known[path] = n
		}
	}
	quit := every(progressEvery, look)
	return func() { quit(); look() }
}

// add adds the difference between a worker's report and the one before.
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
