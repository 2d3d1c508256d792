package store_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/store"
)

func TestManyRecords(t *testing.T) {
	s := open(t, "mem://"+t.TempDir())
	for i := range 100 {
		if err := s.PutJSON(t.Context(), fmt.Sprintf("many/%02d", i), i, store.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := store.RecordsIn[int](t.Context(), s, "many/", func(key string) bool { return strings.HasSuffix(key, "5") })
	if diff := cmp.Diff([]int{5, 15, 25, 35, 45, 55, 65, 75, 85, 95}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	some, err := store.Records[int](t.Context(), s, []string{"many/07", "none", "many/03"})
	seven, three := 7, 3
	if diff := cmp.Diff([]*int{&seven, nil, &three}, some); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if err := s.Driver().Write(t.Context(), "many/50", strings.NewReader("{"), store.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.RecordsIn[int](t.Context(), s, "many/", nil); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("got %v, want ErrCorrupt", err)
	}
}

// TestManyRecordsSideBySide: many records of a bucket do not take as many ways there and back.
func TestManyRecordsSideBySide(t *testing.T) {
	const atOnce = 16
	var mu sync.Mutex
	waiting, all := 0, make(chan struct{})
	server := behind(t, func(_ http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/many/") {
			return false
		}
		mu.Lock()
		if waiting++; waiting == atOnce {
			close(all)
		}
		mu.Unlock()
		select {
		case <-all:
		case <-time.After(10 * time.Second):
			t.Error("fewer are read at a time")
		}
		return false
	})
	s := open(t, server.At(""))
	for i := range atOnce {
		if err := s.PutJSON(t.Context(), fmt.Sprintf("many/%02d", i), i, store.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := store.RecordsIn[int](t.Context(), s, "many/", nil); len(got) != atOnce || err != nil {
		t.Errorf("%d records, %v", len(got), err)
	}
}
