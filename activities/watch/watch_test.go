package watch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

var began = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

const (
	second = spec.Duration(time.Second)
	minute = spec.Duration(time.Minute)
)

// watcher plays the watch workflow on a store, with a clock that the test moves.
type watcher struct {
	*Triggers
	in      contract.WatchInput
	now     time.Time
	started []contract.Look
}

// TB is what tests and properties have in common.
type TB interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// stores counts the stores that were made, since one in memory is there for all of the process.
var stores atomic.Int64

func watch(t TB, sp spec.Trigger) *watcher {
	t.Helper()
	s, err := store.Open(context.Background(), fmt.Sprintf("mem://triggers-%d", stores.Add(1)))
	if err != nil {
		t.Fatal(err)
	}
	w := &watcher{now: began, in: contract.WatchInput{
		Run:  contract.RunInput{Name: "spam", Trigger: spec.TriggerFacts{Name: "t", Kind: sp.Kind()}},
		Spec: sp, Since: began,
	}}
	w.Triggers = &Triggers{Store: s, Now: func() time.Time { return w.now }}
	return w
}

// look makes one look that ends after so many of its three strokes; 3 is all of them.
func (w *watcher) look(t TB, strokes int) contract.Look {
	t.Helper()
	look, err := w.Look(context.Background(), w.in)
	if err != nil {
		t.Fatal(err)
	}
	if look.Run == "" || strokes < 2 {
		return look
	}
	if !slices.ContainsFunc(w.started, func(l contract.Look) bool { return l.Run == look.Run }) { // a run's ID is its lock
		w.started = append(w.started, look)
	}
	if strokes == 3 {
		if err := w.Note(context.Background(), contract.WatchNote{Pipeline: "spam", Trigger: "t", Run: look.Run}); err != nil {
			t.Fatal(err)
		}
	}
	return look
}

// TestDataOnce: whatever is written, replaced, taken away or brought back, and wherever a look is cut off, each settled version starts
// exactly one run, and none that did not settle starts any.
func TestDataOnce(test *testing.T) {
	rapid.Check(test, func(t *rapid.T) {
		dir := test.TempDir()
		w := watch(t, spec.Trigger{Data: &spec.DataTrigger{URL: "file://" + dir, Settle: 10 * second, Every: 5 * second}})
		versions := map[string]time.Time{} // the newest version of each file that is there
		version := began
		want := map[string]bool{} // file and version
		settle := func() {
			for range 4 {
				w.now = w.now.Add(5 * time.Second)
				w.look(t, rapid.IntRange(1, 3).Draw(t, "strokes"))
			}
			for range 2 { // what was cut off is made up for
				w.look(t, 3)
			}
			for name, at := range versions {
				want[name+"@"+at.Format(time.RFC3339)] = true
			}
		}
		for range rapid.IntRange(1, 12).Draw(t, "events") {
			name := rapid.SampledFrom([]string{"a", "b", "c/d"}).Draw(t, "name")
			path := filepath.Join(dir, name)
			switch rapid.SampledFrom([]string{"write", "write", "remove", "look", "settle", "away"}).Draw(t, "event") {
			case "write":
				version = version.Add(time.Second)
				put(t, path, version)
				versions[name] = version
			case "remove":
				if os.Remove(path) == nil {
					delete(versions, name)
				}
			case "look":
				w.now = w.now.Add(5 * time.Second)
				w.look(t, rapid.IntRange(1, 3).Draw(t, "strokes"))
				w.now = w.now.Add(-5 * time.Second) // no version settles by it
			case "away": // gone for some looks, and back as it was
				if at, there := versions[name]; there {
					if err := os.Remove(path); err != nil {
						t.Fatal(err)
					}
					w.look(t, 3)
					put(t, path, at)
				}
			case "settle":
				settle()
			}
		}
		settle()
		state, err := LoadState(context.Background(), w.Store, "spam", "t")
		if err != nil || state.Due != nil {
			t.Fatalf("state %+v, %v", state.Due, err)
		}
		files := map[string]int{}
		for key := range want {
			name, _, _ := strings.Cut(key, "@")
			files["file://"+filepath.Join(dir, name)]++
		}
		if diff := cmp.Diff(files, count(w.started)); diff != "" {
			t.Fatalf("starts per file (-want +got):\n%s", diff)
		}
	})
}

func put(t TB, path string, version time.Time) {
	t.Helper()
	err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("x"), 0o600), os.Chtimes(path, version, version))
	if err != nil {
		t.Fatal(err)
	}
}

// count says how many runs were started for each file.
func count(looks []contract.Look) map[string]int {
	n := map[string]int{}
	for _, look := range looks {
		for _, url := range look.Trigger.Files {
			n[url]++
		}
	}
	return n
}

