package compile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/sluiceml/sluice/compile/trtexec"
	"github.com/sluiceml/sluice/store"
)

// timings is the record of a timing cache: what TensorRT has measured on a platform, which it need not measure again.
type timings struct {
	trtexec.Platform
	Cache string `json:"cache"` // digest of the blob
}

// timingsKey is where the timing cache of a platform is. TensorRT takes that of no other.
func timingsKey(p trtexec.Platform) (string, error) {
	raw, err := json.Marshal(p)
	sum := sha256.Sum256(raw)
	return store.TimingsPrefix + hex.EncodeToString(sum[:8]) + ".json", err
}

// fetchTimings writes the timing cache of a platform to a file, and reports whether there is one.
func (job Job) fetchTimings(ctx context.Context, p trtexec.Platform, path string) (bool, error) {
	if job.Store == nil {
		return false, nil
	}
	key, err := timingsKey(p)
	if err != nil {
		return false, err
	}
	var record timings
	var blob io.ReadCloser
	if err = job.Store.GetJSON(ctx, key, &record); err == nil {
		blob, err = job.Store.Blob(ctx, record.Cache)
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		return false, nil // it is a cache
	case err != nil:
		return false, fmt.Errorf("the timing cache: %w", err)
	}
	defer blob.Close()
	file, err := os.Create(path)
	if err != nil {
		return false, err
	}
	_, err = io.Copy(file, blob)
	err = errors.Join(err, file.Close())
	if errors.Is(err, store.ErrCorrupt) {
		return false, os.Remove(path) // TensorRT measures again, and a good one is stored
	}
	return true, err
}

// storeTimings keeps the timing cache of a platform for the next engine. Of two that are built at once, the later one's is kept.
func (job Job) storeTimings(ctx context.Context, p trtexec.Platform, path string) error {
	if job.Store == nil {
		return nil
	}
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil // TensorRT had nothing to measure
	}
	if err != nil {
		return err
	}
	defer file.Close()
	digest, _, err := job.Store.PutBlob(ctx, file)
	if err != nil {
		return fmt.Errorf("store the timing cache: %w", err)
	}
	key, err := timingsKey(p)
	if err != nil {
		return err
	}
	return job.Store.PutJSON(ctx, key, timings{Platform: p, Cache: digest}, store.WriteOptions{})
}
