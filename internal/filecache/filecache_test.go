package filecache

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func sumOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

// open opens a cache on a disk that has room. What it says is in the buffer.
func open(t *testing.T, dir string, limit int64) (*Cache, *bytes.Buffer) {
	t.Helper()
	var said bytes.Buffer
	c, err := Open(dir, limit, slog.New(slog.NewTextHandler(&said, nil)))
	if err != nil {
		t.Fatal(err)
	}
	c.disk = func(string) (int64, int64, error) { return 1 << 40, 1 << 40, nil }
	return c, &said
}

// want takes a content from a cache, and reports whether it was there; else it is fetched.
func want(t *testing.T, c *Cache, content string) bool {
	t.Helper()
	kept, fill := c.Take(t.Context(), sumOf(content))
	if kept != nil {
		defer kept.Close()
		if found, err := io.ReadAll(kept); err != nil || string(found) != content {
			t.Errorf("the cache has %q, %v, want %q", found, err, content)
		}
		return true
	}
	fetch(fill, content)
	return false
}

func fetch(fill *Fill, content string) {
	defer fill.Drop()
	fill.Reserve(int64(len(content)))
	_, _ = fill.Write([]byte(content))
	fill.Keep()
}

// sizes are the sizes of the files of a cache, by name; those whose content is not that of their name are an error.
func sizes(t *testing.T, dir string) map[string]int64 {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int64{}
	for _, entry := range entries {
		if entry.Name() == usedFile {
			continue
		}
		content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		found[entry.Name()] = int64(len(content))
		if sumOf(string(content)) != entry.Name() {
			t.Errorf("%s has %q", entry.Name(), content)
		}
	}
	return found
}

// total is how much the files of a cache have in all.
func total(dir string) (sum int64, err error) {
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && entry.Name() != usedFile {
			sum += info.Size()
		}
	}
	return sum, err
}

// TestKeeps: a file is fetched once, and found by who opens the folder next.
func TestKeeps(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "cache")
	c, _ := open(t, dir, 1000)
	for _, content := range []string{"weights", ""} {
		if want(t, c, content) {
			t.Fatalf("an empty cache has %q", content)
		}
		if !want(t, c, content) {
			t.Errorf("%q is not kept", content)
		}
		again, _ := open(t, dir, 1000)
		if !want(t, again, content) {
			t.Errorf("%q is not found again", content)
		}
	}
	for path, mode := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, sumOf("weights")): 0o400} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v, want mode %o", path, info.Mode(), err, mode)
		}
	}
}

// TestDamage: what is damaged on the disk is never handed out, and fetched again.
func TestDamage(t *testing.T) {
	damages := map[string]func(path string) error{
		"a flipped bit": func(path string) error { return os.WriteFile(path, []byte("wEights"), 0o600) },
		"cut off":       func(path string) error { return os.Truncate(path, 3) },
		"longer":        func(path string) error { return os.WriteFile(path, []byte("weights!"), 0o600) },
		"empty":         func(path string) error { return os.Truncate(path, 0) },
		"a folder":      func(path string) error { return os.Mkdir(path, 0o700) },
		"a link":        func(path string) error { return os.Symlink("/etc/passwd", path) },
	}
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			c, said := open(t, t.TempDir()+"/cache", 1000)
			want(t, c, "weights")
			path := filepath.Join(c.dir, sumOf("weights"))
			if err := os.Chmod(path, 0o600); err != nil {
				t.Fatal(err)
			}
			if name == "a folder" || name == "a link" {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			}
			if err := damage(path); err != nil {
				t.Fatal(err)
			}
			if want(t, c, "weights") {
				t.Error("it was not fetched")
			}
			if !strings.Contains(said.String(), "is damaged") {
				t.Errorf("it said %q, want that the file is damaged", said)
			}
			if !want(t, c, "weights") {
				t.Error("what was fetched again is not kept")
			}
		})
	}
}

