package store

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// fileDriver stores each object in a file of that name under a root folder.
//
// A Write goes to a temporary name on the same file system, is fsynced, and gets its name by link(2), which fails when the name
// is taken, or rename(2), which replaces it; then the folder is fsynced. So an object is whole or absent whenever the process or
// the machine stops, and create-if-absent holds between processes.
type fileDriver struct {
	root string
	// synced holds the folders whose own entry this process has made durable.
	synced sync.Map
}

// tempDir holds the files that are being written. No key collides with it, because a key cannot contain a tilde.
const tempDir = "tmp~"

// staleAfter is how long a temporary file must be unmodified to count as left behind by a dead writer. A live writer that is this slow gets
// an error from its link or rename.
const staleAfter = time.Hour

func openFile(root string) (*fileDriver, error) {
	d := &fileDriver{root: root}
	if err := os.MkdirAll(filepath.Join(root, tempDir), 0o700); err != nil {
		return nil, writeError(err)
	}
	return d, d.removeStale()
}

// removeStale deletes the temporary files that killed writers have left behind.
func (d *fileDriver) removeStale() error {
	dir := filepath.Join(d.root, tempDir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || time.Since(info.ModTime()) < staleAfter {
			continue
		}
		if err := os.Remove(filepath.Join(dir, entry.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return writeError(err)
		}
	}
	return nil
}

func (d *fileDriver) path(key string) string { return filepath.Join(d.root, filepath.FromSlash(key)) }

func (d *fileDriver) Read(_ context.Context, key string) (io.ReadCloser, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	f, err := os.Open(d.path(key))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, readError(err))
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, fmt.Errorf("read %s: %w", key, cmp.Or(err, ErrNotFound))
	}
	return f, nil
}

func (d *fileDriver) Stat(_ context.Context, key string) (Info, error) {
	if err := checkKey(key); err != nil {
		return Info{}, err
	}
	info, err := os.Stat(d.path(key))
	if err == nil && !info.Mode().IsRegular() {
		err = ErrNotFound
	}
	if err != nil {
		return Info{}, fmt.Errorf("stat %s: %w", key, readError(err))
	}
	return Info{Key: key, Bytes: info.Size(), Modified: info.ModTime()}, nil
}

func (d *fileDriver) Write(ctx context.Context, key string, r io.Reader, opts WriteOptions) error {
	if err := checkKeys(key, opts); err != nil {
		return err
	}
	err := d.write(ctx, key, r, opts)
	if errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EISDIR) {
		err = fmt.Errorf("%w: no key can be a folder of another", ErrKey)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", key, writeError(err))
	}
	return nil
}

func (d *fileDriver) write(ctx context.Context, key string, r io.Reader, opts WriteOptions) error {
	target := d.path(key)
	if opts.IfAbsent { // only saves the copy; link decides
		if info, err := os.Lstat(target); err == nil {
			if info.IsDir() {
				return syscall.EISDIR
			}
			return ErrExists
		}
	}
	temp, err := d.writeTemp(ctx, r, !opts.Unsynced)
	if err != nil {
		return err
	}
	if opts.LinkAs != "" {
		second := temp + "-"
		if err = os.Link(temp, second); err == nil {
			err = d.move(second, opts.LinkAs)
		}
		if err != nil {
			return errors.Join(err, os.Remove(temp))
		}
	}
	if opts.IfAbsent {
		err = d.link(temp, key)
	} else {
		err = d.move(temp, key)
	}
	if err != nil || opts.Unsynced {
		return err
	}
	err = syncFolder(filepath.Dir(target))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the object has been deleted in the meantime, and the folder with it
	}
	return err
}

// move renames a temporary file to a key, replacing an existing file.
func (d *fileDriver) move(temp, key string) error {
	err := d.inFolder(key, func() error { return rename(temp, d.path(key)) })
	if err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return nil
}

