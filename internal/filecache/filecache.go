// Package filecache keeps files in a folder of this machine under the digests of their contents, within a bound, for all processes of one
// user. Every file is verified when it is taken, so nothing needs to be synced to the disk, and whatever damages one only has it fetched anew.
//
// A file that is being fetched has the suffix .part, and whoever fetches it holds a lock on it, which ends with the process: others wait for
// it, and what a killed process left is taken over or removed. The file "used" has the sum of all sizes, and its lock is held while room is
// made. The sum may be too high after files were removed, but not too low.
package filecache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sluiceml/sluice/internal/poll"
)

const (
	// partSuffix marks a file that is being fetched.
	partSuffix = ".part"
	// lookEvery is how often it is looked whether another process has fetched a file.
	lookEvery = 50 * time.Millisecond
	// silentFor is after how long a fetch of which nothing arrives is not waited for any more: its process may be frozen.
	silentFor = 20 * time.Second
)

// Cache is the cache of a folder. A nil one has nothing and keeps nothing. All methods are safe for concurrent use, also by several
// processes.
type Cache struct {
	dir   string
	limit int64
	log   *slog.Logger
	// disk is how large the disk is and how much of it is free; silentFor the constant. Tests have others.
	disk      func(dir string) (size, free int64, err error)
	silentFor time.Duration

	mu      sync.Mutex  // held by the goroutine that has, or waits for, the lock of the folder
	notKept sync.Once   // has said why a file is not kept
	blocked atomic.Bool // another process has the lock of the folder and does nothing: this one goes on without the cache
}

// Open opens the cache in dir, which is made if it is missing, with at most limit bytes. It is an error if others than this user can read
// dir, or its file system has no locks.
func Open(dir string, limit int64, log *slog.Logger) (*Cache, error) {
	c := &Cache{dir: dir, limit: limit, log: log, disk: disk, silentFor: silentFor}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if err := ownFolder(dir); err != nil {
		return nil, err
	}
	return c, c.locked(func(used int64) (int64, error) { return c.makeRoom(used, 0) })
}

// ownFolder is an error unless dir is a folder of this user that is closed to all others.
func ownFolder(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || int(owner.Uid) != os.Geteuid() || info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s is not a folder that belongs to this user alone, with mode 0700: remove it, or choose another", dir)
	}
	return nil
}

// Take returns the file whose content has a SHA-256 sum, in hexadecimal digits, if the cache has it; else what the content is to be written
// to while it is fetched. While another process fetches it, Take waits. Neither is returned where the content is to be fetched but cannot be
// kept, and when ctx ends.
func (c *Cache) Take(ctx context.Context, sum string) (*os.File, *Fill) {
	if c == nil || c.blocked.Load() {
		return nil, nil
	}
	part := filepath.Join(c.dir, sum+partSuffix)
	var written time.Time // when the process that fetches the file last wrote
	heard := time.Now()   // since when that has not changed
	for now := range poll.Every(ctx, lookEvery) {
		if f := c.open(ctx, sum); f != nil {
			return f, nil
		}
		fill, err := c.begin(sum)
		if err == nil {
			return nil, fill
		}
		if !errors.Is(err, errBusy) {
			c.refuse(err)
			return nil, nil
		}
		if info, err := os.Stat(part); err == nil && !info.ModTime().Equal(written) {
			written, heard = info.ModTime(), now
		}
		if now.Sub(heard) > c.silentFor {
			c.log.Warn("another process has stopped in the middle of fetching a file: fetching it without the file cache", "sha256", sum)
			return nil, nil
		}
	}
	return nil, nil
}

// refuse says why a file is not kept, the first time: there may be many.
func (c *Cache) refuse(err error) {
	c.notKept.Do(func() { c.log.Warn("the file cache does not keep all files", "dir", c.dir, "error", err) })
}

// open opens a file that the cache has, after it has verified its content; nil: it has none. One that is damaged is removed.
func (c *Cache) open(ctx context.Context, sum string) *os.File {
	path := filepath.Join(c.dir, sum)
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = verify(ctx, f, sum)
	}
	if err == nil {
		now := time.Now()
		_ = os.Chtimes(path, now, now) // the least recently used go first; it may have gone already
		return f
	}
	if f != nil {
		_ = f.Close() // it was only read
	}
	if ctx.Err() == nil {
		c.log.Warn("a file of the file cache is damaged and will be fetched again", "path", path, "error", err)
		_ = os.RemoveAll(path) // if it cannot be removed, it is found damaged again
	}
	return nil
}

// verify is an error unless the whole of f has the sum. Its offset is at the start then.
func verify(ctx context.Context, f *os.File, sum string) error {
	hash := sha256.New()
	for {
		n, err := io.CopyN(hash, f, copyStep)
		if err == nil && ctx.Err() != nil {
			err = ctx.Err()
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("after %d bytes: %w", n, err)
		}
	}
	if found := hex.EncodeToString(hash.Sum(nil)); found != sum {
		return fmt.Errorf("its content has the SHA-256 sum %s", found)
	}
	_, err := f.Seek(0, io.SeekStart)
	return err
}

