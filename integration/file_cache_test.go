package integration

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluiceml/sluice/internal/testing/s3test"
)

// careless trains with a large file of the workspace, which it then overwrites.
const careless = `
set -e
cmp weights weights.copy
printf X | dd of=weights conv=notrunc 2>/dev/null
echo '{"step": 1}' >> "$SLUICE_METRICS"
`

const carelessPipeline = `sluice: pipeline/v1
name: careless
steps:
  fit: {train: {command: [sh, train.sh], pool: lab, total_steps: 1, metrics: [step]}}
  tune: {train: {command: [sh, train.sh], pool: lab, total_steps: 1, metrics: [step]}, needs: [fit]}
`

// TestFileCacheOfALocalPool: the nodes of all steps and runs of a state folder download a file once, unless the pool keeps none.
func TestFileCacheOfALocalPool(t *testing.T) {
	weights := strings.Repeat("weights ", 1<<17)
	sum := sha256.Sum256([]byte(weights))
	name := hex.EncodeToString(sum[:])
	var downloads atomic.Int64
	bucket := s3test.Start(t, "acme", s3test.Options{Around: func(inner http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/"+name) {
				downloads.Add(1)
			}
			inner.ServeHTTP(w, r)
		})
	}})
	s := emptySandbox(t, t.TempDir())
	s.env = append(s.env, "SLUICE_STORE="+bucket.At("sluice"))
	if err := os.Mkdir(s.project, 0o755); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{
		"weights": weights, "weights.copy": weights, "train.sh": careless, "pipeline.yaml": carelessPipeline,
		"environment.yaml": "sluice: environment/v1\nname: e\npools: {lab: {local: {nodes: 1, file_cache: 16MiB}}}\n",
		"none.yaml":        "sluice: environment/v1\nname: e\npools: {lab: {local: {nodes: 1, file_cache: 0}}}\n",
	} {
		write(t, filepath.Join(s.project, file), text)
	}
	kept := filepath.Join(s.state, "cache", "files", strconv.Itoa(os.Geteuid()), name)
	var runs []string
	for _, run := range []struct {
		environment string
		downloads   int64
	}{{"none.yaml", 4}, {"environment.yaml", 1}, {"environment.yaml", 0}} {
		downloads.Store(0)
		runs = append(runs, s.start("run", "pipeline.yaml", "-e", run.environment, "--no-cache").expect(0).runID())
		if n := downloads.Load(); n != run.downloads {
			t.Errorf("with %s the file was downloaded %d times, want %d", run.environment, n, run.downloads)
		}
		if _, err := os.Stat(kept); (err == nil) != (run.environment == "environment.yaml") {
			t.Errorf("with %s: %v", run.environment, err)
		}
	}
	s.start("data", "ls", "--disk").expect(0).says("file cache")
	s.start("rm", runs[0], runs[1], "--yes").expect(0)
	s.start("data", "gc", "--yes", "--older-than", "0s").expect(0)
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("what was removed from the store: %v, want it in the file cache", err)
	}
}

// TestFullFileCache: where a file cache has no room since something else fills its disk, files are fetched past it, and the agent's log says so.
func TestFullFileCache(t *testing.T) {
	bucket := s3test.Start(t, "acme", s3test.Options{})
	for name, room := range map[string]int64{"no room at all": 0, "room for small files": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			s := emptySandbox(t, t.TempDir())
			s.env = append(s.env, "SLUICE_STORE="+bucket.At(strings.ReplaceAll(name, " ", "-")))
			if err := os.Mkdir(s.project, 0o755); err != nil {
				t.Fatal(err)
			}
			weights := strings.Repeat("weights ", 1<<17)
			for file, text := range map[string]string{
				"weights": weights, "weights.copy": weights, "train.sh": careless, "pipeline.yaml": carelessPipeline,
				"environment.yaml": "sluice: environment/v1\nname: e\npools: {lab: {local: {nodes: 1}}}\n",
			} {
				write(t, filepath.Join(s.project, file), text)
			}
			if err := os.MkdirAll(filepath.Join(s.state, "cache"), 0o700); err != nil {
				t.Fatal(err)
			}
			disk := filepath.Join(s.state, "cache", "files")
			mountDisk(t, disk, "size=8m", 0)
			free := fillDisk(t, disk, room)
			run := s.start("run", "pipeline.yaml", "-e", "environment.yaml", "--no-cache").expect(0).runID() // both steps do the same
			for _, step := range []string{"fit", "tune"} {
				log, err := os.ReadFile(filepath.Join(s.state, "logs", run, step, "g1-agent0.log"))
				if err != nil || !strings.Contains(string(log), "level=WARN") || !strings.Contains(string(log), "file cache") {
					t.Errorf("the agent of %s says nothing of the cache: %v\n%s", step, err, log)
				}
			}
			free()
			s.start("run", "pipeline.yaml", "-e", "environment.yaml", "--no-cache").expect(0)
			if kept, err := filepath.Glob(filepath.Join(disk, strconv.Itoa(os.Geteuid()), strings.Repeat("?", 64))); err != nil || len(kept) == 0 {
				t.Errorf("nothing is kept when there is room again: %v", err)
			}
		})
	}
}