// rename is rename(2). os.Rename calls lstat on the target first; the system call makes that redundant, and it takes as long as the rename.
func rename(from, to string) error {
	for {
		if err := syscall.Rename(from, to); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// link moves a temporary file to a key, or returns ErrExists if the key is taken.
func (d *fileDriver) link(temp, key string) error {
	err := d.inFolder(key, func() error { return os.Link(temp, d.path(key)) })
	if errors.Is(err, fs.ErrExist) {
		err = ErrExists
	}
	return errors.Join(err, os.Remove(temp))
}

// writeTemp writes r to a new temporary file and returns its name.
func (d *fileDriver) writeTemp(ctx context.Context, r io.Reader, durable bool) (name string, err error) {
	f, err := os.OpenFile(filepath.Join(d.root, tempDir, rand.Text()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return "", err
	}
	defer func() {
		err = cmp.Or(err, f.Close())
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if _, inMemory := r.(*bytes.Reader); !inMemory {
		r = ctxReader{ctx, r}
	}
	if _, err := io.Copy(f, r); err != nil {
		return "", err
	}
	if !durable {
		return f.Name(), nil
	}
	return f.Name(), f.Sync()
}

// Sync syncs the files concurrently, so that the file system can batch them into few commits.
func (d *fileDriver) Sync(ctx context.Context, keys []string) error {
	folders := map[string]bool{}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(syncers)
	for _, key := range keys {
		folders[filepath.Dir(d.path(key))] = true
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			err := syncFile(d.path(key))
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("make records durable: %w", writeError(err))
	}
	for folder := range folders {
		if err := syncFolder(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("make records durable: %w", writeError(err))
		}
	}
	return nil
}

// syncers is how many files are synced at once.
const syncers = 32

func syncFile(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// folderTries bounds how often a write creates its folder again. Each deleted object can remove it at most once.
const folderTries = 100

// inFolder runs do once the folder of a key exists, and again whenever a concurrent deletion has removed the folder because it was empty.
func (d *fileDriver) inFolder(key string, do func() error) (err error) {
	for range folderTries {
		if err = d.makeFolder(path.Dir(key)); err == nil {
			err = do()
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
		for dir := path.Dir(key); dir != "."; dir = path.Dir(dir) {
			d.synced.Delete(dir)
		}
	}
	return err
}

// makeFolder creates a folder and its parents, and makes each durable, parents first.
func (d *fileDriver) makeFolder(dir string) error {
	if _, ok := d.synced.Load(dir); ok || dir == "." {
		return nil
	}
	parent := path.Dir(dir)
	if err := d.makeFolder(parent); err != nil {
		return err
	}
	if err := os.Mkdir(d.path(dir), 0o700); err != nil {
		info, statErr := os.Stat(d.path(dir))
		switch {
		case statErr != nil && errors.Is(err, fs.ErrExist):
			return statErr // it was there, and has been removed
		case statErr != nil:
			return err
		case !info.IsDir():
			return syscall.ENOTDIR
		}
	}
	if err := syncFolder(d.path(parent)); err != nil {
		return err
	}
	d.synced.Store(dir, nil)
	return nil
}

func (d *fileDriver) Delete(_ context.Context, key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	info, err := os.Lstat(d.path(key))
	if err == nil && info.IsDir() {
		return nil
	}
	if err == nil {
		err = os.Remove(d.path(key))
	}
	if err == nil {
		err = d.removeEmpty(path.Dir(key))
	}
	if err != nil && !errors.Is(readError(err), ErrNotFound) {
		return fmt.Errorf("delete %s: %w", key, writeError(err))
	}
	return nil
}

// removeEmpty removes a folder and those of its parents that are then empty, and makes the removal durable. Every run has folders of its
// own; an empty one takes more space than a record and slows down every listing.
func (d *fileDriver) removeEmpty(dir string) error {
	for dir != "." && syscall.Rmdir(d.path(dir)) == nil {
		d.synced.Delete(dir)
		dir = path.Dir(dir)
	}
	return syncFolder(d.path(dir))
}

func (d *fileDriver) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		err := checkChars(prefix)
		if err == nil {
			dir, _ := path.Split(prefix)
			err = d.list(ctx, strings.TrimSuffix(dir, "/"), prefix, yield)
		}
		if err != nil && !errors.Is(err, errStop) {
			yield(Info{}, fmt.Errorf("list %s: %w", prefix, err))
		}
	}
}

// errStop ends a walk when the consumer stops iterating.
var errStop = errors.New("stop")

// list yields the objects below dir whose keys start with prefix.
func (d *fileDriver) list(ctx context.Context, dir, prefix string, yield func(Info, error) bool) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	entries, err := os.ReadDir(d.path(dir))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	// Sort by whole keys in byte order: the files of folder a are listed as a/..., which is after a-b and before a0.
	order := func(e fs.DirEntry) string {
		if e.IsDir() {
			return e.Name() + "/"
		}
		return e.Name()
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(order(a), order(b)) })
	for _, entry := range entries {
		key := path.Join(dir, entry.Name())
		if key == tempDir {
			continue
		}
		if entry.IsDir() {
			if below := key + "/"; strings.HasPrefix(below, prefix) || strings.HasPrefix(prefix, below) {
				if err := d.list(ctx, key, prefix, yield); err != nil {
					return err
				}
			}
			continue
		}
		if !strings.HasPrefix(key, prefix) {
			continue
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if !yield(Info{Key: key, Bytes: info.Size(), Modified: info.ModTime()}, nil) {
			return errStop
		}
	}
	return nil
}

func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return cmp.Or(f.Sync(), f.Close())
}

// readError maps the errors of the operating system for a missing object to ErrNotFound.
func readError(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return ErrNotFound
	}
	return err
}

// writeError wraps an error of the operating system in the Driver error that callers check for.
func writeError(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w: %w", ErrFull, err)
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: %w", ErrReadOnly, err)
	}
	return err
}
