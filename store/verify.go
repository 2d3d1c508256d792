package store

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluiceml/sluice/internal/artifact"
)

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

// isDamaged reports whether the content of a blob does not match its digest. The error is ErrNotFound if there is no such blob.
func (s *Store) isDamaged(ctx context.Context, digest string) (bool, error) {
	key, err := blobKey(digest)
	if err != nil {
		return false, err
	}
	r, err := s.driver.Read(ctx, key) // and not what Near has of it
	if err != nil {
		return false, err
	}
	defer r.Close()
	_, err = io.Copy(io.Discard, newVerifier(ctxReader{ctx, r}, digest))
	if errors.Is(err, ErrCorrupt) {
		return true, nil
	}
	return false, err
}

// RemoveDamaged deletes those of the blobs that are still damaged, so that whatever makes them again stores them again, and returns their
// digests. A blob that was replaced in the meantime stays.
func (s *Store) RemoveDamaged(ctx context.Context, digests []string) (removed []string, err error) {
	for _, digest := range digests {
		key, err := blobKey(digest)
		if err != nil {
			return removed, err
		}
		before, err := s.driver.Stat(ctx, key)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return removed, err
		}
		damaged, err := s.isDamaged(ctx, digest)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return removed, err
		}
		// Reading it may have taken minutes.
		if now, err := s.driver.Stat(ctx, key); !damaged || err != nil || now != before {
			continue
		}
		if err := s.driver.Delete(ctx, key); err != nil {
			return removed, err
		}
		removed = append(removed, digest)
	}
	return removed, nil
}

// Referrer is a record that refers to a blob.
type Referrer struct {
	Key string
	// Via are the digests between them: Via[0] is in the record, and the last one is the digest of the blob.
	Via []string
}

// Referrers finds the records that refer to blobs, directly or through other blobs, by digest and in the order of their keys. This reads
// every record. A blob that no record refers to is not in the map.
func (s *Store) Referrers(ctx context.Context, digests []string) (map[string][]Referrer, error) {
	m := &marker{
		store: s, used: map[string]artifact.Type{}, done: func() {}, naming: map[string][]string{}, files: map[string]bool{},
	}
	for _, digest := range digests {
		m.files[digest] = true
	}
	// Removed records refer to nothing any more: none was removed in the future.
	if err := m.mark(ctx, time.Now().Add(100*365*24*time.Hour), func(Info) {}); err != nil {
		return nil, err
	}
	all := map[string][]Referrer{}
	for _, digest := range digests {
		found := map[string][]string{}
		seen := map[string]bool{digest: true}
		for paths := [][]string{{digest}}; len(paths) > 0; paths = paths[1:] {
			via := paths[0]
			for _, from := range m.naming[via[0]] {
				switch isBlob := strings.HasPrefix(from, digestPrefix); {
				case isBlob && !seen[from]:
					seen[from] = true
					paths = append(paths, slices.Insert(slices.Clone(via), 0, from))
				case !isBlob && found[from] == nil:
					found[from] = via
				}
			}
		}
		for _, key := range slices.Sorted(maps.Keys(found)) {
			all[digest] = append(all[digest], Referrer{Key: key, Via: found[key]})
		}
	}
	return all, nil
}
