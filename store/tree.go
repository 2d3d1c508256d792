package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/sluiceml/sluice/internal/artifact"
)

// parallel is how many files of an artifact are read or written at a time: enough for the file system to gather their fsyncs.
const parallel = 8

// maxManifest bounds a manifest in bytes: a million files or more.
const maxManifest = 256 << 20

// PutTree stores the regular files under dir as an artifact and returns its reference. A symbolic link to a file within dir is stored as
// that file; anything else is rejected with an IrregularError. Content that is already stored is not written again. skip, if not nil,
// excludes slash-separated relative paths; excluded folders are not read.
func (s *Store) PutTree(ctx context.Context, typ artifact.Type, dir string, meta map[string]string, skip func(path string) bool) (artifact.Ref, error) {
	manifest, err := readTree(ctx, dir, skip, func(f *os.File) (string, int64, error) { return s.putSeeker(ctx, f) })
	if err != nil {
		return artifact.Ref{}, fmt.Errorf("store %s as a %s: %w", dir, typ, err)
	}
	s.near.add(manifest.Files, dir)
	manifest.Type, manifest.Meta = typ, meta
	ref, err := s.putManifest(ctx, manifest)
	if err != nil {
		return artifact.Ref{}, fmt.Errorf("store %s as a %s: %w", dir, typ, err)
	}
	return ref, nil
}

// putManifest stores the list of an artifact's files. Unlike those, a list that is already stored is read, and replaced if it is damaged:
// it is small, and an artifact with a damaged list counts as missing (HasTree), so the step that makes the artifact again has to mend it.
func (s *Store) putManifest(ctx context.Context, m artifact.Manifest) (artifact.Ref, error) {
	data, err := encodeManifest(m)
	if err != nil {
		return artifact.Ref{}, err
	}
	digest, _, err := s.put(ctx, bytes.NewReader(data), func(digest string) (bool, error) {
		switch damaged, err := s.isDamaged(ctx, digest); {
		case errors.Is(err, ErrNotFound): // a sweep has just deleted it
			return false, nil
		default:
			return !damaged, err
		}
	})
	if err != nil {
		return artifact.Ref{}, err
	}
	return refOf(m, digest), nil
}

// ListTree returns the files that PutTree would store, with their digests, and stores nothing.
func ListTree(ctx context.Context, dir string, skip func(path string) bool) ([]artifact.File, error) {
	manifest, err := readTree(ctx, dir, skip, func(f *os.File) (string, int64, error) { return digestOf(ctx, f) })
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", dir, err)
	}
	return manifest.Files, nil
}

func refOf(m artifact.Manifest, digest string) artifact.Ref {
	ref := artifact.Ref{Type: m.Type, Digest: digest, Files: len(m.Files)}
	for _, f := range m.Files {
		ref.Bytes += f.Bytes
	}
	return ref
}

// readTree lists the files under dir; put is called for the content of each, several at a time.
func readTree(ctx context.Context, dir string, skip func(string) bool, put func(*os.File) (string, int64, error)) (artifact.Manifest, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return artifact.Manifest{}, err
	}
	defer func() { _ = root.Close() }()
	paths, err := listTree(root, skip)
	if err != nil {
		return artifact.Manifest{}, err
	}
	files := make([]artifact.File, len(paths))
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i, path := range paths {
		group.Go(func() error {
			if err := context.Cause(groupCtx); err != nil {
				return err
			}
			file, err := readFile(root, path, put)
			files[i] = file
			return err
		})
	}
	return artifact.Manifest{Files: files}, group.Wait()
}

