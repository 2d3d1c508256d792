package store

import (
	"context"
	"errors"
	"fmt"
	"io"

	"gocloud.dev/blob"

	"github.com/sluiceml/sluice/internal/objectstore/cloud"
)

// resumes is how often in a row a connection may break before a reader gives up.
const resumes = 3

// bucketReader reads one version of an object, going on where it was when the connection breaks: a checkpoint takes minutes.
type bucketReader struct {
	ctx     context.Context
	driver  *bucketDriver
	key     string
	version string
	from    *blob.Reader
	at      int64
	broken  int
}

func (r *bucketReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	r.at += int64(n)
	if n > 0 {
		r.broken = 0
	}
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	r.broken++
	// At the end it is no broken connection, but a checksum that does not match.
	if r.broken > resumes || r.at >= r.from.Size() || r.version == "" || r.ctx.Err() != nil {
		return n, r.driver.fail(r.ctx, "read", r.key, err)
	}
	again, err := cloud.ReadVersion(r.ctx, r.driver.bucket, r.driver.at.Path+r.key, r.version, r.at, -1)
	if err != nil {
		return n, fmt.Errorf("go on at byte %d: %w", r.at, r.driver.fail(r.ctx, "read", r.key, err))
	}
	r.from.Close() //nolint:errcheck // it is broken
	r.from = again
	return n, nil
}

// Close implements io.Closer.
func (r *bucketReader) Close() error { return r.from.Close() }
