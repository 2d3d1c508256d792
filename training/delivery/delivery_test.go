package delivery

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/internal/testing/s3test"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/training"
)

const life = time.Minute

var key = training.Key{Run: "r1", Step: "fit", Generation: 2}

// fetch is what a machine without credentials gets.
func fetch(t *testing.T, item Item) (content string, status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, item.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(raw); resp.StatusCode == http.StatusOK && hex.EncodeToString(sum[:]) != item.SHA256 {
		t.Errorf("%s is not what was announced", item.URL)
	}
	return string(raw), resp.StatusCode
}

func newDepot(t *testing.T, agent string) *Depot {
	t.Helper()
	s, err := store.Open(t.Context(), s3test.Start(t, "acme", s3test.Options{}).At("sluice"))
	if err != nil {
		t.Fatal(err)
	}
	return New(s, agent)
}

func TestAgent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sluice-agent")
	if err := os.WriteFile(path, []byte("an agent"), 0o700); err != nil {
		t.Fatal(err)
	}
	d := newDepot(t, path)
	for range 2 { // the second time it is there
		item, err := d.Agent(t.Context(), life)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := fetch(t, item); got != "an agent" {
			t.Errorf("fetched %q", got)
		}
	}
	if _, err := newDepot(t, path+"2").Agent(t.Context(), life); !errors.Is(err, training.ErrNoAgent) {
		t.Errorf("no agent: %v, want ErrNoAgent", err)
	}
}

func TestConfig(t *testing.T) {
	d := newDepot(t, "")
	var items []Item
	for _, try := range []string{"a", "b"} {
		item, err := d.Config(t.Context(), key, try, []byte("token "+try), life)
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, item)
	}
	other := key
	other.Generation = 20
	kept, err := d.Config(t.Context(), other, "a", []byte("token"), life)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := fetch(t, items[1]); got != "token b" {
		t.Errorf("fetched %q", got)
	}
	for range 2 {
		if err := d.Withdraw(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	var status []int
	for _, item := range append(items, kept) {
		_, code := fetch(t, item)
		status = append(status, code)
	}
	if diff := cmp.Diff([]int{http.StatusNotFound, http.StatusNotFound, http.StatusOK}, status); diff != "" {
		t.Errorf("after Withdraw (-want +got):\n%s", diff)
	}
}

// What a worker that died has left is withdrawn by its age.
func TestWithdrawOld(t *testing.T) {
	d := newDepot(t, "")
	item, err := d.Config(t.Context(), key, "a", []byte("token"), life)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		before time.Time
		want   int
	}{{time.Now().Add(-time.Hour), http.StatusOK}, {time.Now().Add(time.Hour), http.StatusNotFound}} {
		if err := d.WithdrawOld(t.Context(), test.before); err != nil {
			t.Fatal(err)
		}
		if _, status := fetch(t, item); status != test.want {
			t.Errorf("what is older than %v was withdrawn: status %d, want %d", test.before, status, test.want)
		}
	}
}

func TestPlaces(t *testing.T) {
	d := newDepot(t, "")
	for _, name := range []string{"ec2/eu-central-1", "ec2/us-east-1", "ec2/eu-central-1", "other/x"} {
		if err := d.AddPlace(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	got, err := d.Places(t.Context(), "ec2/")
	if diff := cmp.Diff([]string{"eu-central-1", "us-east-1"}, got); diff != "" || err != nil {
		t.Errorf("places, %v (-want +got):\n%s", err, diff)
	}
}

func TestStoreOfThisMachine(t *testing.T) {
	s, err := store.Open(t.Context(), "file://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(s, "").Config(t.Context(), key, "a", nil, life); !errors.Is(err, store.ErrNotLent) {
		t.Errorf("got %v, want ErrNotLent", err)
	}
}
