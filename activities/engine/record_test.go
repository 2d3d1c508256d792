package engine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store/record"
)

// A machine that dies may undo a volatile record, or leave it empty: readers are told, and the same is made again.
func TestLostRecordsAreMadeAgain(t *testing.T) {
	for name, lose := range map[string]func(string) error{
		"gone":  os.Remove,
		"empty": func(file string) error { return os.Truncate(file, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, counted)
			b.begin("r1")
			end := contract.StepEnd{
				StepRef: b.at("r1", "count").StepRef, Kind: spec.KindRun, Status: spec.StatusSucceeded, Unsynced: true,
				Output: record.StepOutput{Outputs: []byte(`{"rows": 20}`)},
			}
			if _, err := b.engine.Verdict(t.Context(), end); err != nil {
				t.Fatal(err)
			}
			b.engine.behind.wait("r1")
			want := b.record("r1", "count")
			file := filepath.Join(strings.TrimPrefix(b.engine.Store.URL(), "file://"), record.StepKey("r1", "count"))
			if err := os.Chmod(file, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := lose(file); err != nil {
				t.Fatal(err)
			}
			b.engine = NewEngine(b.engine.Store) // of the process after
			if _, err := b.engine.Resolve(t.Context(), b.at("r1", "use")); fault.TypeOf(err) != fault.Lost {
				t.Fatalf("resolved with %v, want it lost", err)
			}
			if err := b.engine.Sync(t.Context(), contract.SyncInput{Run: "r1", Ends: []record.StepRef{end.StepRef}}); fault.TypeOf(err) != fault.Lost {
				t.Fatalf("made durable with %v, want it lost", err)
			}
			if err := b.engine.Record(t.Context(), contract.RecordInput{Ends: []contract.StepEnd{end}}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, b.record("r1", "count")); diff != "" {
				t.Errorf("made again (-want +got):\n%s", diff)
			}
			if err := b.engine.Sync(t.Context(), contract.SyncInput{Run: "r1", Ends: []record.StepRef{end.StepRef}}); err != nil {
				t.Error(err)
			}
			if _, err := b.engine.Resolve(t.Context(), b.at("r1", "use")); err != nil {
				t.Error(err)
			}
		})
	}
}
