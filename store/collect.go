package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluiceml/sluice/internal/artifact"
)

// contents lists the prefixes without records. Garbage collection deletes blobs; models, parts and logs are removed by the target, the
// commit or the run that owns them.
var contents = []string{blobsPrefix, ServingPrefix, PartsPrefix, LogsPrefix, reusedPrefix, forgottenPrefix}

// digestIn finds the digests in a record.
var digestIn = regexp.MustCompile(digestPrefix + "[0-9a-f]{64}")

// Garbage lists the blobs that were written before the given time and that no record refers to, directly or through other blobs. Anything
// in a record that looks like a digest is a reference. References in records that were removed since that time still count. Sweep deletes
// the blobs.
func (s *Store) Garbage(ctx context.Context, before time.Time) ([]Info, error) {
	used, err := s.referenced(ctx, before, func(Info) {}, func() {})
	if err != nil {
		return nil, err
	}
	var garbage []Info
	for info, err := range s.driver.List(ctx, blobsPrefix) {
		if err != nil {
			return nil, err
		}
		if _, needed := used[digestOfKey(info.Key)]; !needed && info.Modified.Before(before) {
			garbage = append(garbage, info)
		}
	}
	return garbage, nil
}

// digestOfKey returns the digest of the blob under key.
func digestOfKey(key string) string { return digestPrefix + key[strings.LastIndexByte(key, '/')+1:] }

// referenced returns the digests that can be reached from records. The value is the type of the artifact that contains the file, the first
// by name if there are several, and empty for any other blob. It calls listed for every object of the store, and read, concurrently, after
// each record.
func (s *Store) referenced(ctx context.Context, before time.Time, listed func(Info), read func()) (map[string]artifact.Type, error) {
	m := &marker{store: s, used: map[string]artifact.Type{}, done: read}
	var records []Info
	for info, err := range s.driver.List(ctx, "") {
		if err != nil {
			return nil, err
		}
		listed(info)
		isContent := func(prefix string) bool { return strings.HasPrefix(info.Key, prefix) }
		if !slices.ContainsFunc(contents, isContent) {
			records = append(records, info)
		}
	}
	err := m.read(ctx, records)
	if err != nil {
		return nil, err
	}
	// Read these after the records, to include what records that were removed in the meantime referred to.
	forgotten, err := s.forgotten(ctx, func(info Info) bool { return !info.Modified.Before(before) })
	if err == nil {
		err = m.read(ctx, forgotten)
	}
	for err == nil && len(m.todo) > 0 {
		todo := m.todo
		m.todo = nil
		err = Each(ctx, len(todo), func(ctx context.Context, i int) error { return m.follow(ctx, todo[i]) })
	}
	return m.used, err
}

// Naming lists the keys of the records under prefix that contain one of the digests.
func (s *Store) Naming(ctx context.Context, prefix string, digests []string) ([]string, error) {
	var records []Info
	for info, err := range s.driver.List(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		records = append(records, info)
	}
	names := make([]bool, len(records))
	err := Each(ctx, len(records), func(ctx context.Context, i int) error {
		text, err := s.readAll(ctx, records[i].Key, records[i].Bytes)
		if errors.Is(err, ErrNotFound) {
			return nil // removed meanwhile
		}
		names[i] = slices.ContainsFunc(digests, func(digest string) bool { return bytes.Contains(text, []byte(digest)) })
		return err
	})
	var keys []string
	for i, info := range records {
		if names[i] {
			keys = append(keys, info.Key)
		}
	}
	return keys, err
}

// marker collects the digests that can be reached from records.
type marker struct {
	store *Store
	large sync.Mutex
	mu    sync.Mutex
	used  map[string]artifact.Type
	todo  []string
	done  func()
}

// read adds the digests in the records.
func (m *marker) read(ctx context.Context, records []Info) error {
	return Each(ctx, len(records), func(ctx context.Context, i int) error {
		text, err := m.store.readAll(ctx, records[i].Key, records[i].Bytes)
		m.done()
		if errors.Is(err, ErrNotFound) {
			return nil // removed meanwhile
		}
		m.add(text)
		return err
	})
}