// TestBound: the least recently used files go first, a file that is larger than the cache drives no other out, and one that lacks its end is
// not kept.
func TestBound(t *testing.T) {
	c, said := open(t, t.TempDir()+"/cache", 100)
	content := func(name string, size int) string { return name + strings.Repeat(".", size-len(name)) }
	for i, name := range []string{"a", "b", "c"} {
		want(t, c, content(name, 30))
		at := time.Unix(int64(1000+i), 0)
		if err := os.Chtimes(filepath.Join(c.dir, sumOf(content(name, 30))), at, at); err != nil {
			t.Fatal(err)
		}
	}
	if !want(t, c, content("a", 30)) { // used again
		t.Fatal("a has gone")
	}
	want(t, c, content("d", 35))
	if want(t, c, content("huge", 101)) {
		t.Error("a file that is larger than the cache was kept")
	}
	if !strings.Contains(said.String(), "it has 101 bytes or more, and the file cache may have 100") {
		t.Errorf("it said %q, want why a file is not kept", said)
	}
	_, fill := c.Take(t.Context(), sumOf("half"))
	fill.Reserve(4)
	_, _ = fill.Write([]byte("ha"))
	fill.Drop()
	got := sizes(t, c.dir)
	for _, name := range []string{content("a", 30), content("d", 35)} {
		if _, ok := got[sumOf(name)]; !ok {
			t.Errorf("%.1s has gone", name)
		}
	}
	if len(got) != 2 { // 30+35, at most nine tenths
		t.Errorf("the cache has %v, want a and d", got)
	}
}

// TestUnknownSize: content whose size is not known beforehand is bounded all the same.
func TestUnknownSize(t *testing.T) {
	c, _ := open(t, t.TempDir()+"/cache", 3<<20)
	for _, size := range []int{2 << 20, 4 << 20} {
		content := strings.Repeat("x", size)
		_, fill := c.Take(t.Context(), sumOf(content))
		for part := range slices.Chunk([]byte(content), 32<<10) {
			_, _ = fill.Write(part)
		}
		fill.Keep()
		if _, kept := sizes(t, c.dir)[sumOf(content)]; kept != (size < 3<<20) {
			t.Errorf("%d bytes are kept: %v", size, kept)
		}
	}
}

// TestSpare: the disk is never filled, and what others need of it is given back.
func TestSpare(t *testing.T) {
	c, said := open(t, t.TempDir()+"/cache", 1<<30)
	var free atomic.Int64
	c.disk = func(dir string) (int64, int64, error) {
		used, err := total(dir)
		return 1000, free.Load() - used, err
	}
	free.Store(160) // 100 are spare
	want(t, c, "twenty bytes, as said")
	want(t, c, strings.Repeat("-", 45)) // would leave 160-45-45
	if got := sizes(t, c.dir); len(got) != 0 {
		t.Errorf("%v are kept on a disk that is nearly full", got)
	}
	if !strings.Contains(said.String(), "lacks 30 bytes") {
		t.Errorf("it said %q, want that the disk lacks room", said)
	}
	want(t, c, "twenty bytes, as said")
	want(t, c, "few")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var watch sync.WaitGroup
		watch.Go(func() { c.Watch(ctx) })
		time.Sleep(time.Second)
		free.Store(121)
		time.Sleep(10 * time.Second)
		cancel()
		watch.Wait()
	})
	if got := sizes(t, c.dir); len(got) != 1 || got[sumOf("few")] == 0 {
		t.Errorf("%v are left, want only what was used last", got)
	}
	c.disk = func(string) (int64, int64, error) { return 1 << 40, 0, nil }
	for _, limit := range []int64{1 << 20, 20 << 30, 50 << 30} { // a small cache keeps a little free, however large the disk
		c.limit = limit
		if lacking, err := c.lacking(0); err != nil || lacking != min(limit, 20<<30) {
			t.Errorf("for a cache of %d bytes a large disk lacks %d, %v", limit, lacking, err)
		}
	}
}

