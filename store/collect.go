package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	return s.infos(ctx, blobsPrefix, func(info Info) bool {
		_, needed := used[digestOfKey(info.Key)]
		return !needed && info.Modified.Before(before)
	})
}

// digestOfKey returns the digest of the blob under key.
func digestOfKey(key string) string { return digestPrefix + key[strings.LastIndexByte(key, '/')+1:] }

// referenced returns the digests that can be reached from records. The value is the type of the artifact that contains the file, the first
// by name if there are several, and empty for any other blob. It calls listed for every object of the store, and read, concurrently, after
// each record.
func (s *Store) referenced(ctx context.Context, before time.Time, listed func(Info), read func()) (map[string]artifact.Type, error) {
	m := &marker{store: s, used: map[string]artifact.Type{}, done: read}
	return m.used, m.mark(ctx, before, listed)
}

// mark reads what can be reached from records, and from those that were removed since a time.
func (m *marker) mark(ctx context.Context, before time.Time, listed func(Info)) error {
	s := m.store
	records, err := s.infos(ctx, "", func(info Info) bool {
		listed(info)
		return !slices.ContainsFunc(contents, func(prefix string) bool { return strings.HasPrefix(info.Key, prefix) })
	})
	if err == nil {
		err = m.read(ctx, records)
	}
	if err != nil {
		return err
	}
	// Read these after the records, to include what records that were removed in the meantime referred to.
	forgotten, err := s.infos(ctx, forgottenPrefix, func(info Info) bool { return !info.Modified.Before(before) })
	if err == nil {
		err = m.read(ctx, forgotten)
	}
	for err == nil && len(m.todo) > 0 {
		todo := m.todo
		m.todo = nil
		err = Each(ctx, len(todo), func(ctx context.Context, i int) error { return m.follow(ctx, todo[i]) })
	}
	return err
}

// Naming lists the keys of the records under prefix that contain one of the digests.
func (s *Store) Naming(ctx context.Context, prefix string, digests []string) ([]string, error) {
	records, err := s.infos(ctx, prefix, func(Info) bool { return true })
	if err != nil {
		return nil, err
	}
	names := make([]bool, len(records))
	err = Each(ctx, len(records), func(ctx context.Context, i int) error {
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
	// naming, if not nil, collects what names a digest: keys of records, and digests of blobs. Of the files of artifacts, which are many,
	// it has only those in files.
	naming map[string][]string
	files  map[string]bool
}

// read adds the digests in the records.
func (m *marker) read(ctx context.Context, records []Info) error {
	return Each(ctx, len(records), func(ctx context.Context, i int) error {
		text, err := m.store.readAll(ctx, records[i].Key, records[i].Bytes)
		m.done()
		if errors.Is(err, ErrNotFound) {
			return nil // removed meanwhile
		}
		m.add(records[i].Key, text)
		return err
	})
}

// add adds the digests in the text of a record, or of a blob that a record refers to.
func (m *marker) add(from string, text []byte) {
	found := digestIn.FindAll(text, -1)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, digest := range found {
		digest := string(digest)
		m.note(from, digest)
		if _, known := m.used[digest]; !known {
			m.used[digest] = ""
			m.todo = append(m.todo, digest)
		}
	}
}

// note notes that from names a digest. m.mu is held.
func (m *marker) note(from, digest string) {
	if m.naming == nil {
		return
	}
	// A text may name a digest more than once.
	if named := m.naming[digest]; len(named) == 0 || named[len(named)-1] != from {
		m.naming[digest] = append(named, from)
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
			if m.files[f.Digest] {
				m.note(digest, f.Digest)
			}
			if typ := m.used[f.Digest]; typ == "" || manifest.Type < typ {
				m.used[f.Digest] = manifest.Type
			}
		}
		return nil
	}
	m.add(digest, text)
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
