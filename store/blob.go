package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"strings"
)

// digestPrefix names the algorithm in a digest.
const digestPrefix = "sha256:"

// spoolInMemory is the size, in bytes, up to which PutBlob buffers a blob in memory to compute its digest. Larger blobs go to a temporary
// file.
const spoolInMemory = 1 << 20

// PutBlob stores bytes by content and returns "sha256:<hex>".
func (s *Store) PutBlob(ctx context.Context, r io.Reader) (digest string, size int64, err error) {
	head, err := io.ReadAll(io.LimitReader(ctxReader{ctx, r}, spoolInMemory+1))
	if err != nil {
		return "", 0, fmt.Errorf("store a blob: %w", err)
	}
	if len(head) <= spoolInMemory {
		return s.putSeeker(ctx, bytes.NewReader(head))
	}
	spool, err := os.CreateTemp("", "sluice-blob-")
	if err != nil {
		return "", 0, fmt.Errorf("store a blob: %w", err)
	}
	defer spool.Close()
	// Unlink the file at once, so that the kernel frees it even if the process is killed.
	if err := os.Remove(spool.Name()); err != nil {
		return "", 0, fmt.Errorf("store a blob: %w", err)
	}
	if _, err := io.Copy(spool, io.MultiReader(bytes.NewReader(head), ctxReader{ctx, r})); err != nil {
		return "", 0, fmt.Errorf("store a blob: %w", writeError(err))
	}
	return s.putSeeker(ctx, spool)
}

// putSeeker stores all of r. It reads r once to compute the digest and, unless the store already has a blob of this digest and size, again
// to write it. The content of that blob is not read: Verify finds out whether it is damaged, and RemoveDamaged makes room for it.
func (s *Store) putSeeker(ctx context.Context, r io.ReadSeeker) (digest string, size int64, err error) {
	return s.put(ctx, r, func(string) (bool, error) { return true, nil })
}

// put is putSeeker. isSound reports whether a blob that has the right size is to be kept; if not, it is written again.
func (s *Store) put(ctx context.Context, r io.ReadSeeker, isSound func(digest string) (bool, error)) (digest string, size int64, err error) {
	digest, size, err = digestOf(ctx, r)
	if err != nil {
		return "", 0, err
	}
	key, err := blobKey(digest)
	if err != nil {
		return "", 0, err
	}
	if info, err := s.driver.Stat(ctx, key); err == nil && info.Bytes == size {
		sound, err := isSound(digest)
		if err == nil && sound {
			sound, err = s.reuse(ctx, key, info)
		}
		if sound || err != nil {
			return digest, size, err
		}
	}
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return "", 0, err
	}
	err = s.driver.Write(ctx, key, seekVerifier{newVerifier(r, digest), r}, WriteOptions{})
	return digest, size, err
}

func digestOf(ctx context.Context, r io.ReadSeeker) (digest string, size int64, err error) {
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return "", 0, err
	}
	sum := sha256.New()
	size, err = io.Copy(sum, ctxReader{ctx, r})
	return digestPrefix + hex.EncodeToString(sum.Sum(nil)), size, err
}

// HasBlob reports whether a blob is in the store.
func (s *Store) HasBlob(ctx context.Context, digest string) (bool, error) {
	return s.HasBlobs(ctx, []string{digest})
}

// HasBlobs reports whether the store has all of the blobs.
func (s *Store) HasBlobs(ctx context.Context, digests []string) (bool, error) {
	err := Each(ctx, len(digests), func(ctx context.Context, i int) error {
		key, err := blobKey(digests[i])
		if err == nil {
			_, err = s.driver.Stat(ctx, key)
		}
		return err
	})
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Blob opens a blob. If the content does not match the digest, the reader returns ErrCorrupt at the end instead of io.EOF. A caller that
// stops before that has not verified the content.
func (s *Store) Blob(ctx context.Context, digest string) (io.ReadCloser, error) {
	return s.blob(ctx, digest, 0)
}

// ReadBlob reads a blob to its end, where the digest is checked.
func (s *Store) ReadBlob(ctx context.Context, digest string) ([]byte, error) {
	r, err := s.Blob(ctx, digest)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// blob is like Blob. size is the size of the blob, or 0 if it is not known.
func (s *Store) blob(ctx context.Context, digest string, size int64) (io.ReadCloser, error) {
	key, err := blobKey(digest)
	if err != nil {
		return nil, err
	}
	return s.near.read(ctx, digest, size, func() (io.ReadCloser, error) {
		r, err := s.driver.Read(ctx, key)
		if err != nil {
			return nil, err
		}
		return struct {
			io.Reader
			io.Closer
		}{newVerifier(ctxReader{ctx, r}, digest), r}, nil
	})
}

// blobKey returns the key of a blob, or ErrCorrupt if digest is malformed, as in a damaged record.
func blobKey(digest string) (string, error) {
	sum, ok := strings.CutPrefix(digest, digestPrefix)
	if raw, err := hex.DecodeString(sum); !ok || err != nil || len(raw) != sha256.Size || sum != strings.ToLower(sum) {
		return "", fmt.Errorf("%q %w: it is not a digest, which has the form sha256:<64 hexadecimal digits>", digest, ErrCorrupt)
	}
	return blobsPrefix + sum[:2] + "/" + sum, nil
}

// verifier reads from r and returns ErrCorrupt at the end, instead of io.EOF, if the content does not match the digest.
type verifier struct {
	r    io.Reader
	sum  hash.Hash
	want string
}

func newVerifier(r io.Reader, digest string) *verifier {
	return &verifier{r: r, sum: sha256.New(), want: digest}
}

// seekVerifier is a verifier that can be rewound.
type seekVerifier struct {
	*verifier
	from io.Seeker
}

// Seek implements io.Seeker. The digest is only checked correctly after seeking to the start; asking for the current position is allowed,
// too.
func (v seekVerifier) Seek(offset int64, whence int) (int64, error) {
	at, err := v.from.Seek(offset, whence)
	if err == nil && at == 0 {
		v.sum.Reset()
	}
	return at, err
}

func (v *verifier) Read(p []byte) (int, error) {
	n, err := v.r.Read(p)
	v.sum.Write(p[:n])
	if errors.Is(err, io.EOF) {
		if got := digestPrefix + hex.EncodeToString(v.sum.Sum(nil)); got != v.want {
			return n, fmt.Errorf("blob %s: content %w: it is %s", v.want, ErrCorrupt, got)
		}
	}
	return n, err
}