// TestFullDisk: a file that finds no room after all, since somebody else was faster, is not kept, and its fetch goes on.
func TestFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("a file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	c, said := open(t, disk+"/cache", 1<<30) // which believes that there is room
	large := strings.Repeat("-", 4<<20)
	for _, reserved := range []int64{int64(len(large)), 0} {
		kept, fill := c.Take(t.Context(), sumOf(large))
		if kept != nil {
			t.Fatal("it is kept")
		}
		fill.Reserve(reserved)
		for rest := large; rest != ""; rest = rest[1<<20:] {
			if n, err := fill.Write([]byte(rest[:1<<20])); n != 1<<20 || err != nil {
				t.Errorf("the fetch is told %d, %v", n, err)
			}
		}
		fill.Keep()
		fill.Drop()
	}
	if !strings.Contains(said.String(), "no space left on device") {
		t.Errorf("it said %q, want that there is no space left", said)
	}
	if got := sizes(t, c.dir); len(got) != 0 {
		t.Errorf("%v are kept", got)
	}
	want(t, c, "weights")
	if !want(t, c, "weights") {
		t.Error("what has room is not kept")
	}
}

// TestForeignFolder: a folder that others can read, or could have made, is not used.
func TestForeignFolder(t *testing.T) {
	for name, lay := range map[string]func(dir string) error{
		"open to others": func(dir string) error { return os.Mkdir(dir, 0o755) },
		"a link":         func(dir string) error { return os.Symlink(t.TempDir(), dir) },
		"a file":         func(dir string) error { return os.WriteFile(dir, nil, 0o600) },
	} {
		dir := filepath.Join(t.TempDir(), "cache")
		if err := lay(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir, 1000, slog.Default()); err == nil || !strings.Contains(err.Error(), "mode 0700") {
			t.Errorf("%s: %v, want that it is not a folder of this user alone", name, err)
		}
	}
}

// TestRemoved: whoever removes the folder has agents go on without, and then with the next.
func TestRemoved(t *testing.T) {
	dir := t.TempDir() + "/cache"
	c, _ := open(t, dir, 1000)
	want(t, c, "weights")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if want(t, c, "weights") {
		t.Error("it was not fetched")
	}
	open(t, dir, 1000)
	want(t, c, "weights")
	if !want(t, c, "weights") {
		t.Error("it is not kept in the folder that was made anew")
	}
}

// helperVariable makes this program another process that uses a cache.
const helperVariable = "FILECACHE_TEST"

func TestMain(m *testing.M) {
	how, dir, ok := strings.Cut(os.Getenv(helperVariable), " ")
	if !ok {
		os.Exit(m.Run())
	}
	c, err := Open(dir, churnLimit, slog.Default())
	if err != nil {
		panic(err)
	}
	switch how {
	case "begin": // is killed in the middle of a fetch
		_, fill := c.Take(context.Background(), sumOf("weights"))
		fill.Reserve(7)
		_, _ = fill.Write([]byte("wei"))
		fmt.Println("begun")
		<-time.After(time.Hour) // nothing else would be left to run, which ends a program
	case "churn":
		churn(c)
	}
}

// helper starts another process.
func helper(t *testing.T, how, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperVariable+"="+how+" "+dir)
	cmd.Stderr = os.Stderr
	return cmd
}

// TestKilled: others wait for a process that fetches a file, and not for one that is dead; nothing half is left of it.
func TestKilled(t *testing.T) {
	for _, next := range []string{"the same file", "another", "a new process"} {
		t.Run(next, func(t *testing.T) {
			dir := t.TempDir() + "/cache"
			c, _ := open(t, dir, 1000)
			cmd := helper(t, "begin", dir)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			kill := sync.OnceFunc(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
			defer kill()
			if _, err := io.ReadFull(out, make([]byte, 6)); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*lookEvery)
			defer cancel()
			if kept, fill := c.Take(ctx, sumOf("weights")); kept != nil || fill != nil || ctx.Err() == nil {
				t.Errorf("it was not waited for: %v, %v", kept, fill)
			}
			kill()
			switch next {
			case "the same file":
				if want(t, c, "weights") || !want(t, c, "weights") {
					t.Error("it is not fetched once more, and kept")
				}
			case "another":
				want(t, c, strings.Repeat("x", 995)) // for which room must be made
			case "a new process":
				open(t, dir, 1000)
			}
			sizes(t, dir)
		})
	}
}

