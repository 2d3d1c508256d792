// Package store keeps what outlives a step: artifacts, run records, checkpoints, seals, routing documents and the registry. One
// portable Store holds the logic; a Driver (file, bucket) holds the bytes. layout.go says what lies where.
package store

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/sluiceml/sluice/internal/objectstore"
)

// Store is the portable half: content addressing, artifacts and JSON records on any Driver.
type Store struct {
	driver Driver
	url    string
	now    func() time.Time
	near   *Near // nil: fetch everything
}

// New returns a Store on driver. url is the address under which Open opens it.
func New(driver Driver, url string) *Store { return &Store{driver: driver, url: url, now: time.Now} }

// Open opens the store at url: "file:///absolute/folder" (the rest is the path as it is, without escapes; created when missing),
// "s3://bucket/folder" or "gs://bucket/folder" (see package objectstore for what may follow) or "mem://name" (this process only).
func Open(ctx context.Context, url string) (*Store, error) {
	if name, ok := strings.CutPrefix(url, "mem://"); ok {
		return New(openMem(name), url), nil
	}
	if objectstore.IsAddress(url) {
		driver, err := openBucket(ctx, url)
		if err != nil {
			return nil, err
		}
		return New(driver, url), nil
	}
	path, ok := strings.CutPrefix(url, "file://")
	if !ok || !filepath.IsAbs(path) {
		return nil, fmt.Errorf("open store %q: not the address of a store; use file:///an/absolute/folder, s3://bucket/folder or "+
			"gs://bucket/folder", url)
	}
	driver, err := openFile(filepath.Clean(path))
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", url, err)
	}
	return New(driver, url), nil
}

// URL returns the address that Open takes.
func (s *Store) URL() string { return s.url }

// Driver returns the driver, for packages that keep objects of their own (checkpoints, routing).
func (s *Store) Driver() Driver { return s.driver }

// maxRecord bounds a JSON record.
const maxRecord = 64 << 20

// PutJSON writes v as a JSON record under key (create-if-absent with opts.IfAbsent).
func (s *Store) PutJSON(ctx context.Context, key string, v any, opts WriteOptions) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write %s: %w", key, err)
	}
	if len(data) > maxRecord {
		return fmt.Errorf("write %s: %d bytes, more than the %d of a record", key, len(data), maxRecord)
	}
	return s.driver.Write(ctx, key, bytes.NewReader(append(data, '\n')), opts)
}

// GetJSON reads the record under key into v. The error is ErrNotFound if there is none, and ErrCorrupt if it is not valid JSON. Records
// over 64 MiB are rejected.
func (s *Store) GetJSON(ctx context.Context, key string, v any) error {
	r, err := s.driver.Read(ctx, key)
	if err != nil {
		return err
	}
	defer r.Close()
	// One byte more for the final newline, and one to detect a record that is too large.
	data, err := io.ReadAll(io.LimitReader(r, maxRecord+2))
	if err != nil {
		return fmt.Errorf("read %s: %w", key, err)
	}
	if len(data) > maxRecord+1 {
		return fmt.Errorf("read %s: more than the %d bytes of a record", key, maxRecord)
	}
	if len(bytes.Trim(data, "\x00")) == 0 { // an Unsynced write that was lost when the machine crashed
		return fmt.Errorf("read %s: %w", key, ErrNotFound)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("read %s: the record %w: %w", key, ErrCorrupt, err)
	}
	return nil
}