func readFile(root *os.Root, path string, put func(*os.File) (string, int64, error)) (artifact.File, error) {
	f, err := root.Open(filepath.FromSlash(path))
	if err != nil {
		return artifact.File{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return artifact.File{}, err
	}
	digest, size, err := put(f)
	if errors.Is(err, ErrCorrupt) {
		err = errors.New("it was changed while it was read")
	}
	if err != nil {
		return artifact.File{}, fmt.Errorf("%s: %w", path, err)
	}
	return artifact.File{Path: path, Digest: digest, Bytes: size, Exec: info.Mode()&0o100 != 0}, nil
}

// listTree returns the paths of the files, in byte order.
func listTree(root *os.Root, skip func(string) bool) ([]string, error) {
	var paths []string
	err := fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path != "." && skip != nil && skip(path) {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if !fs.ValidPath(path) {
			return &IrregularError{Path: path, Why: "has a name that is not valid UTF-8"}
		}
		if entry.IsDir() {
			return nil
		}
		// Stat follows links, but Root rejects those that lead outside.
		info, err := root.Stat(filepath.FromSlash(path))
		link := entry.Type() == fs.ModeSymlink
		switch {
		case err != nil && (!link || errors.Is(err, fs.ErrPermission)):
			return err
		case err != nil:
			return &IrregularError{Path: path, Why: whyBroken(err)}
		case !info.Mode().IsRegular():
			return &IrregularError{Path: path, Why: whyIrregular(link, info.Mode())}
		}
		paths = append(paths, path)
		return nil
	})
	slices.Sort(paths)
	return paths, err
}

// encodeManifest returns the canonical form. Files are in byte order of their paths; encoding/json sorts the keys of Meta.
func encodeManifest(m artifact.Manifest) ([]byte, error) {
	data, err := json.Marshal(m)
	if err == nil && len(data) > maxManifest {
		err = fmt.Errorf("an artifact of %d files is too large: its list has %d bytes, more than the maximum of %d", len(m.Files), len(data), maxManifest)
	}
	return data, err
}

// Manifest loads an artifact's manifest, verifying its digest.
func (s *Store) Manifest(ctx context.Context, ref artifact.Ref) (artifact.Manifest, error) {
	m, err := s.manifest(ctx, ref)
	if err != nil {
		return artifact.Manifest{}, fmt.Errorf("%s %s: %w", ref.Type, ref.Digest, err)
	}
	return m, nil
}

// HasTree reports whether an artifact is in the store with all its files. It compares the sizes of the files, and does not read them.
func (s *Store) HasTree(ctx context.Context, ref artifact.Ref) (bool, error) {
	manifest, err := s.Manifest(ctx, ref)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrCorrupt) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	err = Each(ctx, len(manifest.Files), func(ctx context.Context, i int) error {
		key, err := blobKey(manifest.Files[i].Digest)
		if err != nil {
			return err
		}
		info, err := s.driver.Stat(ctx, key)
		if err == nil && info.Bytes != manifest.Files[i].Bytes {
			err = ErrCorrupt
		}
		return err
	})
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrCorrupt) {
		return false, nil
	}
	return err == nil, err
}

func (s *Store) manifest(ctx context.Context, ref artifact.Ref) (m artifact.Manifest, err error) {
	r, err := s.Blob(ctx, ref.Digest)
	if err != nil {
		return m, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, maxManifest+1))
	if err != nil {
		return m, err
	}
	if len(data) > maxManifest {
		return m, fmt.Errorf("its list of files has more than %d bytes", maxManifest)
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, fmt.Errorf("not an artifact: %w", err)
	}
	if m.Type != ref.Type {
		return m, fmt.Errorf("it is a %s", m.Type)
	}
	return m, checkFiles(m.Files)
}

// checkFiles rejects a list that PutTree would not have written, in particular one that would write outside the folder.
func checkFiles(files []artifact.File) error {
	for i, f := range files {
		if !fs.ValidPath(f.Path) || f.Path == "." {
			return fmt.Errorf("%q is not a path within an artifact", f.Path)
		}
		if i > 0 && files[i-1].Path >= f.Path {
			return fmt.Errorf("%q is out of order", f.Path)
		}
		if _, err := blobKey(f.Digest); err != nil {
			return fmt.Errorf("%s: %w", f.Path, err)
		}
	}
	return nil
}

