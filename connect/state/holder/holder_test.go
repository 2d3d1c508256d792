package holder

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/internal/testing/proctest"
)

// holdEnv makes the test binary a process that tries to hold the folder it names, says how that went, and waits for the end of its stdin.
const holdEnv = "SLUICE_TEST_HOLD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(holdEnv); dir != "" {
		hold(dir)
		return
	}
	if dir := os.Getenv(followEnv); dir != "" {
		followIn(dir)
		return
	}
	os.Exit(m.Run())
}

func hold(dir string) {
	io.ReadFull(os.Stdin, make([]byte, 1)) // the starting shot
	h, err := Acquire(dir)
	if errors.Is(err, ErrHeld) {
		fmt.Println("held")
		return
	}
	if err == nil {
		err = h.Publish(Info{TemporalAddress: "127.0.0.1:7233"})
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("holder")
	io.Copy(io.Discard, os.Stdin)
}

func TestOneOfManyHolds(t *testing.T) {
	dir := filepath.Join(t.TempDir(), ".sluice")
	processes := make([]*proctest.Process, 8)
	for i := range processes {
		processes[i] = proctest.Spawn(t, holdEnv, dir)
	}
	for _, p := range processes {
		p.Tell("!")
	}
	said := map[string]int{}
	for _, p := range processes {
		said[p.Says()]++
	}
	if diff := cmp.Diff(map[string]int{"holder": 1, "held": len(processes) - 1}, said); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestKilledHolder: what a killed holder has published counts no longer, and the next one takes over.
func TestKilledHolder(t *testing.T) {
	dir := t.TempDir()
	if _, found, err := Find(dir); found || err != nil {
		t.Fatalf("found %v, %v in an empty folder", found, err)
	}
	p := proctest.Spawn(t, holdEnv, dir)
	p.Tell("!")
	if got := p.Says(); got != "holder" {
		t.Fatal(got)
	}
	info, found, err := Find(dir)
	if err != nil || !found {
		t.Fatalf("found %v, %v", found, err)
	}
	want := Info{PID: p.PID(), TemporalAddress: "127.0.0.1:7233"}
	if diff := cmp.Diff(want, info); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := Acquire(dir); !errors.Is(err, ErrHeld) {
		t.Errorf("Acquire beside a holder returned %v, want ErrHeld", err)
	}

	p.Kill()
	if info, found, err := Find(dir); found || err != nil {
		t.Errorf("found %v, %v of a killed holder", info, err)
	}
	h, err := Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Release()
	if diff := cmp.Diff(want, h.Last()); diff != "" {
		t.Errorf("last (-want +got):\n%s", diff)
	}
	if info, found, err := Find(dir); found || err != nil {
		t.Errorf("found %v, %v before the new holder published", info, err)
	}
}

func TestRelease(t *testing.T) {
	dir := t.TempDir()
	h, err := Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, ui := range []string{"", "http://127.0.0.1:8080"} { // what is published again replaces what was
		if err := h.Publish(Info{UIAddress: ui}); err != nil {
			t.Fatal(err)
		}
		info, found, err := Find(dir)
		if want := (Info{PID: os.Getpid(), UIAddress: ui}); err != nil || !found || info != want {
			t.Errorf("found %+v, %v, %v, want %+v", info, found, err, want)
		}
	}
	if err := h.Release(); err != nil {
		t.Fatal(err)
	}
	if _, found, err := Find(dir); found || err != nil {
		t.Errorf("found %v, %v after Release", found, err)
	}
	again, err := Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	if again.Last().UIAddress != "http://127.0.0.1:8080" {
		t.Errorf("last is %+v", again.Last())
	}
	if err := again.Release(); err != nil {
		t.Fatal(err)
	}
}

// TestSpoiltInfo: a holder.json that cannot be read must not keep the next holder out.
func TestSpoiltInfo(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, infoFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Release()
	if h.Last() != (Info{}) {
		t.Errorf("last is %+v", h.Last())
	}
}

func TestUnwritable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dirs := map[string]string{"a file in its place": file, "a file above it": filepath.Join(file, ".sluice")}
	if os.Geteuid() != 0 { // root writes where it likes
		readOnly := filepath.Join(t.TempDir(), "read-only")
		if err := os.Mkdir(readOnly, 0o500); err != nil {
			t.Fatal(err)
		}
		dirs["read-only"], dirs["in a read-only one"] = readOnly, filepath.Join(readOnly, ".sluice")
	}
	for name, dir := range dirs {
		t.Run(name, func(t *testing.T) {
			_, err := Acquire(dir)
			if err == nil || !strings.Contains(err.Error(), dir+" is not writable") {
				t.Errorf("got %v, want that %s is not writable", err, dir)
			}
		})
	}
}

// TestFolderOfBefore: a folder that was open to others is closed to them, since it has logs and the server's database.
func TestFolderOfBefore(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	h, err := Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Release()
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o700 {
		t.Errorf("its mode is %#o", got)
	}
}
