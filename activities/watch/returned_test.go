package watch

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// gaveWay records that a run of the trigger has returned what it was started for.
func (w *watcher) gaveWay(t *testing.T, run int, by string, evicted bool) {
	t.Helper()
	at := w.started[run].Trigger
	back := record.Returned{At: at.Time, By: by, Evicted: evicted}
	if err := w.Store.PutJSON(t.Context(), record.ReturnedKey("spam", at), back, store.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// filesOf are the names of the files for which the runs were started.
func (w *watcher) filesOf() (all []string) {
	for _, look := range w.started {
		var names []string
		for _, url := range look.Trigger.Files {
			names = append(names, filepath.Base(url))
		}
		all = append(all, strings.Join(names, " "))
	}
	return all
}

// TestReturnedFiles: files of a run that gave way to another start a run when that other one has ended, once, and no run before.
func TestReturnedFiles(t *testing.T) {
	for _, tt := range []struct {
		name    string
		evicted bool
		want    []string // for which files runs were started: while the other run is open, and when it has ended
		after   []string
	}{
		{"turned away", false, []string{"a"}, []string{"a", "a b c"}},
		{"evicted", true, []string{"a", "b", "c"}, []string{"a", "b", "c", "a"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			w := watch(t, spec.Trigger{Data: &spec.DataTrigger{URL: "file://" + dir, Every: minute}})
			open := map[string]bool{"other": true}
			w.Open = func(_ context.Context, run string) (bool, error) { return open[run], nil }
			poll := func() {
				w.now = w.now.Add(time.Minute)
				w.look(t, 1) // a worker dies before the run is started, and another one goes on
				w.look(t, 3)
			}
			put(t, filepath.Join(dir, "a"), began)
			poll()
			w.gaveWay(t, 0, "other", tt.evicted)
			for _, name := range []string{"b", "c"} {
				put(t, filepath.Join(dir, name), began)
				poll()
			}
			if diff := cmp.Diff(tt.want, w.filesOf()); diff != "" {
				t.Errorf("while the other run is open (-want +got):\n%s", diff)
			}
			delete(open, "other")
			for range 3 {
				poll()
			}
			if diff := cmp.Diff(tt.after, w.filesOf()); diff != "" {
				t.Errorf("afterwards (-want +got):\n%s", diff)
			}
			ids := map[string]bool{}
			for _, look := range w.started {
				ids[look.Run] = true
			}
			if len(ids) != len(w.started) {
				t.Errorf("two runs have one ID: %v", ids)
			}
		})
	}
}

// TestReturnedTwice: a run that evicts the one before does not start an exchange of evictions.
func TestReturnedTwice(t *testing.T) {
	dir := t.TempDir()
	w := watch(t, spec.Trigger{Data: &spec.DataTrigger{URL: "file://" + dir, Every: minute}})
	open := map[string]bool{}
	w.Open = func(_ context.Context, run string) (bool, error) { return open[run], nil }
	for i, name := range []string{"a", "b", "c"} {
		put(t, filepath.Join(dir, name), began)
		w.now = w.now.Add(time.Minute)
		w.look(t, 3)
		clear(open)
		open[w.started[i].Run] = true
		if i > 0 {
			w.gaveWay(t, i-1, w.started[i].Run, true)
		}
	}
	for range 3 {
		w.now = w.now.Add(time.Minute)
		w.look(t, 3)
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, w.filesOf()); diff != "" {
		t.Errorf("while the newest is open (-want +got):\n%s", diff)
	}
	clear(open)
	for range 3 {
		w.now = w.now.Add(time.Minute)
		w.look(t, 3)
	}
	if diff := cmp.Diff([]string{"a", "b", "c", "a b"}, w.filesOf()); diff != "" {
		t.Errorf("afterwards (-want +got):\n%s", diff)
	}
}

// TestReturnedCauses: so do an accepted run, and a condition in spite of its cooldown. A file that has changed in between is that of its later
// run.
func TestReturnedCauses(t *testing.T) {
	t.Run("pipeline", func(t *testing.T) {
		w := watch(t, spec.Trigger{Pipeline: &spec.PipelineTrigger{Name: "clean", Every: minute}})
		if err := record.Accept(t.Context(), w.Store, record.RunRecord{Run: "clean-1", Pipeline: "clean", EndedAt: began.Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
		w.look(t, 3)
		w.gaveWay(t, 0, "", false)
		w.look(t, 3)
		w.look(t, 3)
		if len(w.started) != 2 || w.started[0].Run == w.started[1].Run {
			t.Errorf("started %+v", w.started)
		}
	})
	t.Run("metric", func(t *testing.T) {
		w := watch(t, spec.Trigger{Metric: &spec.MetricTrigger{
			Step: "score", Output: "metrics.psi", Condition: "value > 0.2", For: minute, Cooldown: 600 * minute, Every: minute,
		}})
		measure(t, w, "spam-1", "0.3")
		for range 2 {
			w.look(t, 3)
			w.now = w.now.Add(time.Minute)
		}
		w.Open = func(context.Context, string) (bool, error) { return w.now.Before(began.Add(time.Hour)), nil }
		w.gaveWay(t, 0, "other", false)
		for range 90 {
			w.look(t, 3)
			w.now = w.now.Add(time.Minute)
		}
		if len(w.started) != 2 || !w.started[1].Trigger.Time.Equal(began.Add(time.Hour)) {
			t.Errorf("started %+v", w.started)
		}
	})
	t.Run("changed", func(t *testing.T) {
		dir := t.TempDir()
		w := watch(t, spec.Trigger{Data: &spec.DataTrigger{URL: "file://" + dir, Every: minute}})
		put(t, filepath.Join(dir, "a"), began)
		w.look(t, 3)
		put(t, filepath.Join(dir, "a"), began.Add(time.Second))
		w.now = w.now.Add(time.Minute)
		w.look(t, 3)
		w.gaveWay(t, 0, "", true)
		w.now = w.now.Add(time.Minute)
		w.look(t, 3)
		if len(w.started) != 2 {
			t.Errorf("started %+v", w.started)
		}
	})
}

// TestAppliedAgain: objects that exist when a trigger is applied count as new, also if it was deleted before.
func TestAppliedAgain(t *testing.T) {
	dir := t.TempDir()
	w := watch(t, spec.Trigger{Data: &spec.DataTrigger{URL: "file://" + dir, Every: minute}})
	put(t, filepath.Join(dir, "a"), began)
	w.look(t, 3)
	if err := w.Store.Driver().Delete(t.Context(), Key("spam", "t")); err != nil {
		t.Fatal(err)
	}
	w.in.Since = began.Add(time.Hour)
	w.look(t, 3)
	if len(w.started) != 2 {
		t.Errorf("started %+v", w.started)
	}
}
