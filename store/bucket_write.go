package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/sluiceml/sluice/internal/objectstore"
	"github.com/sluiceml/sluice/internal/objectstore/cloud"
)

const (
	// partBytes is the size of a part in a multipart upload, which is held in memory while it is sent, and partsAtOnce is how many parts of an
	// object are sent at once. S3 allows 10,000 parts.
	partBytes   = 8 << 20
	partsAtOnce = 2
	// writeMark is the metadata key of the random mark by which a write recognizes its own object.
	writeMark = "sluice-write"
	// contended is how often a conditional write is tried if S3 aborts it in favor of another one, and contendedWait is the first pause, which
	// doubles each time.
	contended     = 8
	contendedWait = 50 * time.Millisecond
)

func (d *bucketDriver) Write(ctx context.Context, key string, r io.Reader, opts WriteOptions) error {
	if err := checkKeys(key, opts); err != nil {
		return err
	}
	if opts.LinkAs == "" && !opts.IfAbsent {
		return d.put(ctx, key, r, blob.WriterOptions{})
	}
	content, ok := r.(io.ReadSeeker) // it is read more than once
	if !ok {
		data, err := io.ReadAll(ctxReader{ctx, r})
		if err != nil {
			return fmt.Errorf("write %s: %w", key, err)
		}
		content = bytes.NewReader(data)
	}
	if opts.LinkAs != "" {
		if err := d.put(ctx, opts.LinkAs, content, blob.WriterOptions{}); err != nil {
			return err
		}
		if _, err := content.Seek(0, io.SeekStart); err != nil {
			return fmt.Errorf("write %s: %w", key, err)
		}
	}
	if opts.IfAbsent {
		return d.create(ctx, key, content)
	}
	return d.put(ctx, key, content, blob.WriterOptions{})
}

// create writes an object unless its key is taken. If a response is lost, the client retries and is told that the object exists; the mark
// in the metadata then shows whether this write created it.
func (d *bucketDriver) create(ctx context.Context, key string, content io.ReadSeeker) error {
	mark := rand.Text()
	for try := range contended {
		err := d.put(ctx, key, content, blob.WriterOptions{IfNotExist: true, Metadata: map[string]string{writeMark: mark}})
		switch {
		case err == nil:
			return nil
		case cloud.Changed(err):
			return d.patience.retry(ctx, func() error {
				there, err := d.bucket.Attributes(ctx, d.at.Path+key)
				if err != nil && gcerrors.Code(err) != gcerrors.NotFound {
					return d.fail(ctx, "write", key, err)
				}
				if err == nil && there.Metadata[writeMark] == mark {
					return nil
				}
				return fmt.Errorf("write %s: %w", key, ErrExists)
			})
		case !cloud.Contended(err):
			return err
		}
		select {
		case <-time.After(contendedWait << try):
		case <-ctx.Done():
			return fmt.Errorf("write %s: %w", key, context.Cause(ctx))
		}
		if _, err := content.Seek(0, io.SeekStart); err != nil {
			return fmt.Errorf("write %s: %w", key, err)
		}
	}
	return fmt.Errorf("write %s: too many concurrent writers", key)
}

// put writes one object. It retries while the bucket is unavailable, if the content can be read again.
func (d *bucketDriver) put(ctx context.Context, key string, r io.Reader, opts blob.WriterOptions) error {
	content, ok := r.(io.Seeker)
	if !ok || d.patience == nil {
		return d.putOnce(ctx, key, r, opts)
	}
	start, err := content.Seek(0, io.SeekCurrent)
	if err != nil {
		return fmt.Errorf("write %s: %w", key, err)
	}
	return d.patience.retry(ctx, func() error {
		if _, err := content.Seek(start, io.SeekStart); err != nil {
			return fmt.Errorf("write %s: %w", key, err)
		}
		return d.putOnce(ctx, key, r, opts)
	})
}

func (d *bucketDriver) putOnce(ctx context.Context, key string, r io.Reader, opts blob.WriterOptions) error {
	if ctx.Err() != nil {
		return fmt.Errorf("write %s: %w", key, context.Cause(ctx))
	}
	within, cancel := context.WithCancel(cloud.WithRetryParts(ctx, func(send func() error) error {
		return d.patience.retry(ctx, func() error {
			err := send()
			if err != nil {
				err = d.fail(ctx, "write", key, err)
			}
			return err
		})
	}))
	defer cancel()
	from := &source{r: ctxReader{ctx, r}}
	var content io.Reader = from
	opts.ContentType, opts.BufferSize, opts.MaxConcurrency = "application/octet-stream", partBytes, partsAtOnce
	if d.at.Scheme != objectstore.S3 {
		// The clients of Google Cloud Storage and of memory take the end of the content for the end of the object, even after a read error, so
		// the upload is canceled on such an error. They also allocate the whole buffer for every object, however small.
		from.failed = cancel
		content, opts.BufferSize = sized(from)
	}
	err := d.bucket.Upload(within, d.at.Path+key, content, &opts)
	switch {
	case from.err != nil:
		return fmt.Errorf("write %s: %w", key, from.err)
	case err == nil:
		return nil
	}
	return d.fail(ctx, "write", key, err)
}

// sized returns the content of r and the buffer size that it needs: most objects are small.
func sized(r io.Reader) (content io.Reader, buffer int) {
	const small = 256 << 10 // the minimum of Google's client
	head := make([]byte, small)
	n, err := io.ReadFull(r, head)
	if err != nil { // the content has ended, or failed with an error that source has recorded
		return bytes.NewReader(head[:n]), small
	}
	return io.MultiReader(bytes.NewReader(head), r), partBytes
}

// source records the error of a reader.
type source struct {
	r      io.Reader
	failed context.CancelFunc
	err    error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
		if s.failed != nil {
			s.failed()
		}
	}
	return n, err
}