// copyStep is how much is read between two looks whether that is still wanted.
const copyStep = 64 << 20

// errBusy: another process fetches the file, or has just done so.
var errBusy = errors.New("another process fetches the file")

// begin takes a file that is to be fetched.
func (c *Cache) begin(sum string) (*Fill, error) {
	path := filepath.Join(c.dir, sum)
	f, err := os.OpenFile(path+partSuffix, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lock(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	p := &Fill{cache: c, path: path, f: f}
	if !named(f, path+partSuffix) { // it was renamed or removed before the lock was got
		return nil, errors.Join(errBusy, f.Close())
	}
	if _, err := os.Lstat(path); err == nil {
		p.Drop()
		return nil, errBusy
	}
	if err := f.Truncate(0); err != nil {
		p.Drop()
		return nil, err
	}
	return p, nil
}

// named reports whether f is the file at path.
func named(f *os.File, path string) bool {
	own, err := f.Stat()
	there, thereErr := os.Lstat(path)
	return err == nil && thereErr == nil && os.SameFile(own, there)
}

// lock locks a file until it is closed; errBusy if another has it.
func lock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EWOULDBLOCK):
			return errBusy
		case err != nil:
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		return nil
	}
}

// Fill takes in the content of a file while it is fetched. What goes wrong with it is nothing to the fetch: the file is not kept then. A nil
// one takes in nothing.
type Fill struct {
	cache *Cache
	path  string // of the file once it is whole
	f     *os.File
	// size is how much was written, and reserved how much of the cache's room the file has.
	size, reserved int64
}

// extendBy is in what steps a file gets room whose size is not known.
const extendBy = 1 << 20

// Reserve makes room for a content of size bytes, for which less recently used files go. Without it, room is made as the content arrives.
func (p *Fill) Reserve(size int64) {
	if p == nil || p.f == nil || size <= p.reserved {
		return
	}
	if err := p.cache.reserve(p.f, p.reserved, size); err != nil {
		p.abandon(err)
		return
	}
	p.reserved = size
}

// Write implements io.Writer, and never fails.
func (p *Fill) Write(b []byte) (int, error) {
	if p == nil {
		return len(b), nil
	}
	if end := p.size + int64(len(b)); end > p.reserved {
		p.Reserve(max(end, p.reserved+extendBy))
	}
	if p.f == nil {
		return len(b), nil
	}
	n, err := p.f.Write(b)
	p.size += int64(n)
	if err != nil {
		p.abandon(err)
	}
	return len(b), nil
}

// Keep keeps the file, whose content has been written whole and verified.
func (p *Fill) Keep() {
	if p == nil || p.f == nil {
		return
	}
	err := errors.Join(p.f.Truncate(p.size), p.f.Chmod(0o400))
	if err == nil {
		err = p.cache.locked(func(used int64) (int64, error) {
			return used - p.reserved + p.size, os.Rename(p.path+partSuffix, p.path)
		})
	}
	if err != nil {
		p.abandon(err)
		return
	}
	_ = p.f.Close() // what could not be written is found when the file is verified
	p.f = nil
}

// Drop keeps nothing of the file, unless it has been kept.
func (p *Fill) Drop() {
	if p == nil || p.f == nil {
		return
	}
	_ = os.Remove(p.path + partSuffix) // what is left is removed when room is made
	_ = p.f.Close()
	p.f = nil
}

// abandon keeps nothing of the file, and says why.
func (p *Fill) abandon(err error) {
	p.cache.refuse(err)
	p.Drop()
}

// locked calls do with the sum of all sizes while no other process makes room or adds a file, and notes the sum that it returns.
func (c *Cache) locked(do func(used int64) (int64, error)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	ledger, err := os.OpenFile(filepath.Join(c.dir, usedFile), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer ledger.Close()
	ctx, cancel := context.WithTimeout(context.Background(), c.silentFor)
	defer cancel()
	err = errBusy
	for range poll.Every(ctx, lookEvery/10) {
		if err = lock(ledger); !errors.Is(err, errBusy) {
			break
		}
	}
	if errors.Is(err, errBusy) {
		c.blocked.Store(true)
		return fmt.Errorf("another process has locked %s for %v", ledger.Name(), c.silentFor)
	} else if err != nil {
		return err
	}
	text := make([]byte, usedDigits)
	n, _ := ledger.ReadAt(text, 0) // a file that is too short is not read to its end
	used, err := strconv.ParseInt(string(text[:n]), 10, 64)
	if err != nil || n != usedDigits {
		if _, used, err = c.list(); err != nil {
			return err
		}
	}
	used, err = do(used)
	_, writeErr := ledger.WriteAt(fmt.Appendf(nil, "%0*d", usedDigits, used), 0)
	return errors.Join(err, writeErr)
}

// usedFile has the sum of all sizes, as usedDigits digits.
const (
	usedFile   = "used"
	usedDigits = 19
)
