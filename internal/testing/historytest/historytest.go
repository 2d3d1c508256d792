// Package historytest records the histories of real workflows and replays them: a workflow that is under way must survive a new
// release of Sluice, whose code has to give the same orders again.
package historytest

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/sluiceml/sluice/connect/codec"
	"github.com/sluiceml/sluice/internal/fault/boundary"
)

var folder = flag.String("record", "", "folder to write the histories of the tests' workflows to, for the tests that replay them")

// Record checks that the history of a workflow that has ended can be read by people, and writes it to <name>.json in the folder of the
// flag -record; without the flag it writes nothing. What names the machine is left out.
func Record(t testing.TB, c client.Client, workflowID, name string) {
	t.Helper()
	RecordRun(t, c, workflowID, "", name)
}

// RecordRun is Record for one of a workflow's histories; a long one is compressed.
func RecordRun(t testing.TB, c client.Client, workflowID, runID, name string) {
	t.Helper()
	all := fetch(t, c, workflowID, runID)
	checkSummaries(t, workflowID, all)
	if *folder == "" {
		return
	}
	raw, err := protojson.Marshal(all)
	if err != nil {
		t.Fatalf("record %s: %v", workflowID, err)
	}
	var text bytes.Buffer
	if err := json.Compact(&text, raw); err != nil { // protojson varies its spaces on purpose
		t.Fatalf("record %s: %v", workflowID, err)
	}
	text.WriteByte('\n')
	if err := write(filepath.Join(*folder, name+".json"), text.Bytes()); err != nil {
		t.Fatalf("record %s: %v", workflowID, err)
	}
}

// fetch reads one of a workflow's histories, the newest if runID is empty, without what names the machine.
func fetch(t testing.TB, c client.Client, workflowID, runID string) *history.History {
	t.Helper()
	all := new(history.History)
	for events := c.GetWorkflowHistory(t.Context(), workflowID, runID, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); events.HasNext(); {
		event, err := events.Next()
		if err != nil {
			t.Fatalf("read %s: %v", workflowID, err)
		}
		anonymize(event.ProtoReflect())
		all.Events = append(all.Events, event)
	}
	return all
}

// maxPlain is how large a recorded history may be before it is compressed.
const maxPlain = 128 << 10

func write(path string, raw []byte) error {
	os.Remove(path) // of an earlier recording, of either kind
	os.Remove(path + ".gz")
	if len(raw) <= maxPlain {
		return os.WriteFile(path, raw, 0o644)
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(raw); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(path+".gz", packed.Bytes(), 0o644)
}

func read(path string) (*history.History, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var from io.Reader = f
	if filepath.Ext(path) == ".gz" {
		if from, err = gzip.NewReader(f); err != nil {
			return nil, err
		}
	}
	return client.HistoryFromJSON(from, client.HistoryJSONOptions{})
}

// anonymize clears the fields of an event that say which process on which machine did it.
func anonymize(m protoreflect.Message) {
	if queue, ok := m.Interface().(*taskqueue.TaskQueue); ok && queue.GetKind() == enums.TASK_QUEUE_KIND_STICKY {
		queue.Name = "sticky" // instead of the worker's own
	}
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case field.Name() == "identity" || field.Name() == "worker_version" || field.Name() == "binary_checksum":
			m.Clear(field)
		case field.Message() != nil && !field.IsList() && !field.IsMap():
			anonymize(v.Message())
		}
		return true
	})
}

// Replay replays every history that pattern matches on a workflow function, as registered under name.
func Replay(t *testing.T, pattern, name string, function any) {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d recorded histories match %s, %v", len(paths), pattern, err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{
				DataConverter: codec.New(nil, nil).DataConverter(), // what is long was recorded compressed
				Interceptors:  []interceptor.WorkerInterceptor{&boundary.Interceptor{}},
			})
			if err != nil {
				t.Fatal(err)
			}
			replayer.RegisterWorkflowWithOptions(function, workflow.RegisterOptions{Name: name})
			quiet := log.NewStructuredLogger(slog.New(slog.DiscardHandler))
			recorded, err := read(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := replayer.ReplayWorkflowHistory(quiet, recorded); err != nil {
				t.Error(err)
			}
		})
	}
}