// TestFrozen: a process that is frozen in the middle of a fetch stops nobody else.
func TestFrozen(t *testing.T) {
	dir := t.TempDir() + "/cache"
	frozen, _ := open(t, dir, 1000)
	_, fill := frozen.Take(t.Context(), sumOf("weights"))
	defer fill.Drop()
	c, said := open(t, dir, 1000)
	c.silentFor = 2 * lookEvery
	if kept, fill := c.Take(t.Context(), sumOf("weights")); kept != nil || fill != nil || t.Context().Err() != nil {
		t.Errorf("got %v, %v, want that it is fetched without the cache", kept, fill)
	}
	if !strings.Contains(said.String(), "without the file cache") {
		t.Errorf("it said %q", said)
	}

	// The same while it makes room: one file is waited for, and no other.
	held, err := os.OpenFile(filepath.Join(dir, usedFile), os.O_RDWR, 0)
	if err == nil {
		err = lock(held)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	_, fill = c.Take(t.Context(), sumOf("data"))
	fetch(fill, "data")
	if kept, fill := c.Take(t.Context(), sumOf("data")); kept != nil || fill != nil {
		t.Errorf("got %v, %v, want that files are fetched without the cache", kept, fill)
	}
	if !strings.Contains(said.String(), "another process has locked") {
		t.Errorf("it said %q", said)
	}
}

// TestFetchedOnce: of many that want a file at once, one fetches it, and the others get it from the cache.
func TestFetchedOnce(t *testing.T) {
	dir := t.TempDir() + "/cache"
	var caches []*Cache
	for range 4 {
		c, _ := open(t, dir, 1000)
		caches = append(caches, c)
	}
	for round := range 40 {
		content := fmt.Sprint("weights ", round)
		var fetched atomic.Int64
		var all sync.WaitGroup
		for _, c := range slices.Repeat(caches, 8) {
			all.Go(func() {
				if !want(t, c, content) {
					fetched.Add(1)
				}
			})
		}
		all.Wait()
		if n := fetched.Load(); n != 1 {
			t.Errorf("%q was fetched %d times", content, n)
		}
	}
}

const churnLimit = 50_000

// churn fetches many files that do not all find room.
func churn(c *Cache) {
	for range 300 {
		content := strings.Repeat("x", 1000+rand.IntN(100)*30)
		kept, fill := c.Take(context.Background(), sumOf(content))
		if kept == nil {
			fetch(fill, content)
			continue
		}
		found, err := io.ReadAll(kept)
		if err != nil || string(found) != content {
			panic(fmt.Sprintf("the cache has %d bytes, %v, want %d", len(found), err, len(content)))
		}
		_ = kept.Close()
	}
}

// TestBoundHolds: while several processes fill the cache, it never has more than it may.
func TestBoundHolds(t *testing.T) {
	dir := t.TempDir() + "/cache"
	open(t, dir, churnLimit)
	var others []*exec.Cmd
	for range 3 {
		cmd := helper(t, "churn", dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		others = append(others, cmd)
	}
	ended := make(chan error, 1)
	go func() {
		var err error
		for _, cmd := range others {
			if waitErr := cmd.Wait(); waitErr != nil {
				err = waitErr
			}
		}
		ended <- err
	}()
	c, _ := open(t, dir, churnLimit)
	var most int64
	for running := true; running; {
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
			running = false
		case <-time.After(time.Millisecond):
		}
		// The lock keeps the others from adding files, so that none is seen under two names.
		err := c.locked(func(used int64) (int64, error) {
			sum, err := total(dir)
			if sum > used {
				t.Errorf("the files have %d bytes, but %d are noted", sum, used)
			}
			most = max(most, sum)
			return used, err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if most > churnLimit || most < churnLimit/2 {
		t.Errorf("the cache had up to %d bytes, and may have %d", most, churnLimit)
	}
	sizes(t, dir)
}
