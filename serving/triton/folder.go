package triton

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/sluiceml/sluice/store"
)

// temporaryPrefix is that of folders that are being written or removed; a random part follows the model's name.
const temporaryPrefix = ".sluice."

// Files are for Triton, which may run as another user. The process's umask takes from that what it should.
const (
	folderMode = 0o777
	fileMode   = 0o666
)

// folder is a model repository on a file system.
type folder string

func (f folder) open() (*os.Root, error) {
	root, err := os.OpenRoot(string(f))
	if err != nil {
		return nil, fmt.Errorf("the model repository: %w", err)
	}
	return root, nil
}

// publish implements repository. Each model appears whole, by rename.
func (f folder) publish(ctx context.Context, s *store.Store, m *model) error {
	root, err := f.open()
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range m.names() {
		if err := publishModel(ctx, root, m.marked(name), m.files(s, name)); err != nil {
			return fmt.Errorf("write the model to the repository %s: %w", f, err)
		}
	}
	return nil
}

func publishModel(ctx context.Context, root *os.Root, wanted marker, files []file) (err error) {
	if there, err := isThere(root, wanted); there || err != nil {
		return err
	}
	temp := temporaryPrefix + wanted.Name + "." + rand.Text()
	if err := root.Mkdir(temp, folderMode); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, root.RemoveAll(temp))
		}
	}()
	if err := fill(ctx, root, temp, wanted, files); err != nil {
		return err
	}
	err = root.Rename(temp, wanted.Name)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTEMPTY) {
		// Another gateway was faster.
		if there, thereErr := isThere(root, wanted); there {
			return root.RemoveAll(temp)
		} else if thereErr != nil {
			return thereErr
		}
	}
	if err != nil {
		return err
	}
	return syncFolder(root, ".")
}

// isThere reports whether a model is in the repository. A folder of its name that is something else is an error.
func isThere(root *os.Root, wanted marker) (bool, error) {
	if _, err := root.Lstat(wanted.Name); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	have, err := markerOf(root, wanted.Name)
	if errors.Is(err, fs.ErrNotExist) {
		err = wanted.foreign()
	}
	if err == nil {
		err = wanted.is(have)
	}
	return err == nil, err
}

func markerOf(root *os.Root, name string) (marker, error) {
	f, err := root.Open(path.Join(name, markerFile))
	if err != nil {
		return marker{}, err
	}
	defer f.Close()
	return readMarker(name, f)
}

// fill writes a model to a folder, so that it survives a crash.
func fill(ctx context.Context, root *os.Root, to string, mark marker, files []file) error {
	raw, err := json.Marshal(mark)
	if err == nil {
		err = write(root, path.Join(to, markerFile), bytes.NewReader(raw))
	}
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		content, err := f.open(ctx)
		if err != nil {
			return err
		}
		err = write(root, path.Join(to, f.at), content)
		_ = content.Close() // only read from
		if err != nil {
			return err
		}
	}
	return fs.WalkDir(root.FS(), to, func(at string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			err = syncFolder(root, at)
		}
		return err
	})
}

func write(root *os.Root, at string, content io.Reader) (err error) {
	if err := root.MkdirAll(path.Dir(at), folderMode); err != nil {
		return err
	}
	f, err := root.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := io.Copy(f, content); err != nil {
		return err
	}
	return f.Sync()
}

func syncFolder(root *os.Root, name string) error {
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// list implements repository.
func (f folder) list(_ context.Context, owner, target string) ([]found, error) {
	root, err := f.open()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("the model repository: %w", err)
	}
	ours := ours(owner, target)
	var list []found
	for _, entry := range entries {
		name, temporary := strings.CutPrefix(entry.Name(), temporaryPrefix)
		parts := ours.FindStringSubmatch(name)
		if parts == nil || temporary != (parts[3] != "") || !entry.IsDir() {
			continue
		}
		if !temporary { // the store's identity in its name is the mark of one that is: it may have no other yet
			have, err := markerOf(root, name)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				continue
			case err != nil:
				return nil, fmt.Errorf("the model repository: %w", err)
			case have.Name != name || have.Store != owner || have.Target != target || have.Version != parts[1]:
				continue
			}
		}
		list = append(list, found{name: entry.Name(), version: parts[1], temporary: temporary})
	}
	return list, nil
}

// remove implements repository. The folder is renamed before, so that a model which a crash leaves half removed is not taken for one.
func (f folder) remove(_ context.Context, name string) error {
	root, err := f.open()
	if err != nil {
		return err
	}
	defer root.Close()
	if !strings.HasPrefix(name, temporaryPrefix) {
		gone := temporaryPrefix + name + "." + rand.Text()
		if err := root.Rename(name, gone); err != nil {
			return fmt.Errorf("remove %s from the model repository: %w", name, err)
		}
		name = gone
	}
	if err := root.RemoveAll(name); err != nil {
		return fmt.Errorf("remove %s from the model repository: %w", name, err)
	}
	return nil
}

// writable implements repository.
func (f folder) writable(context.Context) error {
	root, err := f.open()
	if err != nil {
		return err
	}
	defer root.Close()
	name := temporaryPrefix + rand.Text()
	if err = root.Mkdir(name, folderMode); err == nil {
		err = root.Remove(name)
	}
	if err != nil {
		return fmt.Errorf("the model repository: %w", err)
	}
	return nil
}
