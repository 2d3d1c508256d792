package holder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/sluiceml/sluice/internal/testing/proctest"
)

// followEnv makes the test binary a process that follows the folder it names until the end of its stdin.
const followEnv = "SLUICE_TEST_FOLLOW"

func followIn(dir string) {
	if _, err := Follow(context.Background(), dir); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("follows")
	io.Copy(io.Discard, os.Stdin)
}

func TestAlone(t *testing.T) {
	dir := t.TempDir()
	own, err := Follow(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	alone := func(want bool) {
		t.Helper()
		if got, err := own.Alone(); got != want || err != nil {
			t.Fatalf("alone is %v, %v, want %v", got, err, want)
		}
	}
	p := proctest.Spawn(t, followEnv, dir)
	if got := p.Says(); got != "follows" {
		t.Fatal(got)
	}
	alone(false)
	p.Kill()
	alone(true)

	// Who is alone is waited for.
	late := proctest.Spawn(t, followEnv, dir)
	impatient, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := Follow(impatient, dir); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a folder that is left could be followed: %v", err)
	}
	alone(true)
	if err := own.Close(); err != nil {
		t.Fatal(err)
	}
	if got := late.Says(); got != "follows" {
		t.Fatal(got)
	}
}
