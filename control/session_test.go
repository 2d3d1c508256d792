package control

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluiceml/sluice/connect/state/holder"
)

// TestALeavingHolderIsNamed: whoever waits for it hears of it, since it may be stopped at that moment.
func TestALeavingHolderIsNamed(t *testing.T) {
	dir := t.TempDir()
	h, err := holder.Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Release()
	if err := os.WriteFile(filepath.Join(dir, "holder.json"), fmt.Appendf(nil, `{"pid": %d}`, os.Getppid()), 0o600); err != nil { // another process
		t.Fatal(err)
	}
	leaving, err := holder.Follow(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer leaving.Close()
	if alone, err := leaving.Alone(); err != nil || !alone {
		t.Fatalf("alone: %v, %v", alone, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	said := make(chan string, 2)
	go func() {
		defer close(said)
		_, err := Open(ctx, Options{StateDir: dir, Follow: true, Waiting: func(what string) { said <- what }})
		said <- fmt.Sprint("opened: ", err)
	}()
	if got := <-said; !strings.HasPrefix(got, fmt.Sprintf("waiting for process %d,", os.Getppid())) {
		t.Errorf("it says %q", got)
	}
	cancel()
	for range said { // until it has ended
	}
}