// TestData: what settles in turn.
func TestData(t *testing.T) {
	dir := t.TempDir()
	w := watch(t, spec.Trigger{Data: &spec.DataTrigger{URL: "file://" + dir, Glob: "*.csv", Settle: minute, Every: minute}})
	a, b := filepath.Join(dir, "a.csv"), filepath.Join(dir, "sub", "b.csv")
	put(t, a, began)
	put(t, filepath.Join(dir, "a.tmp"), began)
	if err := os.Symlink(a, filepath.Join(dir, "link.csv")); err != nil {
		t.Fatal(err)
	}
	step := func(wantFiles ...string) {
		t.Helper()
		look := w.look(t, 3)
		for i := range wantFiles {
			wantFiles[i] = "file://" + wantFiles[i]
		}
		if diff := cmp.Diff(wantFiles, look.Trigger.Files); diff != "" {
			t.Fatalf("at %s the run %q is for (-want +got):\n%s", w.now.Sub(began), look.Run, diff)
		}
		w.now = w.now.Add(time.Minute)
	}
	step() // just seen
	put(t, b, began)
	put(t, a, began.Add(time.Second)) // still being written
	step()
	step(a, b)
	step()
	put(t, b, began.Add(time.Minute))
	step()
	step(b)
	first := w.started[0]
	want := spec.TriggerFacts{Name: "t", Kind: "data", Time: began.Add(2 * time.Minute), Files: first.Trigger.Files}
	if diff := cmp.Diff(want, first.Trigger); diff != "" || !strings.HasPrefix(first.Run, "spam-t-") {
		t.Errorf("%s: facts (-want +got):\n%s", first.Run, diff)
	}
	w.in.Spec.Data = &spec.DataTrigger{URL: "file:///no/such/folder"}
	if _, err := w.Look(t.Context(), w.in); fault.TypeOf(err) != fault.Infrastructure || !strings.Contains(err.Error(), "/no/such/folder") {
		t.Errorf("a missing folder: %v", err)
	}
}

// TestDataInParts: one run is started for so many files only; the next look starts another for the rest.
func TestDataInParts(t *testing.T) {
	found := map[string]string{}
	for i := range maxFiles + 5 {
		found[fmt.Sprintf("file:///in/%05d", i)] = "1"
	}
	var state State
	spec := spec.DataTrigger{}
	first, second, third := state.data(spec, found, began), state.data(spec, found, began), state.data(spec, found, began)
	if len(first.facts.Files) != 1000 || len(second.facts.Files) != 5 || third != nil {
		t.Errorf("%d, then %d files, then %v", len(first.facts.Files), len(second.facts.Files), third)
	}
	long := map[string]string{}
	for i := range 100 {
		long[strings.Repeat("x", maxFileBytes/10)+fmt.Sprint(i)] = "1"
	}
	state = State{}
	if got := len(state.data(spec, long, began).facts.Files); got != 9 {
		t.Errorf("%d files with long names", got)
	}
}

// TestDataForgets: what has been gone for long is forgotten, so that the state stays small.
func TestDataForgets(t *testing.T) {
	var state State
	spec := spec.DataTrigger{}
	state.data(spec, map[string]string{"a": "1"}, began)
	state.data(spec, map[string]string{}, began.Add(time.Hour))
	const week = 7 * 24 * time.Hour
	state.data(spec, map[string]string{}, began.Add(time.Hour+week-time.Second))
	if len(state.Objects) != 1 {
		t.Errorf("forgotten at once: %v", state.Objects)
	}
	state.data(spec, map[string]string{}, began.Add(time.Hour+week))
	if len(state.Objects) != 0 {
		t.Errorf("never forgotten: %v", slices.Sorted(maps.Keys(state.Objects)))
	}
}

func TestMatches(t *testing.T) {
	for _, tt := range []struct {
		glob, name string
		want       bool
	}{
		{"", "a/b", true},
		{"*.csv", "a.csv", true},
		{"*.csv", "deep/down/a.csv", true},
		{"*.csv", "a.txt", false},
		{"in/*.csv", "in/a.csv", true},
		{"in/*.csv", "in/deep/a.csv", false},
		{"/a.csv", "a.csv", true},
		{"/a.csv", "in/a.csv", false},
		{"", ".a.csv", true},
		{"*.csv", ".a.csv", false},
		{"?a.csv", ".a.csv", false},
		{"[.]a.csv", ".a.csv", false},
		{".*.csv", ".a.csv", true},
		{`\.*.csv`, "in/.a.csv", true},
		{"*.csv", ".in/a.csv", false},
		{"*.csv", "in/.deep/a.csv", false},
		{"*/*.csv", ".in/a.csv", false},
		{".in/*.csv", ".in/a.csv", true},
		{".in/*.csv", ".in/.a.csv", false},
	} {
		if got := matches(tt.glob, tt.name); got != tt.want {
			t.Errorf("%q, %q: %v", tt.glob, tt.name, got)
		}
	}
}

