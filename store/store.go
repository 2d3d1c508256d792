// Package store keeps what outlives a step: artifacts, run records, checkpoints, seals, routing documents and the registry. One
// portable Store holds the logic; a Driver (file, mem, later S3) holds the bytes.
//
// Layout, one prefix per kind of thing:
//
//	blobs/<hh>/<sha256>          file contents and manifests, by digest
//	submissions/<sha256>.json    what was submitted: source, environment, params, workspace reference
//	runs/<run>/run.json          the run's record; runs/<run>/steps/<step>.json a step's
//	checkpoints/<run>/<step>/    commits and seals of a training step
//	registry/<type>/<name>/      published datasets and models, one object per version
//	routing/<target>/<revision>  the routing document of a serving target, every revision
package store

import (
	"context"
	"io"

	"github.com/sluiceml/sluice/store/artifact"
)

// Store is the portable half: content addressing, artifacts and JSON records on any Driver.
type Store struct {
	driver Driver
	url    string
}

// New makes a Store on a driver; url is what Open would be given to open it again.
func New(driver Driver, url string) *Store { return &Store{driver: driver, url: url} }

// Open opens the store at url: "file:///absolute/folder" (created when missing) or "mem://name" (this process only).
func Open(ctx context.Context, url string) (*Store, error) { panic("being written") }

// URL returns the address that Open takes.
func (s *Store) URL() string { return s.url }

// PutTree stores the regular files under dir as an artifact and returns its reference. Symbolic links that leave dir, devices and
// sockets are refused. What is already stored is not written again. skip, when not nil, leaves out slash-separated relative paths.
func (s *Store) PutTree(ctx context.Context, typ artifact.Type, dir string, meta map[string]string, skip func(path string) bool) (artifact.Ref, error) {
	panic("being written")
}

// Manifest loads an artifact's manifest, verifying its digest.
func (s *Store) Manifest(ctx context.Context, ref artifact.Ref) (artifact.Manifest, error) {
	panic("being written")
}

// Fetch materialises an artifact as dir, verifying every file's digest. dir appears whole, by rename, or not at all; an existing
// dir with the same content is kept. With the file driver files are hard-linked read-only or copied, whichever is safe.
func (s *Store) Fetch(ctx context.Context, ref artifact.Ref, dir string) error { panic("being written") }

// PutBlob stores bytes by content and returns "sha256:<hex>".
func (s *Store) PutBlob(ctx context.Context, r io.Reader) (digest string, size int64, err error) {
	panic("being written")
}

// Blob opens a blob; the reader fails at its end when the content does not match the digest.
func (s *Store) Blob(ctx context.Context, digest string) (io.ReadCloser, error) { panic("being written") }

// PutJSON writes v as a JSON record under key (create-if-absent with opts.IfAbsent).
func (s *Store) PutJSON(ctx context.Context, key string, v any, opts WriteOptions) error {
	panic("being written")
}

// GetJSON reads the record under key into v. ErrNotFound if there is none; records over 64 MiB are refused.
func (s *Store) GetJSON(ctx context.Context, key string, v any) error { panic("being written") }

// Driver returns the driver, for packages that keep objects of their own (checkpoints, routing).
func (s *Store) Driver() Driver { return s.driver }
