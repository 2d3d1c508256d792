package control

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

func TestFindRun(t *testing.T) {
	s := newStore(t)
	if _, err := FindRun(t.Context(), s, ""); fault.TypeOf(err) != fault.Invalid || !strings.Contains(err.Error(), "no runs yet") {
		t.Errorf("without runs: got %v", err)
	}
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i, run := range []string{ // oldest first
		"spam-20260102-ab12", "spam-20260103-cd34", "spam-filter-20260104-ef56", "spam-filter-20260104-ef56.fit.0", "spam-filter-20260104-ef56.fit.1",
	} {
		pipeline := run[:strings.Index(run, "-2026")]
		if strings.Contains(run, ".fit.") {
			pipeline = "leaf"
		}
		rec := record.RunRecord{Run: run, Pipeline: pipeline, Status: spec.StatusSucceeded, StartedAt: began.Add(time.Duration(i) * time.Hour)}
		if err := s.PutJSON(t.Context(), record.RunKey(run), rec, store.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct{ name, want, says string }{
		{name: "", want: "spam-filter-20260104-ef56"},
		{name: "spam-20260102-ab12", want: "spam-20260102-ab12"},
		{name: "spam-20260102", want: "spam-20260102-ab12"},
		{name: "spam", want: "spam-20260103-cd34"}, // the pipeline's newest, not a prefix
		{name: "spam-f", want: "spam-filter-20260104-ef56"},
		{name: "spam-filter-20260104-ef56.fit.0", want: "spam-filter-20260104-ef56.fit.0"},
		{name: "spam-filter-20260104-ef56.fit", says: "is a prefix of 2 runs"},
		{name: "spam-2026", says: "is a prefix of 2 runs, such as spam-20260103-cd34 and spam-20260102-ab12"},
		{name: "leaf", want: "spam-filter-20260104-ef56.fit.1"},
		{name: "ham", says: `no run "ham"`},
		{name: "spma", says: "there is no run \"spma\"; `sluice list` lists the runs\nhelp: did you mean `spam`?"},
		{name: "spam-20260102-ab13", says: "help: did you mean `spam-20260102-ab12`?"},
		{name: "spam-20260102-ab12x", says: "no run"},
	}
	for _, tt := range tests {
		got, err := FindRun(t.Context(), s, tt.name)
		switch {
		case tt.says == "" && (err != nil || got.Run != tt.want):
			t.Errorf("%q: got %s, %v, want %s", tt.name, got.Run, err, tt.want)
		case tt.says != "" && (fault.TypeOf(err) != fault.Invalid || !strings.Contains(err.Error(), tt.says)):
			t.Errorf("%q: got %v, want an invalid name: %q", tt.name, err, tt.says)
		}
	}
}

// TestFindRunThatHasJustBegun: a run whose ID was printed is found, although its workflow records it a moment later.
func TestFindRunThatHasJustBegun(t *testing.T) {
	s := newStore(t)
	synctest.Test(t, func(t *testing.T) {
		run := newRunID("spam")
		time.AfterFunc(2*time.Second, func() { // its workflow does
			if err := s.PutJSON(t.Context(), record.RunKey(run), record.RunRecord{Run: run, Pipeline: "spam"}, store.WriteOptions{}); err != nil {
				t.Error(err)
			}
		})
		if got, err := FindRun(t.Context(), s, run); err != nil || got.Run != run {
			t.Errorf("got %s, %v, want %s", got.Run, err, run)
		}
		for name, longest := range map[string]time.Duration{"ham": 0, "ham-20260102-ab12": 0, run[:len("spam-20000101")] + "-x": 0, newRunID("ham"): 6 * time.Second} {
			began := time.Now()
			if _, err := FindRun(t.Context(), s, name); fault.TypeOf(err) != fault.Invalid || time.Since(began) > longest {
				t.Errorf("%s: %v after %v, want it within %v", name, err, time.Since(began), longest)
			}
		}
	})
}

func TestFindOpenRuns(t *testing.T) {
	s := newStore(t)
	if _, err := FindOpenRuns(t.Context(), s, "spam"); fault.TypeOf(err) != fault.Invalid || !strings.Contains(err.Error(), "no runs yet") {
		t.Errorf("without runs: got %v", err)
	}
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i, r := range []record.RunRecord{ // oldest first
		{Run: "spam-1", Pipeline: "spam", Status: spec.StatusRunning},
		{Run: "spam-2", Pipeline: "spam", Status: spec.StatusRunning},
		{Run: "spam-3", Pipeline: "spam", Status: spec.StatusSucceeded},
		{Run: "ham-1", Pipeline: "ham", Status: spec.StatusFailed},
		{Run: "eel-1", Pipeline: "eel", Status: spec.StatusRunning},
		{Run: "eel-2", Pipeline: "eel", Status: spec.StatusCanceled},
	} {
		r.StartedAt = began.Add(time.Duration(i) * time.Hour)
		if err := s.PutJSON(t.Context(), record.RunKey(r.Run), r, store.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct{ name, want, says string }{
		{name: "spam", want: "spam-2 spam-1"}, // which of them is not for Sluice to guess
		{name: "spam-1", want: "spam-1"},
		{name: "eel", want: "eel-1"}, // a newer one has ended
		{name: "spam-3", says: `no run "spam-3" is open: spam-3 has already ended: succeeded`},
		{name: "ham", says: `no run "ham" is open: ham-1 has already ended: failed`},
		{name: "spam-", says: "is a prefix of 3 runs"},
		{name: "eggs", says: `no run "eggs"`},
	}
	for _, tt := range tests {
		found, err := FindOpenRuns(t.Context(), s, tt.name)
		var names []string
		for _, r := range found {
			names = append(names, r.Run)
		}
		got := strings.Join(names, " ")
		switch {
		case tt.says == "" && (err != nil || got != tt.want):
			t.Errorf("%q: got %s, %v, want %s", tt.name, got, err, tt.want)
		case tt.says != "" && (fault.TypeOf(err) != fault.Invalid || !strings.Contains(err.Error(), tt.says)):
			t.Errorf("%q: got %v, want an invalid name: %q", tt.name, err, tt.says)
		}
	}
}