func (m *marker) add(text []byte) {
	found := digestIn.FindAll(text, -1)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, digest := range found {
		digest := string(digest)
		if _, known := m.used[digest]; !known {
			m.used[digest] = ""
			m.todo = append(m.todo, digest)
		}
	}
}

// follow adds what a blob refers to: the files of a manifest, or the digests in a record that was stored as a blob. Files of artifacts are
// not followed, because what a user program has written refers to nothing.
func (m *marker) follow(ctx context.Context, digest string) error {
	key, err := blobKey(digest)
	if err != nil {
		return err
	}
	info, err := m.store.driver.Stat(ctx, key)
	if errors.Is(err, ErrNotFound) || err == nil && info.Bytes > maxManifest {
		return nil // not the digest of a blob, or too large for a record
	}
	if err != nil {
		return err
	}
	if info.Bytes > spoolInMemory { // hold only one large manifest in memory at a time
		m.large.Lock()
		defer m.large.Unlock()
	}
	text, err := m.store.readAll(ctx, key, info.Bytes)
	if errors.Is(err, ErrNotFound) {
		return nil // another sweep has just deleted it
	}
	if err != nil {
		return err
	}
	var manifest artifact.Manifest
	if json.Unmarshal(text, &manifest) == nil && manifest.Type != "" && manifest.Files != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, f := range manifest.Files {
			if typ := m.used[f.Digest]; typ == "" || manifest.Type < typ {
				m.used[f.Digest] = manifest.Type
			}
		}
		return nil
	}
	m.add(text)
	return nil
}

func (s *Store) readAll(ctx context.Context, key string, size int64) ([]byte, error) {
	r, err := s.driver.Read(ctx, key)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if size > maxManifest {
		return nil, fmt.Errorf("read %s: more than the %d bytes of a record", key, maxManifest)
	}
	return io.ReadAll(ctxReader{ctx, r})
}

// Verified is what Verify has found so far.
type Verified struct {
	Blobs int64 `json:"blobs"`
	Bytes int64 `json:"bytes"`
	// Damaged are the digests of blobs whose content does not match. Missing are those that an artifact needs and the store does not have.
	Damaged []string `json:"damaged"`
	Missing []string `json:"missing"`
}

// Verify reads every blob and checks it against its digest; it calls done after each. It returns an error if it cannot continue, not if
// something is damaged.
func (s *Store) Verify(ctx context.Context, done func(Verified)) (Verified, error) {
	v := Verified{Damaged: []string{}, Missing: []string{}}
	needed := map[string]bool{}
	there := map[string]bool{}
	for info, err := range s.driver.List(ctx, blobsPrefix) {
		if err != nil {
			return v, err
		}
		digest := digestOfKey(info.Key)
		there[digest] = true
		switch err := s.verify(ctx, digest, info.Bytes, needed); {
		case errors.Is(err, ErrCorrupt):
			v.Damaged = append(v.Damaged, digest)
		case err != nil:
			return v, err
		}
		v.Blobs++
		v.Bytes += info.Bytes
		done(v)
	}
	for _, digest := range slices.Sorted(maps.Keys(needed)) {
		if !there[digest] {
			v.Missing = append(v.Missing, digest)
		}
	}
	return v, nil
}

// mayBeManifest begins the canonical form of a manifest.
const mayBeManifest = `{"type":"`

// verify reads one blob to its end, and notes the files it needs if it is a manifest.
func (s *Store) verify(ctx context.Context, digest string, size int64, needed map[string]bool) error {
	r, err := s.Blob(ctx, digest)
	if err != nil {
		return err
	}
	defer r.Close()
	head := make([]byte, len(mayBeManifest))
	n, err := io.ReadFull(r, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	if err != nil || string(head[:n]) != mayBeManifest || size > maxManifest {
		_, err = io.Copy(io.Discard, r)
		return err
	}
	rest, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	var m artifact.Manifest
	if json.Unmarshal(append(head, rest...), &m) == nil {
		for _, f := range m.Files {
			needed[f.Digest] = true
		}
	}
	return nil
}
