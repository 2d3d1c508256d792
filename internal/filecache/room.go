package filecache

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sluiceml/sluice/internal/poll"
)

const (
	// maxSpare bounds how much of the disk stays free: a tenth of it, at most this and at most what the cache itself may have.
	maxSpare = 20 << 30
	// watchEvery is how often it is looked whether the disk has become full otherwise.
	watchEvery = 10 * time.Second
)

// Watch gives the disk back what others need, until ctx ends.
func (c *Cache) Watch(ctx context.Context) {
	for range poll.Every(ctx, watchEvery) {
		c.relieve()
	}
}

// relieve removes files if the disk has become full.
func (c *Cache) relieve() {
	if lacking, err := c.lacking(0); err != nil || lacking <= 0 || c.blocked.Load() {
		return
	}
	if err := c.locked(func(used int64) (int64, error) { return c.makeRoom(used, 0) }); err != nil {
		c.log.Warn("the file cache could not give back room on a full disk", "dir", c.dir, "error", err)
	}
}

// reserve makes a file that has some room have more of it.
func (c *Cache) reserve(f *os.File, has, size int64) error {
	more := size - has
	if size > c.limit {
		return fmt.Errorf("it has %d bytes or more, and the file cache may have %d", size, c.limit)
	}
	return c.locked(func(used int64) (int64, error) {
		lacking, err := c.lacking(more)
		if err == nil && (lacking > 0 || used+more > c.limit) {
			if used, err = c.makeRoom(used, more); err == nil {
				lacking, err = c.lacking(more)
			}
		}
		switch {
		case err != nil:
			return used, err
		case lacking > 0:
			return used, fmt.Errorf("the disk of %s lacks %d bytes for it", c.dir, lacking)
		case used+more > c.limit:
			return used, errors.New("other files that are being fetched take all of the file cache's room")
		}
		return used + more, f.Truncate(size)
	})
}

// lacking is how much the disk lacks for more to be kept; not positive when nothing. What is kept is written twice: to the cache, and to
// where it is wanted.
func (c *Cache) lacking(more int64) (int64, error) {
	size, free, err := c.disk(c.dir)
	return min(size/10, maxSpare, c.limit) + 2*more - free, err
}

// disk is how large the disk of a folder is, and how much of it this user can still have.
func disk(dir string) (size, free int64, err error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, 0, fmt.Errorf("find out how full the disk of %s is: %w", dir, err)
	}
	return int64(s.Blocks) * s.Bsize, int64(s.Bavail) * s.Bsize, nil
}

// makeRoom removes what was left of dead fetches and the least recently used files, until there is room for more bytes or no file is left,
// and returns the sum of the sizes of what stays; before is what it was taken for. Once it removes files for the limit it goes on to nine
// tenths of it, so that a cache that is full is not listed for every file.
func (c *Cache) makeRoom(before, more int64) (used int64, err error) {
	files, used, err := c.list()
	if err != nil {
		return before, err
	}
	goal := c.limit
	if used+more > c.limit {
		goal = max(c.limit-c.limit/10, more)
	}
	for _, f := range files {
		lacking, err := c.lacking(more)
		if err != nil || lacking <= 0 && used+more <= goal {
			return used, err
		}
		if err := os.Remove(filepath.Join(c.dir, f.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return used, err
		}
		used -= f.Size()
	}
	return used, nil
}

// list returns the whole files, those least recently used first, and the sum of the sizes of all. What a dead process was fetching is
// removed.
func (c *Cache) list() (files []fs.FileInfo, used int64, err error) {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return nil, 0, err
	}
	for _, entry := range entries {
		info, err := entry.Info()
		switch {
		case errors.Is(err, fs.ErrNotExist), entry.Name() == usedFile:
			continue
		case err != nil:
			return nil, 0, err
		}
		if !strings.HasSuffix(entry.Name(), partSuffix) {
			files = append(files, info)
		} else if removeDead(filepath.Join(c.dir, entry.Name())) {
			continue
		}
		used += info.Size()
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	return files, used, nil
}

// removeDead removes a file that nobody is fetching any more, and reports whether it is gone.
func removeDead(path string) bool {
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	return lock(f) == nil && named(f, path) && os.Remove(path) == nil
}