// Fetch writes the files of an artifact to dir, verifying every digest. dir appears whole, by rename, or not at all; an existing dir with
// the same content is kept, an empty one is replaced, and for any other the error is ErrExists. Nothing is synced: the store has the files. Files are copied, not linked to those of
// the store: a reader that is root or changes their mode could write through a link, and so change every artifact that has the file. See
// Near for files that are already on this machine.
func (s *Store) Fetch(ctx context.Context, ref artifact.Ref, dir string) error {
	manifest, err := s.Manifest(ctx, ref)
	if err != nil {
		return fmt.Errorf("fetch: %w", err)
	}
	dir = filepath.Clean(dir)
	switch err := s.fetch(ctx, manifest, dir); {
	case errors.Is(err, ErrCorrupt):
		return fmt.Errorf("fetch %s %s: %w\nhelp: `sluice data verify` lists what the file belongs to, and how to replace it", ref.Type, ref.Digest, err)
	case err != nil:
		return fmt.Errorf("fetch %s %s: %w", ref.Type, ref.Digest, writeError(err))
	}
	s.near.add(manifest.Files, dir)
	return nil
}

func (s *Store) fetch(ctx context.Context, m artifact.Manifest, dir string) (err error) {
	if kept, err := isThere(ctx, m, dir); kept || err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+".")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(temp))
		}
	}()
	if err := os.Chmod(temp, 0o755); err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, f := range m.Files {
		group.Go(func() error { return s.fetchFile(groupCtx, f, filepath.Join(temp, filepath.FromSlash(f.Path))) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	// Not os.Rename, which refuses to replace an empty folder.
	err = syscall.Rename(temp, dir)
	if errors.Is(err, fs.ErrExist) {
		// Another process was faster.
		if kept, thereErr := isThere(ctx, m, dir); kept {
			return os.RemoveAll(temp)
		} else if thereErr != nil {
			return thereErr
		}
	}
	if err != nil {
		return err
	}
	return nil
}

// isThere reports whether dir has exactly these files. The error is ErrExists if it has any other content.
func isThere(ctx context.Context, m artifact.Manifest, dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil || len(entries) == 0 {
		return false, err
	}
	there, err := readTree(ctx, dir, nil, func(f *os.File) (string, int64, error) { return digestOf(ctx, f) })
	if err != nil {
		return false, err
	}
	if !slices.Equal(there.Files, m.Files) {
		return false, fmt.Errorf("%s: %w, with different content", dir, ErrExists)
	}
	return true, nil
}

func (s *Store) fetchFile(ctx context.Context, f artifact.File, path string) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if f.Exec {
		mode = 0o755
	}
	if s.near.link(ctx, f, path, mode) {
		return nil
	}
	out, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, out.Close()) }()
	if err := s.copyBlob(ctx, f, out); err != nil {
		return fmt.Errorf("%s: %w", f.Path, err)
	}
	return nil
}

// copyBlob writes the content of a file to out. The kernel copies from a store in a folder (copy_file_range(2)): on a file system that can
// share blocks among files, such as XFS and Btrfs, nothing is written.
func (s *Store) copyBlob(ctx context.Context, f artifact.File, out *os.File) error {
	if _, ok := s.driver.(*fileDriver); !ok || s.near != nil {
		r, err := s.blob(ctx, f.Digest, f.Bytes)
		if err != nil {
			return err
		}
		defer r.Close()
		_, err = io.Copy(out, r)
		return err
	}
	key, err := blobKey(f.Digest)
	if err != nil {
		return err
	}
	in, err := s.driver.Read(ctx, key)
	if err != nil {
		return err
	}
	defer in.Close()
	for err = nil; err == nil && ctx.Err() == nil; {
		_, err = io.CopyN(out, in, copyAtOnce)
	}
	if !errors.Is(err, io.EOF) {
		return cmp.Or(err, context.Cause(ctx))
	}
	if _, err := out.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, newVerifier(ctxReader{ctx, out}, f.Digest))
	return err
}

// copyAtOnce is how many bytes the kernel copies before a canceled context is noticed.
const copyAtOnce = 64 << 20
