package worker

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/proto"

	"github.com/sluiceml/sluice/connect/codec"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl/spec"
)

// marker is a word that is nowhere by chance.
const marker = "quartz-vow-9471-sphinx"

// tell shows the marker wherever a run can show something: a parameter, an output, a verdict and an error.
const tell = `name: tell
params: {word: {type: string}}
steps:
  say:
    run:
      script: 'echo "{\"word\": \"$WORD\"}" > "$SLUICE_OUTPUT_DIR/outputs.json"'
      outputs: {word: {type: string}}
    env: {WORD: "${params.word}"}
    gate: word == params.word
  fail:
    needs: [say]
    run: {script: 'echo "$WORD" >&2; exit 3'}
    env: {WORD: "${params.word}"}
`

// TestWhatTemporalKeeps: with keys, nothing that a pipeline handles is in Temporal's database; without, it is. What is large is in
// the store alone, encrypted as well.
func TestWhatTemporalKeeps(t *testing.T) {
	for name, keys := range map[string]string{"plain": "", "encrypted": codec.NewKey(time.Now())} {
		t.Run(name, func(t *testing.T) {
			s := openWith(t, keys)
			out, _ := wait(t, s, submit(t, s, control.SubmitRequest{
				PipelineFile: project(t, tell, nil), Params: map[string]string{"word": marker},
			}).Run)
			if out.Status != spec.StatusFailed || !strings.Contains(out.Error, marker) {
				t.Fatalf("the run ended as %+v", out)
			}
			if seen := inFiles(t, s.Dir, "temporal-", marker); seen == s.Codec.Encrypts() {
				t.Errorf("encrypted: %v, and Temporal's database shows the marker: %v", s.Codec.Encrypts(), seen)
			}

			large := slices.Concat(noise(t, 1<<20), []byte(marker+"-large"), noise(t, 1<<20))
			sizes := echo(t, s, large)
			if limit := 1 << 10; slices.Max(sizes) > limit {
				t.Errorf("the events of a workflow with large payloads have %v bytes, want %d at most", sizes, limit)
			}
			if inFiles(t, s.Dir, "temporal-", marker+"-large") {
				t.Error("a large payload is in Temporal's database")
			}
			if seen := inFiles(t, filepath.Join(s.Dir, "store", "blobs"), "", marker+"-large"); seen == s.Codec.Encrypts() {
				t.Errorf("encrypted: %v, and the store shows the large payload: %v", s.Codec.Encrypts(), seen)
			}
		})
	}
}

// TestAttachWithoutTheKeys: a process must not store as it is what the holder would encrypt, nor the other way round.
func TestAttachWithoutTheKeys(t *testing.T) {
	for name, keys := range map[string]string{"the holder": codec.NewKey(time.Now()), "the other": ""} {
		t.Run(name, func(t *testing.T) {
			s := openWith(t, keys)
			t.Setenv(codec.KeysVariable, "")
			if keys == "" {
				t.Setenv(codec.KeysVariable, writeKeys(t, codec.NewKey(time.Now())))
			}
			other, err := control.Open(t.Context(), control.Options{StateDir: s.Dir, Logger: slog.New(slog.DiscardHandler)})
			if err == nil || !strings.Contains(err.Error(), "one process encrypts payloads and the other does not") || !strings.Contains(err.Error(), codec.KeysVariable) {
				t.Errorf("attached: %+v, %v", other, err)
			}
			if keys != "" && !strings.Contains(err.Error(), s.Codec.KeyFile()) {
				t.Errorf("the error does not name the file: %v", err)
			}
		})
	}
}

// openWith opens a session of its own, as holder, with a key file of the given text; "" for none.
func openWith(t *testing.T, keys string) *control.Session {
	t.Helper()
	t.Setenv(codec.KeysVariable, "")
	if keys != "" {
		t.Setenv(codec.KeysVariable, writeKeys(t, keys))
	}
	p := open(t, control.Options{StateDir: t.TempDir()}, Options{})
	closeAfter(t, p)
	return p.Session
}

func writeKeys(t *testing.T, keys string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte(keys), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// echo has a workflow give data back and returns the sizes of its history's events.
func echo(t *testing.T, s *control.Session, data []byte) []int {
	t.Helper()
	const queue = "echo"
	w := worker.New(s.Client, queue, worker.Options{})
	w.RegisterWorkflowWithOptions(func(_ workflow.Context, in []byte) ([]byte, error) { return in, nil }, workflow.RegisterOptions{Name: queue})
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), testLimit)
	defer cancel()
	run, err := s.Client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: queue, TaskQueue: queue}, queue, data)
	if err != nil {
		t.Fatal(err)
	}
	var got []byte
	if err := run.Get(ctx, &got); err != nil || !bytes.Equal(got, data) {
		t.Fatalf("%d bytes came back of %d, %v", len(got), len(data), err)
	}
	var sizes []int
	for events := s.Client.GetWorkflowHistory(ctx, queue, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); events.HasNext(); {
		event, err := events.Next()
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, proto.Size(event))
	}
	return sizes
}

// noise is what cannot be compressed, so that the store keeps it as it is.
func noise(t *testing.T, n int) []byte {
	t.Helper()
	out := make([]byte, n)
	if _, err := rand.Read(out); err != nil {
		t.Fatal(err)
	}
	return out
}

// inFiles reports whether a file in dir whose name begins with prefix contains text. There must be such files.
func inFiles(t *testing.T, dir, prefix, text string) bool {
	t.Helper()
	files, found := 0, false
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasPrefix(entry.Name(), prefix) {
			return err
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) { // SQLite's journal comes and goes
			return nil
		}
		files++
		found = found || bytes.Contains(data, []byte(text))
		return err
	})
	if err != nil || files == 0 {
		t.Fatalf("%d files %s* read in %s: %v", files, prefix, dir, err)
	}
	return found
}
