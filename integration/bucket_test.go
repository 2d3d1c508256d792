package integration

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sluiceml/sluice/internal/testing/s3test"
)

// TestChainInBucket runs the whole chain with its store in a bucket that only the environment names, and kills an agent meanwhile.
func TestChainInBucket(t *testing.T) {
	address := os.Getenv("SLUICE_TEST_BUCKET") // a real one, as for the drivers' suite
	if address == "" {
		address = s3test.Start(t, "acme", s3test.Options{}).At("")
	}
	where, options, _ := strings.Cut(address, "?")
	s := newChain(t)
	s.storeURL = strings.TrimSuffix(where, "/") + "/" + filepath.Base(s.dir) + filepath.Base(filepath.Dir(s.dir)) + "?" + options
	s.edit("environment.yaml", "name: test\n", "name: test\nstore: {url: \""+s.storeURL+"\"}\n")

	run := s.run("ledger="+s.dir, "steps=100")
	id := run.runID()
	run.await("the first checkpoints", func() bool { return len(s.ledger("trace")) >= 40 })
	kill(t, run.awaitProcess(agentPath), syscall.SIGKILL)
	run.expect(0)

	record := s.show(id)
	if record.Status != "succeeded" {
		t.Errorf("the run is %s: %s", record.Status, record.Error)
	}
	s.checkTraining(record.Steps["fit"], 100)
	if doc := s.routing(); len(doc.Releases) == 0 || doc.Versions != 2 {
		t.Errorf("the bucket's routing document is %+v", doc)
	}
	s.start("logs", id, "fetch").expect(0)
	s.start("report", id, "-o", filepath.Join(s.dir, "report.html")).expect(0)
	s.start("data", "ls").expect(0).says("words")
	s.start("data", "verify").expect(0).says("0 damaged, 0 missing")
	if _, err := os.Stat(filepath.Join(s.state, "store")); err == nil {
		t.Error("the state folder has a store of its own")
	}
	s.hasNo("hidden")

	s.start("plan", "pipeline.yaml", "-e", "environment.yaml", "-p", "ledger="+s.dir, "-p", "steps=100").expect(0)
	again := s.run("ledger="+s.dir, "steps=100").expect(0)
	again.says("fetch")
	if counts := s.ledger("ledger"); counts["fetch"] != 1 || counts["export"] != 1 {
		t.Errorf("programs ran %v times, want each once: the cache lies in the bucket", counts)
	}
}

// hasNo looks for a secret in everything that the state folder keeps.
func (s *sandbox) hasNo(secret string) {
	s.t.Helper()
	err := filepath.WalkDir(s.state, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		if strings.Contains(string(raw), secret) {
			s.t.Errorf("%s holds the secret key", path)
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
}
