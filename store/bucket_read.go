package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"gocloud.dev/blob"

	"github.com/sluiceml/sluice/internal/objectstore/cloud"
)

const (
	// resumes is how many times in a row a connection may break before a reader gives up.
	resumes = 3
	// silence is how long a server may send nothing before its connection counts as broken.
	silence = 30 * time.Second
)

// bucketReader reads one version of an object. If the connection breaks, it resumes where it was, because reading a checkpoint takes
// minutes.
type bucketReader struct {
	ctx     context.Context
	driver  *bucketDriver
	key     string
	version string // once it is known
	from    *blob.Reader
	cancel  context.CancelFunc // breaks the connection of from
	at      int64
	broken  int
}

// open opens a connection at the current offset.
func (r *bucketReader) open() error {
	return r.driver.patience.retry(r.ctx, func() error {
		within, cancel := context.WithCancel(r.ctx)
		from, err := cloud.ReadVersion(within, r.driver.bucket, r.driver.at.Path+r.key, r.version, r.at, -1)
		if err != nil {
			cancel()
			return r.driver.fail(r.ctx, "read", r.key, err)
		}
		r.from, r.cancel = from, cancel
		return nil
	})
}

func (r *bucketReader) Read(p []byte) (int, error) {
	silent := time.AfterFunc(silence, r.cancel)
	n, err := r.from.Read(p)
	silent.Stop()
	r.at += int64(n)
	if n > 0 {
		r.broken = 0
	}
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	r.broken++
	// An error at the end of the object is a checksum mismatch, not a broken connection.
	if r.broken > resumes || r.at >= r.from.Size() || r.version == "" || r.ctx.Err() != nil {
		return n, r.driver.fail(r.ctx, "read", r.key, err)
	}
	r.cancel()
	r.from.Close() //nolint:errcheck // it is broken
	if err := r.open(); err != nil {
		return n, fmt.Errorf("resume at byte %d: %w", r.at, err)
	}
	return n, nil
}

// Close implements io.Closer.
func (r *bucketReader) Close() error {
	defer r.cancel()
	return r.from.Close()
}
