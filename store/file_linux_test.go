package store_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/store"
)

// roles are what the test binary can be started as, instead of running tests.
var roles = map[string]func(arg string) error{
	"write-for-ever":  writeForEver,
	"fill-the-disk":   func(dir string) error { return onSmallDisk(dir, fillTheDisk) },
	"write-read-only": func(dir string) error { return onSmallDisk(dir, writeReadOnly) },
}

// exitNoMount is the exit code of a role that may not mount what it needs.
const exitNoMount = 3

func TestMain(m *testing.M) {
	if len(os.Args) == 3 {
		if role, ok := roles[os.Args[1]]; ok {
			switch err := role(os.Args[2]); {
			case errors.Is(err, errNoMount):
				os.Exit(exitNoMount)
			case err != nil:
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		}
	}
	goleak.VerifyTestMain(m)
}

// generation returns the content of the object that a writer writes over and over: large enough to be caught in the middle.
func generation(n int) []byte { return bytes.Repeat([]byte(fmt.Sprintf("%07d\n", n)), 1<<17) }

// writeForEver replaces one object and creates others, with a line on stdout before each.
func writeForEver(url string) error {
	s, err := store.Open(context.Background(), url)
	if err != nil {
		return err
	}
	for n := 1; ; n++ {
		fmt.Println(n)
		if err := s.Driver().Write(context.Background(), "replaced", bytes.NewReader(generation(n)), store.WriteOptions{}); err != nil {
			return err
		}
		key := fmt.Sprintf("created/%d/object", n)
		if err := s.Driver().Write(context.Background(), key, bytes.NewReader(generation(n)), store.WriteOptions{IfAbsent: true}); err != nil {
			return err
		}
	}
}

// TestKilledWriterLeavesWholeObjects kills writers with SIGKILL at many points of a Write.
func TestKilledWriterLeavesWholeObjects(t *testing.T) {
	root := t.TempDir()
	url := "file://" + root
	const kills = 20
	for i := range kills {
		dir := filepath.Join(root, fmt.Sprint(i))
		cmd := exec.Command(os.Args[0], "write-for-ever", url+fmt.Sprintf("/%d", i))
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for range 2 {
			if !lines.Scan() {
				t.Fatal("the writer ended by itself")
			}
		}
		// Not a wait for something: a random point within the write that the line announced.
		<-time.After(time.Duration(i) * 500 * time.Microsecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil {
			t.Error("the writer ended by itself")
		}

		s := open(t, "file://"+dir)
		objects := 0
		for info, err := range s.Driver().List(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			objects++
			r, err := s.Driver().Read(t.Context(), info.Key)
			if err != nil {
				t.Fatal(err)
			}
			data, err := io.ReadAll(r)
			r.Close()
			if err != nil {
				t.Fatal(err)
			}
			var n int
			if _, err := fmt.Sscanf(string(data[:min(8, len(data))]), "%d", &n); err != nil || !bytes.Equal(data, generation(n)) {
				t.Errorf("kill %d: %s has %d bytes that no writer wrote whole", i, info.Key, len(data))
			}
		}
		if objects < 2 {
			t.Errorf("kill %d: %d objects, but the first two were written before", i, objects)
		}
	}
}

func TestStaleTemporaryFilesAreRemoved(t *testing.T) {
	root := t.TempDir()
	open(t, "file://"+root)
	stale, fresh := filepath.Join(root, "tmp~", "stale"), filepath.Join(root, "tmp~", "fresh")
	for _, path := range []string{stale, fresh} {
		if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(stale, old, old); err != nil {
		t.Fatal(err)
	}
	s := open(t, "file://"+root)
	onlyEntries(t, filepath.Join(root, "tmp~"), "fresh")
	for info, err := range s.Driver().List(t.Context(), "") {
		t.Errorf("listed %s, %v", info.Key, err)
	}
}

func TestWriteLeavesNoTemporaryFile(t *testing.T) {
	root := t.TempDir()
	s := open(t, "file://"+root)
	writes := []struct {
		key  string
		opts store.WriteOptions
		want error
	}{
		{"k", store.WriteOptions{IfAbsent: true}, nil},
		{"k", store.WriteOptions{IfAbsent: true}, store.ErrExists},
		{"k", store.WriteOptions{}, nil},
		{"k/below", store.WriteOptions{}, store.ErrKey},
	}
	for _, w := range writes {
		if err := s.Driver().Write(t.Context(), w.key, strings.NewReader("x"), w.opts); !errors.Is(err, w.want) {
			t.Errorf("%s: got %v, want %v", w.key, err, w.want)
		}
	}
	onlyEntries(t, filepath.Join(root, "tmp~"))
}

// TestFetchedFilesAreNotTheStores writes to what was fetched; the store must not notice.
func TestFetchedFilesAreNotTheStores(t *testing.T) {
	s := open(t, "file://"+t.TempDir())
	ref := putTree(t, s, tree(t, sample))
	dir := filepath.Join(t.TempDir(), "out")
	if err := s.Fetch(t.Context(), ref, dir); err != nil {
		t.Fatal(err)
	}
	for path := range sample {
		if err := os.WriteFile(filepath.Join(dir, path), []byte("scribble"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	again := filepath.Join(t.TempDir(), "again")
	if err := s.Fetch(t.Context(), ref, again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sample, readTree(t, again)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestFullDisk(t *testing.T)     { inNamespace(t, "fill-the-disk") }
func TestReadOnlyDisk(t *testing.T) { inNamespace(t, "write-read-only") }

// inNamespace starts this binary in a mount namespace of its own, in which it may mount a small disk where the machine lets it.
func inNamespace(t *testing.T, role string) {
	cmd := exec.Command(os.Args[0], role, t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	exit := (*exec.ExitError)(nil)
	switch {
	case err != nil && !errors.As(err, &exit):
		t.Skipf("this machine allows no user namespaces: %v", err)
	case exit != nil && exit.ExitCode() == exitNoMount:
		t.Skip("this machine allows no mounts in user namespaces")
	case err != nil:
		t.Errorf("%s", out)
	}
}

var errNoMount = errors.New("may not mount")

// onSmallDisk mounts 1 MiB of memory on dir and runs f.
func onSmallDisk(dir string, f func(dir string) error) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return errNoMount
	}
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=1m"); err != nil {
		return errNoMount
	}
	return f(dir)
}

func fillTheDisk(dir string) error {
	ctx := context.Background()
	s, err := store.Open(ctx, "file://"+dir)
	if err != nil {
		return err
	}
	if err := s.PutJSON(ctx, "before", "here", store.WriteOptions{}); err != nil {
		return err
	}
	err = s.Driver().Write(ctx, "large", bytes.NewReader(make([]byte, 2<<20)), store.WriteOptions{})
	if !errors.Is(err, store.ErrFull) || !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "large") {
		return fmt.Errorf("write: got %w, want ErrFull with the key", err)
	}
	if _, err := s.Driver().Stat(ctx, "large"); !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("a full disk left an object: %w", err)
	}
	// What the failed write took is free again: this artifact fits, but for a second copy of it there is no room.
	content := filepath.Join(dir, "content")
	if err := os.Mkdir(content, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(content, "f"), make([]byte, 400<<10), 0o600); err != nil {
		return err
	}
	ref, err := s.PutTree(ctx, artifact.Dataset, content, nil, nil)
	if err != nil {
		return err
	}
	before, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if err := s.Fetch(ctx, ref, filepath.Join(dir, "out")); !errors.Is(err, store.ErrFull) {
		return fmt.Errorf("fetch: got %w, want ErrFull", err)
	}
	if after, err := os.ReadDir(dir); err != nil || len(after) != len(before) {
		return fmt.Errorf("fetch onto a full disk left something: %v, %w", after, err)
	}
	var got string
	return s.GetJSON(ctx, "before", &got)
}

func writeReadOnly(dir string) error {
	ctx := context.Background()
	s, err := store.Open(ctx, "file://"+dir)
	if err != nil {
		return err
	}
	if err := s.PutJSON(ctx, "before", "here", store.WriteOptions{}); err != nil {
		return err
	}
	if err := syscall.Mount("none", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("make it read-only: %w", err)
	}
	for what, err := range map[string]error{
		"new":    s.PutJSON(ctx, "new", "x", store.WriteOptions{IfAbsent: true}),
		"before": s.PutJSON(ctx, "before", "x", store.WriteOptions{}),
		"delete": s.Driver().Delete(ctx, "before"),
	} {
		if !errors.Is(err, store.ErrReadOnly) {
			return fmt.Errorf("%s: got %w, want ErrReadOnly", what, err)
		}
	}
	if _, err := store.Open(ctx, "file://"+dir+"/below"); !errors.Is(err, store.ErrReadOnly) {
		return fmt.Errorf("open: got %w, want ErrReadOnly", err)
	}
	var got string
	return s.GetJSON(ctx, "before", &got)
}
