package store_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluiceml/sluice/store"
)

// TestPatience: every operation waits for a server that is away, and says so once.
func TestPatience(t *testing.T) {
	for name, away := range map[string]func(http.ResponseWriter){
		"breaks connections": hang,
		"is unavailable":     func(w http.ResponseWriter) { said(w, http.StatusServiceUnavailable, "ServiceUnavailable", "Later.") },
		"is slow":            func(w http.ResponseWriter) { said(w, http.StatusTooManyRequests, "SlowDown", "Later.") },
	} {
		t.Run(name, func(t *testing.T) {
			var left atomic.Int64 // how many requests are not answered
			server := behind(t, func(w http.ResponseWriter, _ *http.Request, _ http.Handler) bool {
				isAway := left.Add(-1) >= 0
				if isAway {
					away(w)
				}
				return isAway
			})
			var waits, over atomic.Int64
			s := open(t, server.At("")).Patient(store.Patience{Limit: time.Minute, Waiting: func(context.Context, error) func() {
				waits.Add(1)
				return func() { over.Add(1) }
			}})
			large := make([]byte, 3<<20)
			rand.Read(large)
			var digest string
			for _, op := range []struct {
				name string
				do   func() error
			}{
				{"write", func() error { return s.PutJSON(t.Context(), "a", 1, store.WriteOptions{}) }},
				{"create", func() error { return s.PutJSON(t.Context(), "b", 2, ifAbsent) }},
				{"read", func() error { var n int; return s.GetJSON(t.Context(), "b", &n) }},
				{"stat", func() error { _, err := s.Driver().Stat(t.Context(), "a"); return err }},
				{"list", func() error {
					for _, err := range s.Driver().List(t.Context(), "") {
						if err != nil {
							return err
						}
					}
					return nil
				}},
				{"blob", func() (err error) { digest, _, err = s.PutBlob(t.Context(), bytes.NewReader(large)); return err }},
				{"delete", func() error { return s.Driver().Delete(t.Context(), "a") }},
			} {
				left.Store(3) // the HTTP client itself tries again on connections that it had
				waits.Store(0)
				over.Store(0)
				if err := op.do(); err != nil || waits.Load() < 1 || waits.Load() != over.Load() || left.Load() > 0 {
					t.Errorf("%s: %v; %d waits, %d over, %d requests left", op.name, err, waits.Load(), over.Load(), left.Load())
				}
			}
			r, err := s.Blob(t.Context(), digest)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if got, err := io.ReadAll(r); !bytes.Equal(got, large) || err != nil {
				t.Errorf("read %d bytes, %v", len(got), err)
			}
		})
	}
}

// TestPartsThatArrivedStay: where a server was away, only what has not arrived of a large object is sent again.
func TestPartsThatArrivedStay(t *testing.T) {
	var mu sync.Mutex
	uploads, away, arrived := 0, 4, map[string]int{} // the SDK itself gives up after three
	server := behind(t, func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		mu.Lock()
		defer mu.Unlock()
		query := r.URL.Query()
		part := query.Get("partNumber")
		switch {
		case query.Has("uploads"):
			uploads++
		case part == "3" && away > 0:
			away--
			said(w, http.StatusServiceUnavailable, "ServiceUnavailable", "Later.")
			return true
		case part != "":
			arrived[part]++
		}
		return false
	})
	s := open(t, server.At("")).Patient(store.Patience{Limit: time.Minute})
	large := make([]byte, 33<<20)
	rand.Read(large)
	digest, _, err := s.PutBlob(t.Context(), bytes.NewReader(large))
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	if want := map[string]int{"1": 1, "2": 1, "3": 1, "4": 1, "5": 1}; uploads != 1 || away != 0 || !maps.Equal(arrived, want) {
		t.Errorf("%d uploads were begun, and the parts sent %v; want 1, and %v", uploads, arrived, want)
	}
	mu.Unlock()
	r, err := s.Blob(t.Context(), digest)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); !bytes.Equal(got, large) || err != nil {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
}

// TestPatienceEnds: a store that stays away is waited for until the limit, one that refuses not at all, and one that has no patience
// says which of both it is.
func TestPatienceEnds(t *testing.T) {
	var answer atomic.Pointer[func(http.ResponseWriter)]
	var asked atomic.Int64
	server := behind(t, func(w http.ResponseWriter, _ *http.Request, _ http.Handler) bool {
		asked.Add(1)
		if do := answer.Load(); do != nil {
			(*do)(w)
			return true
		}
		return false
	})
	plain := open(t, server.At(""))
	patient := plain.Patient(store.Patience{Limit: 500 * time.Millisecond})
	read := func(s *store.Store) (tries int64, err error) {
		before := asked.Load()
		var n int
		err = s.GetJSON(t.Context(), "k", &n)
		return asked.Load() - before, err
	}
	away := func(w http.ResponseWriter) { said(w, http.StatusServiceUnavailable, "ServiceUnavailable", "Later.") }
	answer.Store(&away)
	if tries, err := read(plain); !errors.Is(err, store.ErrUnavailable) || tries != 1 {
		t.Errorf("without patience: %v after %d tries", err, tries)
	}
	if tries, err := read(patient); !errors.Is(err, store.ErrUnavailable) || tries < 2 || !strings.Contains(err.Error(), "waited") {
		t.Errorf("beyond the limit: %v after %d tries", err, tries)
	}
	refuse := func(w http.ResponseWriter) { said(w, http.StatusForbidden, "AccessDenied", "No.") }
	answer.Store(&refuse)
	if tries, err := read(patient); !errors.Is(err, store.ErrRefused) || tries != 1 || strings.Contains(err.Error(), "refused: ") {
		t.Errorf("refused: %v after %d tries", err, tries)
	}
}