// TestPipelineTrigger: each accepted run that ended after the trigger was applied starts one run.
func TestPipelineTrigger(t *testing.T) {
	w := watch(t, spec.Trigger{Pipeline: &spec.PipelineTrigger{Name: "clean", Every: minute}})
	accepted := func(run string, ended time.Time) {
		t.Helper()
		rec := record.RunRecord{Run: run, Pipeline: "clean", EndedAt: ended}
		if err := record.Accept(t.Context(), w.Store, rec); err != nil {
			t.Fatal(err)
		}
	}
	if look := w.look(t, 3); look.Run != "" || look.Summary != "no accepted run of clean yet" {
		t.Errorf("before any: %+v", look)
	}
	accepted("clean-1", began.Add(-time.Minute))
	if look := w.look(t, 3); look.Run != "" {
		t.Errorf("a run from before the trigger was applied starts %+v", look)
	}
	accepted("clean-2", began.Add(time.Minute))
	due := w.look(t, 1)
	for range 3 {
		if again := w.look(t, 2); again.Run != due.Run || due.Run == "" {
			t.Errorf("one cause, two runs: %s and %s", due.Run, again.Run)
		}
	}
	w.look(t, 3)
	w.look(t, 3)
	accepted("clean-3", began.Add(2*time.Minute))
	w.look(t, 3)
	w.look(t, 3)
	if len(w.started) != 2 || w.started[0].Run == w.started[1].Run {
		t.Errorf("started %+v", w.started)
	}
	accepted("clean-4", began.Add(3*time.Minute))
	accepted("clean-5", began.Add(4*time.Minute))
	for range 3 {
		if look := w.look(t, 3); look.Summary != "clean-5" {
			t.Errorf("it saw %q, want the newest of two", look.Summary)
		}
	}
	if len(w.started) != 3 {
		t.Errorf("two that ended between looks started %d runs, want 1", len(w.started)-2)
	}
}

// TestNoteOfAnother: a note that comes late does not strike out the run that is due now.
func TestNoteOfAnother(t *testing.T) {
	w := watch(t, spec.Trigger{Pipeline: &spec.PipelineTrigger{Name: "clean"}})
	if err := record.Accept(t.Context(), w.Store, record.RunRecord{Run: "clean-1", Pipeline: "clean", EndedAt: began.Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	due := w.look(t, 1)
	if err := w.Note(t.Context(), contract.WatchNote{Pipeline: "spam", Trigger: "t", Run: "another"}); err != nil {
		t.Fatal(err)
	}
	if again := w.look(t, 1); again.Run != due.Run {
		t.Errorf("%q was struck out by the note of another", due.Run)
	}
}

// TestWatchOver: a watch whose trigger does not stand any more looks at nothing; the first look is made whatever the trigger is now.
func TestWatchOver(t *testing.T) {
	w := watch(t, spec.Trigger{Pipeline: &spec.PipelineTrigger{Name: "lead"}})
	stands, err := false, error(nil)
	w.Stands = func(_ context.Context, in contract.WatchInput) (bool, error) {
		if in.Run.Name != "spam" {
			t.Errorf("asked for %+v", in)
		}
		return stands, err
	}
	if got := w.look(t, 3); got.Over || got.Summary == "" {
		t.Errorf("the first look: %+v", got)
	}
	w.in.Looked, w.now = true, began.Add(time.Minute)
	if got := w.look(t, 3); !got.Over {
		t.Errorf("of a trigger that does not stand: %+v", got)
	}
	err = errors.New("no server")
	if _, failed := w.Look(t.Context(), w.in); !errors.Is(failed, err) {
		t.Errorf("when nobody can tell: %v", failed)
	}
	if state, err := LoadState(t.Context(), w.Store, "spam", "t"); err != nil || !state.LookedAt.Equal(began) {
		t.Errorf("it looked at %v, %v", state.LookedAt, err)
	}
	if stands, err = true, nil; w.look(t, 3).Over {
		t.Error("it stands, and is over")
	}
}

// TestFailedLookIsNoted until one succeeds.
func TestFailedLookIsNoted(t *testing.T) {
	w := watch(t, spec.Trigger{Pipeline: &spec.PipelineTrigger{Name: "lead"}})
	w.look(t, 3)
	w.now = began.Add(time.Minute)
	state := func() State {
		t.Helper()
		state, err := LoadState(t.Context(), w.Store, "spam", "t")
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	if err := w.Note(t.Context(), contract.WatchNote{Pipeline: "spam", Trigger: "t", Error: "no such folder"}); err != nil {
		t.Fatal(err)
	}
	if got := state(); got.Error != "no such folder" || !got.FailedAt.Equal(w.now) || !got.LookedAt.Equal(began) {
		t.Errorf("after a look that failed: %+v", got)
	}
	w.look(t, 3)
	if got := state(); got.Error != "" || !got.FailedAt.IsZero() || !got.LookedAt.Equal(w.now) {
		t.Errorf("after the next: %+v", got)
	}
}
