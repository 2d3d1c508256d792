package record_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluiceml/sluice/internal/testing/interleave"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

var began = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func accept(t *testing.T, s *store.Store, run string, ended time.Time) {
	t.Helper()
	if err := record.Accept(t.Context(), s, record.RunRecord{Run: run, Pipeline: "p", EndedAt: ended}); err != nil {
		t.Error(err)
	}
}

func last(t *testing.T, s *store.Store) string {
	t.Helper()
	last, err := record.LastAccepted(t.Context(), s, "p", "")
	if err != nil {
		t.Error(err)
	}
	return last.Run
}

// Of two runs that end together the newer is the last accepted one, wherever the one is accepted in the midst of the other.
func TestAcceptMeetsAccept(t *testing.T) {
	for _, test := range []struct {
		name         string
		outer, inner time.Duration
		want         string
	}{{"older outside", 1, 2, "inner"}, {"newer outside", 2, 1, "outer"}, {"one moment", 1, 1, "outer"}} {
		t.Run(test.name, func(t *testing.T) {
			interleave.Each(t, func(t *testing.T, s *store.Store, before func(func()) *store.Store) {
				met := false
				inner := func() { met = true; accept(t, s, "inner", began.Add(test.inner)) }
				accept(t, before(inner), "outer", began.Add(test.outer))
				if got := last(t, s); met && got != test.want {
					t.Errorf("the last accepted run is %s, want %s", got, test.want)
				}
			})
		})
	}
}

// A run that was accepted while a clock was a year ahead is the last one only until another is: for good, also where there were many.
func TestAcceptAfterAWrongClock(t *testing.T) {
	for wrong := range 6 {
		s, err := store.Open(t.Context(), "mem://"+t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		accept(t, s, "before", began)
		for i := range wrong {
			accept(t, s, fmt.Sprint("wrong-", i), time.Now().AddDate(1, 0, i))
		}
		for i := range 6 {
			run := fmt.Sprint("right-", i)
			accept(t, s, run, time.Now())
			if got := last(t, s); got != run {
				t.Errorf("after %d runs of a wrong clock and %s the last accepted run is %s", wrong, run, got)
			}
		}
		for info, err := range s.Driver().List(t.Context(), store.AcceptancesPrefix) {
			if err != nil || strings.Contains(info.Key, "wrong") {
				t.Errorf("%s stays: %v", info.Key, err)
			}
		}
	}
}

// Many workers at once: the newest of all is the last accepted run, and few records stay.
func TestAcceptTogether(t *testing.T) {
	const workers, each = 8, 8
	for name, address := range map[string]string{"files": "file://" + t.TempDir(), "memory": "mem://" + t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			s, err := store.Open(t.Context(), address)
			if err != nil {
				t.Fatal(err)
			}
			accept(t, s, "earlier", began)
			accept(t, s, "older", began.Add(-time.Second))
			if got := last(t, s); got != "earlier" {
				t.Errorf("the last accepted run is %q after an older one, want earlier", got)
			}
			var all sync.WaitGroup
			for w := range workers {
				all.Go(func() {
					for i := range each {
						n := i*workers + w + 1
						accept(t, s, fmt.Sprint("run-", n), began.Add(time.Duration(n)))
					}
				})
			}
			all.Wait()
			if got, want := last(t, s), fmt.Sprint("run-", workers*each); got != want {
				t.Errorf("the last accepted run is %s, want %s", got, want)
			}
			left := 0
			for _, err := range s.Driver().List(t.Context(), store.AcceptancesPrefix) {
				if left++; err != nil {
					t.Fatal(err)
				}
			}
			if left > 2*workers {
				t.Errorf("%d acceptances are left", left)
			}
		})
	}
}
